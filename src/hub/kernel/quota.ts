/**
 * What a party may have the hub write within a day (UTC), so that no party fills the disk that all of them share.
 *
 * QUOTA-1  A push counts the bodies that it writes, in the event and in the row of the object, and `recordSize` for
 *     what is recorded beside them. A small fragment of a large object therefore counts the object.
 * QUOTA-2  Beyond the quota the pushes of that party alone are refused, until the day ends.
 * QUOTA-3  From `warnedFrom` of the quota on, the day has one warning in the log and one event.
 * QUOTA-4  Each process counts what it took itself, since its start: a restart begins anew, and several nodes grant as
 *     many quotas.
 * QUOTA-5  What is recorded of its refused pushes and of authorizations counts, too. Beyond the quota the body of a refused
 *     push and the fact of an authorization are not recorded; the authorization itself is never refused for that.
 * QUOTA-6  An act in the portal counts what the audit log has of it. Beyond the quota it is refused; a sign-in is not, and
 *     has a line of the log alone.
 * QUOTA-7  An exchange of credentials counts what it records. Beyond the quota the partner's are refused.
 */
import { HubError } from '../../domain/errors.ts';
import type { PartyId } from '../../domain/party.ts';
import { dayMs } from '../../kit/clock.ts';
import type { Context } from './context.ts';

/** Characters that an event and its row take beside their bodies. */
const recordSize = 1024;
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
