/**
 * Records the events of partners, among them changes of the host of a partner's `url` by a rotation. [D73, D87]
 *
 * PARTNER-RECORDER-1  What belongs together is one commit: after a kill all of it is there, or none.
 * PARTNER-RECORDER-2  A change of the host leaves an event, in one commit with the rotation that makes it: neither is there without the
 *     other, and a confirmation is used up by a rotation alone.
 * PARTNER-RECORDER-3  While it waits for an operator, nothing changes and the new host is not called.
 * PARTNER-RECORDER-4  An operator confirms one host; a rotation to any other waits. What is recorded of it counts against the partner's
 *     quota. [QUOTA-7]
 */
import type { Seq } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { applyToPartner, hostOf, type Partner, type PartnerEvent, type PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import { partnerStream } from '../kernel/directory.ts';
import type { Quota } from '../kernel/quota.ts';
import type { Recording } from '../kernel/recorder.ts';
import { partnerPut } from '../kernel/row-codecs.ts';
import type { PartnerActors } from '../partners/partner-actors.ts';

export type PartnerEvents = readonly [PartnerEvent, ...PartnerEvent[]];

/**
 * `dispatched`: what else follows from the change of a partner; it must not throw. [RECORDER-7] `late`: what the caller
 * gets when the change is not dispatched in time. [RECORDER-8]
 */
export type PartnerRecording = Pick<Recording, 'due' | 'unfenced' | 'seen'> & {
  readonly dispatched?: (partner: Partner) => void;
  readonly late?: 'refuse' | 'answer';
};

/** Records events of a partner in one commit, and sends them to its actor; resolves with the partner after them. */
export type RecordPartner = (
  before: Partner | null,
  events: PartnerEvents,
  trace: Trace | null,
  recording?: PartnerRecording,
) => Promise<Partner>;

export function partnerRecorder(context: Context, actors: PartnerActors): RecordPartner {
  const { recorder, supervisor, directory, ports } = context;
  return async (before, events, trace, { dispatched = () => {}, late, seen = [], ...rest } = {}) => {
    const at = recorder.instant();
    const partner = changed(before, events, at);
    const stream = partnerStream(partner.id);
    const facts = events.map((event) => ({ stream, event, party: partner.id }));
    const decided = { seen: [directory.seenOf(partner.id), ...seen], ...rest };
    const recording = { facts, puts: [partnerPut(partner)], ...decided, trace, at };
    const follow = (last: Seq) => {
      for (const [index, { type }] of events.entries()) {
        const seq = last - events.length + 1 + index;
        if (type === 'partner.added') actors.start(partner);
        else supervisor.send(stream, { type, at: ports.clock.steady(Date.parse(at)), seq });
      }
      dispatched(partner);
    };
    await recorder.recordDirectory(recording, follow, late);
    return partner;
  };
}

function changed(before: Partner | null, [first, ...others]: PartnerEvents, at: string): Partner {
  let partner = applyToPartner(before, first, at);
  for (const event of others) partner = applyToPartner(partner, event, at);
  return partner;
}

// Changes of the host of a partner's `url` by a rotation: anybody with a leaked hub token can make one, and so take the
// partner over. [D73, D87]

type HostChanged = PartnerEvent & { readonly type: 'partner.hostChanged' };

/** Call its methods in the partner's turn. */
export class HostChanges {
  readonly #context: Context;
  readonly #record: RecordPartner;
  readonly #quota: Pick<Quota, 'spend'>;

  constructor(context: Context, record: RecordPartner, quota: Pick<Quota, 'spend'>) {
    this.#context = context;
    this.#record = record;
    this.#quota = quota;
  }

  /** Throws `hostChangeWaits` when a rotation to `url` waits for an operator, and records that it was asked for. */
  async mayMove(partner: Partner, url: string, trace: Trace): Promise<void> {
    const { meter, log } = this.#context.ports;
    const move = moveOf(partner, url);
    if (!move || !this.#mustWait(partner, move.to)) return;
    const { hostChange } = partner;
    if (hostChange?.state !== 'waiting' || hostChange.to !== move.to) {
      await this.#record(partner, [{ type: 'partner.hostChangeAsked', data: move }], trace);
      this.#quota.spend(partner.id, JSON.stringify(move).length);
      log.warn({ partyId: partner.id, ...move }, 'a change of host waits for an operator');
    }
    meter.hostChanged('waiting');
    throw new HubError('hostChangeWaits');
  }

  /** The event of the change that a rotation to `url` makes; undefined when it makes none. Throws `hostChangeWaits`. */
  move(partner: Partner, url: string): HostChanged | undefined {
    const move = moveOf(partner, url);
    if (!move) return undefined;
    if (this.#mustWait(partner, move.to)) throw new HubError('hostChangeWaits');
    return { type: 'partner.hostChanged', data: move };
  }

  /** The change was recorded. */
  made(partyId: PartyId, { data }: HostChanged): void {
    const { meter, log } = this.#context.ports;
    meter.hostChanged('made');
    log.warn({ partyId, ...data }, 'a partner changed the host of its url');
  }

  /**
   * Confirms a change: the one that waits, or the one that was made. With `host`, also one that no rotation has asked for
   * yet, in place of another one that was. Throws `conflict` when there is none, or another waits or was made.
   */
  async confirm(partner: Partner, host: string | undefined, trace: Trace): Promise<Partner> {
    const { hostChange: change, url } = partner;
    const to = host ?? change?.to;
    if (to === undefined || url === null) throw new HubError('conflict', { message: 'no change of host waits' });
    if (change && change.state !== 'confirmed' && change.to !== to)
      throw new HubError('conflict', { message: `the change of host that waits is to ${change.to}` });
    const data = { from: change?.from ?? hostOf(url), to };
    return this.#record(partner, [{ type: 'partner.hostConfirmed', data }], trace);
  }

  #mustWait({ hostChange }: Partner, to: string): boolean {
    const isConfirmed = hostChange?.state === 'confirmed' && hostChange.to === to;
    return this.#context.settings.confirmHostChange && !isConfirmed;
  }
}

/** The change of host that a rotation to `url` makes; null when it makes none. */
function moveOf(partner: Partner, url: string): { from: string; to: string } | null {
  if (partner.url === null || hostOf(partner.url) === hostOf(url)) return null;
  return { from: hostOf(partner.url), to: hostOf(url) };
}
