/**
 * What tests of a whole hub look at: what reached a partner, and that nothing more is under way.
 */
import type { HubAddress } from './caller.ts';
import type { TestHub } from './hub-in-process.ts';
import { type Answer, admin, eventually, type PlainPartner, type Received } from './plain-partner.ts';

/** Resolves when nothing is owed to anyone: what has not arrived by then was never sent. */
export async function quiet(hub: HubAddress | TestHub): Promise<void> {
  if ('settled' in hub) await hub.settled(...hub.partners);
  // What is left is tried again soon, by the system's clock.
  await eventually('nothing is owed any more', async () => {
    const { backlog } = (await admin(hub, 'GET', '/status')) as { backlog: { depth: number } };
    return backlog.depth === 0;
  });
}

/** What is shown of a pull or a job, by its path, once it runs no more. */
export async function ended(hub: HubAddress, path: string): Promise<Record<string, unknown>> {
  let shown: Record<string, unknown> = {};
  await eventually(`${path} has ended`, async () => {
    shown = await admin(hub, 'GET', path);
    return shown.state !== 'RUNNING';
  });
  return shown;
}

/** Calls to one module of a partner, oldest first. */
export function callsTo(partner: PlainPartner, module: string): Received[] {
  return partner.received.filter(({ path }) => new RegExp(`^/ocpi/2\\.2\\.1/${module}(?:[/?]|$)`).test(path));
}

/** What a partner got while `work` ran and until nothing was owed any more. */
export async function arrivals(
  hub: HubAddress,
  partner: PlainPartner,
  work: () => Promise<unknown>,
): Promise<readonly Received[]> {
  const before = partner.received.length;
  await work();
  await quiet(hub);
  return partner.received.slice(before);
}

/** `METHOD /path` of each call, the path as it came. */
export const lines = (calls: readonly Received[]): string[] => calls.map(({ method, path }) => `${method} ${path}`);

/** HTTP status and OCPI status code, e.g. `404/2003`. */
export const statusOf = ({ status, json }: Answer): string => `${status}/${json.status_code}`;

/** `data` of a success of the hub, byte for byte as it came. */
export function dataText({ text }: Pick<Answer, 'text'>): string {
  return text.slice('{"data":'.length, text.lastIndexOf(',"status_code":1000'));
}

/** Ids (or uids) of a list's answer, in its order. */
export function idsOf({ json }: Answer): string[] {
  return (json.data as { id?: string; uid?: string }[]).map(({ id, uid }) => id ?? uid ?? '');
}

/** All items of a list of the admin API. */
export async function itemsOf(hub: HubAddress, path: string): Promise<Record<string, unknown>[]> {
  const found: Record<string, unknown>[] = [];
  let cursor: unknown = null;
  do {
    const glue = path.includes('?') ? '&' : '?';
    const page = await admin(hub, 'GET', cursor === null ? path : `${path}${glue}cursor=${String(cursor)}`);
    found.push(...(page.items as Record<string, unknown>[]));
    cursor = page.next_cursor ?? null;
  } while (cursor !== null);
  return found;
}

/** The URLs of a Link header by their relation, in the order in which they stand. */
export function linksOf({ headers }: Pick<Answer, 'headers'>): Map<string, string> {
  const found = (headers.get('link') ?? '').matchAll(/<([^>]*)>;\s*rel="([^"]*)"/g);
  return new Map([...found].map(([, url = '', rel = '']) => [rel, url]));
}

/** Warnings noted about the pushes of an object (`{cc}-{pid}/{id}`), oldest first, all in one list. */
export async function warningsAbout(hub: HubAddress, object: string): Promise<string[]> {
  const events = await itemsOf(hub, `/events?type=object&object=${object}`);
  return events.flatMap(({ data }) => (data as { warnings: string[] }).warnings);
}
