/**
 * Completes the beginning of an id to the one that is meant. A whole id wins at once; several candidates are wrong usage and are
 * listed; none is a failure with a word on where to look.
 */
import type { CommandItem, Delivery, EventItem, Job, Orphan, Page, Party } from './answers.ts';
import { Failure, type HubClient } from './client.ts';

interface Kind {
  readonly name: string;
  /** Shows those there are. */
  readonly lister: string;
  readonly path: string;
  /** Ids that begin so; more than are needed to tell that it is ambiguous may be left out. */
  candidates(hub: HubClient, prefix: string): Promise<string[]>;
}

/** How far back the newest of a kind are looked through. */
const lookedThrough = 5000;
const shown = 10;

export const kinds = {
  delivery: { name: 'delivery', lister: 'deliveries list', path: '/deliveries', candidates: deliveries },
  orphan: { name: 'orphan case', lister: 'orphans list', path: '', candidates: idsOf<Orphan>('/orphans') },
  command: { name: 'command', lister: 'commands list', path: '/commands', candidates: idsOf<CommandItem>('/commands') },
  party: { name: 'party', lister: 'parties list', path: '/parties', candidates: idsOf<Party>('/parties') },
  job: { name: 'job', lister: 'jobs list', path: '/redrives', candidates: jobs },
} as const satisfies Record<string, Kind>;

/** The id that is meant. Fails when it is unknown (exit 1) or ambiguous (exit 2). */
export async function complete(hub: HubClient, kind: Kind, given: string): Promise<string> {
  if (kind.path !== '' && (await isThere(hub, `${kind.path}/${encodeURIComponent(given)}`))) return given;
  const found = [...new Set(await kind.candidates(hub, given))];
  const same = found.find((id) => id.toLowerCase() === given.toLowerCase());
  const [only, ...others] = found;
  if (same !== undefined) return same;
  if (only === undefined) {
    throw new Failure(`there is no ${kind.name} "${given}": ocpi-hub ${kind.lister} shows those there are`);
  }
  if (others.length === 0) return only;
  const more = found.length > shown ? [`  … and ${found.length - shown} more`] : [];
  const listed = found.slice(0, shown).map((id) => `  ${id}`);
  throw new Failure([`"${given}" may be any of these, say more of the id:`, ...listed, ...more].join('\n'), {
    exitCode: 2,
  });
}

async function isThere(hub: HubClient, path: string): Promise<boolean> {
  try {
    await hub.get(path);
    return true;
  } catch (error) {
    if (error instanceof Failure && error.status === 404) return false;
    throw error;
  }
}

function idsOf<T extends { readonly id: string }>(path: string) {
  return async (hub: HubClient, prefix: string): Promise<string[]> => {
    const { items } = await hub.list<T>(path, {}, lookedThrough);
    return items.map(({ id }) => id).filter((id) => begins(id, prefix));
  };
}

/** A delivery's id begins with the sequence of its event, which tells when it was accepted. */
async function deliveries(hub: HubClient, prefix: string): Promise<string[]> {
  const [, seq] = /^(\d{1,15})(?:-|$)/.exec(prefix) ?? [];
  if (seq === undefined) return [];
  const event = await eventAt(hub, Number(seq));
  if (event?.seq === Number(seq)) {
    const to = new Date(Date.parse(event.at) + 1).toISOString();
    const { items } = await hub.list<Delivery>('/deliveries', { from: event.at, to }, lookedThrough);
    const own = items.filter((each) => each.seq === event.seq && begins(each.id, prefix));
    if (own.length > 0) return own.map(({ id }) => id);
  }
  return event?.seq === Number(seq) && prefix.includes('-') ? [] : idsOf<Delivery>('/deliveries')(hub, prefix);
}

/** The next one where it is not kept; none behind the end of the log. */
async function eventAt(hub: HubClient, seq: number): Promise<EventItem | undefined> {
  try {
    return (await hub.get<Page<EventItem>>('/events', { after: Math.max(0, seq - 1), limit: 1 })).items[0];
  } catch (error) {
    if (error instanceof Failure && error.status === 422) return undefined;
    throw error;
  }
}

/** Jobs are not listed by the hub, but each has left a fact in the log. */
async function jobs(hub: HubClient, prefix: string): Promise<string[]> {
  return (await jobIds(hub)).filter((id) => begins(id, prefix));
}

/** Of every job that the log still has, oldest first. */
export async function jobIds(hub: HubClient): Promise<string[]> {
  const found: string[] = [];
  for await (const { data } of hub.lines<EventItem>('/events', { type: 'job.started' })) found.push((data as Job).id);
  return found;
}

function begins(id: string, prefix: string): boolean {
  return id.toLowerCase().startsWith(prefix.toLowerCase());
}
