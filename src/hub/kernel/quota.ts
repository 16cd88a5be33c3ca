/**
 * What a party may have the hub write within a day (UTC), and how many objects it may have stored, so that no party fills the disk that all of them share.
 *
 * QUOTA-1  A push counts the bodies that it writes, in the event and in the row of the object, and `recordSize` for
 *     what is recorded beside them. A small fragment of a large object therefore counts the object.
 * QUOTA-2  Beyond the quota the pushes of that party alone are refused, until the day ends.
 * QUOTA-3  From `warnedFrom` of the quota on, the day has one warning in the log and one event.
 * QUOTA-4  Each process counts what it took itself, since its start: a restart begins again, and several nodes grant as
 *     many quotas.
 * QUOTA-5  What is recorded of its refused pushes and of authorizations counts, too. Beyond the quota the body of a refused
 *     push and the fact of an authorization are not recorded; the authorization itself is never refused for that.
 * QUOTA-6  An act in the portal counts what the audit log has of it. Beyond the quota it is refused; a sign-in is not, and
 *     has a line of the log alone.
 * QUOTA-7  An exchange of credentials counts what it records. Beyond the quota the partner's are refused.
 * QUOTA-8  A push that would add an object beyond the quota is refused, of that party alone; changes and
 *     removals of what it has are accepted, and a pull of an operator is not refused.
 * QUOTA-9  Before a push is refused the party's rows are counted again, unless that was done less than `exactMs`
 *     ago and nothing changed meanwhile. Otherwise a count may miss what expired and what other nodes added.
 * QUOTA-10  From `warnedFrom` of the quota on, the log has one warning, until the party has fewer.
 * QUOTA-11  Without a quota nothing is counted. With one, the rows of a party are counted once for each
 *     `renewedMs` in which it adds objects, beginning with the first after a start, those of one party at a time;
 *     meanwhile its pushes are accepted.
 */
import { HubError } from '../../domain/errors.ts';
import { moduleNames } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import { dayMs, hourMs } from '../../kit/clock.ts';
import { Limit } from '../../kit/concurrency.ts';
import type { Context } from './context.ts';

/** Characters that an event and its row take beside their bodies. */
const recordSize = 1024;
/** Share of a quota from which it is warned of. */
const warnedFrom = 0.8;
const megabyte = 1_000_000;

export interface Quota {
  hasRoom(party: PartyId): boolean;
  /** Refuses with `quotaExceeded` when the party has used up the day. */
  check(party: PartyId): void;
  /** Counts the characters of bodies that are written for the party, and `recordSize`. */
  spend(party: PartyId, characters: number): void;
  /** What each party has used today, as a share of the quota; without those that used nothing. */
  shares(): ReadonlyMap<PartyId, number>;
}

export function quota({ ports, recorder, settings }: Pick<Context, 'ports' | 'recorder' | 'settings'>): Quota {
  const { clock, log } = ports;
  const most = settings.quotaMbPerDay === 0 ? Number.POSITIVE_INFINITY : settings.quotaMbPerDay * megabyte;
  let used = new Map<PartyId, number>();
  let day = Number.NaN;

  const today = (): Map<PartyId, number> => {
    const now = Math.floor(clock.now() / dayMs);
    if (now !== day) [day, used] = [now, new Map()];
    return used;
  };

  function warn(party: PartyId, characters: number): void {
    const mb = Math.round(characters / megabyte);
    log.warn({ partyId: party, mb, mbPerDay: settings.quotaMbPerDay }, 'a party has used most of its quota of the day');
    const data = { party, mb, mb_per_day: settings.quotaMbPerDay };
    const facts = [{ stream: `quota:${party}`, event: { type: 'quota.warned' as const, data }, party }];
    recorder.note({ facts, trace: null, unfenced: true });
  }

  const hasRoom = (party: PartyId): boolean => (today().get(party) ?? 0) < most;

  return {
    hasRoom,
    check(party) {
      if (hasRoom(party)) return;
      throw new HubError('quotaExceeded', { retryAfterS: (dayMs - (clock.now() % dayMs)) / 1000 });
    },
    spend(party, characters) {
      const before = today().get(party) ?? 0;
      const now = before + characters + recordSize;
      used.set(party, now);
      if (before < most * warnedFrom && now >= most * warnedFrom) warn(party, now);
    },
    shares: () => new Map([...today()].map(([party, characters]) => [party, characters / most])),
  };
}

// How many objects a party may have stored, so that no party fills the store that all of them share, nor the memory that holds the order of
// its lists.

const exactMs = hourMs;
const renewedMs = dayMs;

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
