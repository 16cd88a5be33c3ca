/**
 * Changes of the host of a partner's `url` by a rotation: whoever holds a leaked hub token can make one, and so take the
 * partner over. [D73, D87]
 *
 * HOST-CHANGES-1  A change leaves an event before it takes effect.
 * HOST-CHANGES-2  While it waits for an operator, nothing changes and the new host is not called.
 * HOST-CHANGES-3  An operator confirms one host; a rotation to any other waits.
 */
import { HubError } from '../../domain/errors.ts';
import { hostOf, type Partner, type PartnerEvent } from '../../domain/party.ts';
import type { Trace } from '../../domain/trace.ts';
import type { Context } from '../kernel/context.ts';

/** Records an event of a partner, and resolves with the partner after it. */
type RecordPartner = (before: Partner, event: PartnerEvent, trace: Trace) => Promise<Partner>;

/** Call its methods in the partner's turn. */
export class HostChanges {
  readonly #context: Context;
  readonly #record: RecordPartner;

  constructor(context: Context, record: RecordPartner) {
    this.#context = context;
    this.#record = record;
  }

  /** Throws `hostChangeWaits` when a rotation to `url` waits for an operator, and records that it was asked for. */
  async mayMove(partner: Partner, url: string, trace: Trace): Promise<void> {
    const { meter, log } = this.#context.ports;
    const move = moveOf(partner, url);
    if (!move || !this.#mustWait(partner, move.to)) return;
    const { hostChange } = partner;
    if (hostChange?.state !== 'waiting' || hostChange.to !== move.to) {
      await this.#record(partner, { type: 'partner.hostChangeAsked', data: move }, trace);
      log.warn({ partyId: partner.id, ...move }, 'a change of host waits for an operator');
    }
    meter.hostChanged('waiting');
    throw new HubError('hostChangeWaits');
  }

  /** Records the change that a rotation to `url` is about to make, if it makes one; throws `hostChangeWaits`. */
  async made(partner: Partner, url: string, trace: Trace): Promise<Partner> {
    const { meter, log } = this.#context.ports;
    const move = moveOf(partner, url);
    if (!move) return partner;
    if (this.#mustWait(partner, move.to)) throw new HubError('hostChangeWaits');
    const changed = await this.#record(partner, { type: 'partner.hostChanged', data: move }, trace);
    meter.hostChanged('made');
    log.warn({ partyId: partner.id, ...move }, 'a partner changed the host of its url');
    return changed;
  }

  /**
   * Confirms a change: the one that waits, or the one that was made. With `host`, also one that no rotation has asked for
   * yet. Throws `conflict` when there is none, or another.
   */
  async confirm(partner: Partner, host: string | undefined, trace: Trace): Promise<Partner> {
    const { hostChange: change, url } = partner;
    const to = host ?? change?.to;
    if (to === undefined || url === null) throw new HubError('conflict', { message: 'no change of host waits' });
    if (change && change.to !== to)
      throw new HubError('conflict', { message: `the change of host that waits is to ${change.to}` });
    const data = { from: change?.from ?? hostOf(url), to };
    return this.#record(partner, { type: 'partner.hostConfirmed', data }, trace);
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
