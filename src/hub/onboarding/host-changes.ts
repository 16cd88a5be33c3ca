/**
 * Changes of the host of a partner's `url` by a rotation: anybody with a leaked hub token can make one, and so take the
 * partner over. [D73, D87]
 *
 * HOST-CHANGES-1  A change leaves an event, in one commit with the rotation that makes it: neither is there without the
 *     other, and a confirmation is used up by a rotation alone.
 * HOST-CHANGES-2  While it waits for an operator, nothing changes and the new host is not called.
 * HOST-CHANGES-3  An operator confirms one host; a rotation to any other waits. What is recorded of it counts against the partner's
 *     quota. [QUOTA-7]
 */
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { hostOf, type Partner, type PartnerEvent, type PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import type { Quota } from '../kernel/quota.ts';
import type { RecordPartner } from './partner-recorder.ts';

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
