/**
 * How many objects a party may have stored, so that no party fills the store that all of them share, nor the memory that holds the order of
 * its lists.
 *
 * OBJECT-QUOTA-1  A push that would add an object beyond the quota is refused, of that party alone; changes and
 *     removals of what it has are accepted, and a pull of an operator is not refused.
 * OBJECT-QUOTA-2  Before a push is refused the party's rows are counted anew, unless that was done less than `exactMs`
 *     ago and nothing changed meanwhile. Otherwise a count may miss what expired and what other nodes added.
 * OBJECT-QUOTA-3  From `warnedFrom` of the quota on, the log has one warning, until the party has fewer.
 * OBJECT-QUOTA-4  Without a quota nothing is counted. With one, the rows of a party are counted once for each
 *     `renewedMs` in which it adds objects, beginning with the first after a start, those of one party at a time;
 *     meanwhile its pushes are accepted.
 */
import { HubError } from '../../domain/errors.ts';
import { moduleNames } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import { Limit } from '../../kit/concurrency.ts';
import type { Context } from '../kernel/context.ts';

const warnedFrom = 0.8;
const exactMs = 3_600_000;
const renewedMs = 86_400_000;

interface Count {
  objects: number;
  /** Hub time of the count; null while the rows are counted for the first time. */
  at: number | null;
  /** No write was under way while the rows were counted. */
  isExact: boolean;
  /** Writes that change the count: how many have begun, and how many of them have not ended. */
  writes: number;
  underWay: number;
  isWarned: boolean;
  counting: Promise<void> | null;
}

export interface ObjectQuota {
  /** A push adds an object: refuses with `objectsExceeded` when the party has as many as it may. */
  check(party: PartyId): Promise<void>;
  /** A write gives a party an object more, or fewer. Resolves and rejects with the write. */
  changed(party: PartyId, by: 1 | -1, write: Promise<unknown>): Promise<void>;
  /** Objects of each counted party, as a share of the quota; empty without one. */
  shares(): ReadonlyMap<PartyId, number>;
}

export function objectQuota({ store, ports, settings }: Pick<Context, 'store' | 'ports' | 'settings'>): ObjectQuota {
  const { clock, log } = ports;
  const most = settings.objectsPerParty;
  const counts = new Map<PartyId, Count>();
  const oneAtATime = new Limit(1);

  async function recount(party: PartyId, count: Count): Promise<void> {
    const { objects: before, writes, underWay } = count;
    let stored = 0;
    for (const module of moduleNames) stored += await store.count(module, party);
    // What was written while the rows were counted may have been counted or not.
    const isExact = underWay === 0 && count.writes === writes;
    Object.assign(count, { objects: stored + count.objects - before, at: clock.now(), isExact });
    if (count.objects < most * warnedFrom) count.isWarned = false;
    warn(party, count);
  }

  function begin(party: PartyId, count: Count): Promise<void> {
    count.counting ??= oneAtATime
      .run(() => recount(party, count))
      .catch((error: unknown) =>
        log.error({ err: error, partyId: party }, 'the objects of a party could not be counted'),
      )
      .finally(() => (count.counting = null));
    return count.counting;
  }

  function warn(party: PartyId, count: Count): void {
    if (count.isWarned || count.objects < most * warnedFrom) return;
    count.isWarned = true;
    log.warn({ partyId: party, objects: count.objects, most }, 'a party has most of the objects that it may have');
  }

  function countOf(party: PartyId): Count {
    const count = counts.get(party) ?? {
      objects: 0,
      at: null,
      isExact: false,
      writes: 0,
      underWay: 0,
      isWarned: false,
      counting: null,
    };
    counts.set(party, count);
    return count;
  }

  return {
    async check(party) {
      if (most === 0) return;
      const count = countOf(party);
      const ageMs = count.at === null ? Number.POSITIVE_INFINITY : clock.now() - count.at;
      if (ageMs >= renewedMs) void begin(party, count);
      if (count.at === null || count.objects < most) return;
      if (ageMs >= exactMs || !count.isExact) await begin(party, count);
      if (count.objects >= most) throw new HubError('objectsExceeded');
    },
    async changed(party, by, write) {
      if (most === 0) return void (await write);
      const count = countOf(party);
      count.writes += 1;
      count.underWay += 1;
      try {
        await write;
        count.objects += by;
      } finally {
        count.underWay -= 1;
      }
      warn(party, count);
    },
    shares: () =>
      new Map(
        [...counts].flatMap(([party, { objects, at }]) => (at === null ? [] : [[party, objects / most] as const])),
      ),
  };
}
