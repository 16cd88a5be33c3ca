/**
 * Completes the prefix of an id to the full id. A full id wins at once; several candidates are wrong usage and are
 * listed; no candidate is a failure that names the verb to list ids with.
 */
import type { Page } from '../api/common.ts';
import type { DeliveryView } from '../api/deliveries.ts';
import type { EventView } from '../api/events.ts';
import type { JobView } from '../api/jobs.ts';
import type { PartyView } from '../api/parties.ts';
import { Failure, type HubClient, type Query } from './client.ts';

interface Kind {
  readonly name: string;
  /** The verb that lists the ids of this kind; the error message names it. */
  readonly lister: string;
  /** Of the list in the admin API; that of one item has its id behind it. */
  readonly path: string;
  /** The id for one that was given in full; null when there is none. Absent: the path of the item says. */
  full?(hub: HubClient, given: string): Promise<string | null>;
  /**
   * Ids that begin with the prefix. May return a part of them when that part already shows that the prefix is
   * ambiguous.
   */
  candidates(hub: HubClient, prefix: string): Promise<string[]>;
}

const uuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i;
/** How many items of a kind are searched for the prefix, the first of their list; another id must be given in full. */
const lookedThrough = 5000;
const shown = 10;

export const kinds = {
  delivery: { name: 'delivery', lister: 'deliveries list', path: '/deliveries', candidates: deliveries },
  orphan: { name: 'orphan case', lister: 'orphans list', path: '/orphans', full: byForm, candidates: orphans },
  command: { name: 'command', lister: 'commands list', path: '/commands', candidates: idsOf('/commands') },
  party: { name: 'party', lister: 'parties list', path: '/parties', full: partnerOf, candidates: idsOf('/parties') },
  job: { name: 'job', lister: 'jobs list', path: '/redrives', candidates: jobs },
} as const satisfies Record<string, Kind>;

/** Completes an id; that of a party is its partner's. Throws a `Failure` when the id is unknown (exit 1) or ambiguous (exit 2). */
export async function complete(hub: HubClient, kind: Kind, given: string): Promise<string> {
  const full = kind.full ? await kind.full(hub, given) : (await hub.has(itemPath(kind, given))) && given;
  if (full) return full;
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

const itemPath = ({ path }: Kind, id: string) => `${path}/${encodeURIComponent(id)}`;

/** Path of an item in the admin API; completes the prefix of an id. */
export async function pathOf(hub: HubClient, kind: Kind, given: string): Promise<string> {
  return itemPath(kind, await complete(hub, kind, given));
}

export const partyPath = (hub: HubClient, given: string) => pathOf(hub, kinds.party, given);

/** No path says whether there is such a case: what has the form of an id is taken for one. */
async function byForm(_: HubClient, given: string): Promise<string | null> {
  return uuid.test(given) ? given.toLowerCase() : null;
}

/** The id of a partner, for that of any of its parties: acts take no other. */
async function partnerOf(hub: HubClient, given: string): Promise<string | null> {
  try {
    return (await hub.get<PartyView>(itemPath(kinds.party, given))).id;
  } catch (error) {
    if (error instanceof Failure && error.status === 404) return null;
    throw error;
  }
}

function idsOf(path: string, query: Query = {}) {
  return async (hub: HubClient, prefix: string): Promise<string[]> => {
    const { items } = await hub.list<{ readonly id: string }>(path, query, lookedThrough);
    return items.map(({ id }) => id).filter((id) => begins(id, prefix));
  };
}

/** Open cases are few among those that were resolved, and verbs that take an id are for them. */
async function orphans(hub: HubClient, prefix: string): Promise<string[]> {
  for (const query of [{ state: 'OPEN' }, {}]) {
    const found = await idsOf('/orphans', query)(hub, prefix);
    if (found.length > 0) return found;
  }
  return [];
}

/** A delivery's id begins with the sequence of its event; the event's time bounds the list that is searched. */
async function deliveries(hub: HubClient, prefix: string): Promise<string[]> {
  const [, seq] = /^(\d{1,15})(?:-|$)/.exec(prefix) ?? [];
  if (seq === undefined) return [];
  const event = await eventAt(hub, Number(seq));
  if (event?.seq === Number(seq)) {
    const to = new Date(Date.parse(event.at) + 1).toISOString();
    const { items } = await hub.list<DeliveryView>('/deliveries', { from: event.at, to }, lookedThrough);
    const own = items.filter((each) => each.seq === event.seq && begins(each.id, prefix));
    if (own.length > 0) return own.map(({ id }) => id);
  }
  return event?.seq === Number(seq) && prefix.includes('-') ? [] : idsOf('/deliveries')(hub, prefix);
}

/** The event with this sequence, the next one when compaction removed it, or undefined beyond the end of the log. */
async function eventAt(hub: HubClient, seq: number): Promise<EventView | undefined> {
  try {
    return (await hub.get<Page<EventView>>('/events', { after: Math.max(0, seq - 1), limit: 1 })).items[0];
  } catch (error) {
    if (error instanceof Failure && error.status === 422) return undefined;
    throw error;
  }
}

/** The admin API lists no jobs, but each job leaves a `job.started` event in the log. */
async function jobs(hub: HubClient, prefix: string): Promise<string[]> {
  return (await jobIds(hub)).filter((id) => begins(id, prefix));
}

/** Ids of all jobs that the log still holds, oldest first. */
export async function jobIds(hub: HubClient): Promise<string[]> {
  const { items } = await hub.list<EventView>('/events', { type: 'job.started' }, Number.POSITIVE_INFINITY);
  return items.map(({ data }) => (data as JobView).id);
}

function begins(id: string, prefix: string): boolean {
  return id.toLowerCase().startsWith(prefix.toLowerCase());
}
