/** Starts and revives the two actors of each partner, and implements the effects that their machines name. */
import { courierMachine } from '../../../machines/courier.ts';
import { type PartnerRules, partnerMachine } from '../../../machines/partner.ts';
import type { ActorSpec, HeardEvent } from '../../../machines/supervisor.ts';
import type { StoredEvent } from '../../../storage/contract.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import { partnerIdIn, partnerStream } from '../kernel/directory.ts';
import { historyAfter, partnerHistory } from '../kernel/log-reads.ts';
import { heard } from '../kernel/row-codecs.ts';

export const courierActor = (id: PartyId): string => `courier:${id}`;

/** Effects of the machines that other parts of the hub implement. */
export interface PartnerHands {
  /** Send the partner's deliveries that are ready. */
  readonly pump: (partnerId: PartyId) => void;
  /** Record whether the hub can reach the partner. */
  readonly reachable: (partnerId: PartyId, isReachable: boolean) => void;
}

export class PartnerActors {
  readonly #context: Context;
  readonly #hands: PartnerHands;
  readonly #partnerMachine: typeof partnerMachine;
  readonly #courierMachine: typeof courierMachine;
  readonly #rules: PartnerRules;

  constructor(context: Context, hands: PartnerHands) {
    const { settings } = context;
    this.#context = context;
    this.#hands = hands;
    this.#partnerMachine = this.#handedPartner();
    this.#courierMachine = courierMachine.provide({
      // The machine publishes its new state after its effects, and the pump must see that state.
      actions: { pump: ({ self }) => queueMicrotask(() => hands.pump(partnerIdIn(self.id))) },
    });
    this.#rules = { offlineAfterMs: settings.offlineAfterS * 1000 };
  }

  start(partner: Partner): void {
    const { supervisor } = this.#context;
    const courier = courierActor(partner.id);
    supervisor.start(this.#partnerSpec(partner.id));
    supervisor.start(this.#courierSpec(partner.id));
    supervisor.send(courier, { type: 'suspend' });
    if (partner.settings.paused) supervisor.send(courier, { type: 'pause' });
  }

  async revive(partner: Partner): Promise<void> {
    const { store, circuits } = this.#context;
    // Before the courier, which lets the deliveries go.
    const known = await partnerHistory(store, partner.id);
    await circuits.revive(partner, known);
    await this.#context.supervisor.revive(this.#partnerSpec(partner.id, known));
    await this.#context.supervisor.revive(this.#courierSpec(partner.id));
  }

  /** The partner exchanged credentials: its deliveries flow, and its circuits forget earlier failures. */
  connected(partnerId: PartyId): void {
    this.#context.supervisor.send(courierActor(partnerId), { type: 'connect' });
    this.#context.circuits.renew(partnerId);
  }

  #handedPartner(): typeof partnerMachine {
    return partnerMachine.provide({
      actions: {
        recordOffline: ({ self }) => this.#hands.reachable(partnerIdIn(self.id), false),
        recordOnline: ({ self }) => this.#hands.reachable(partnerIdIn(self.id), true),
      },
    });
  }

  #partnerSpec(id: PartyId, known: readonly StoredEvent[] = []): ActorSpec<typeof partnerMachine> {
    const { store, ports } = this.#context;
    const history = historyAfter(store, id, known);
    return {
      id: partnerStream(id),
      kind: 'partner',
      machine: this.#partnerMachine,
      parties: [id],
      input: { rules: this.#rules },
      history: async () => (await history()).map((event) => heard(ports.clock, event)),
    };
  }

  /** The courier has no recorded events, so the partner's present state serves as its history. */
  #courierSpec(id: PartyId): ActorSpec<typeof courierMachine> {
    return {
      id: courierActor(id),
      kind: 'courier',
      machine: this.#courierMachine,
      input: { slotsMax: this.#context.settings.deliveryConcurrency },
      parties: [id],
      history: async () => {
        const partner = this.#context.directory.partner(id);
        const events: HeardEvent[] = [];
        if (partner?.settings.paused) events.push({ type: 'pause' });
        if (partner?.status === 'SUSPENDED' || partner?.status === 'REGISTERED') events.push({ type: 'suspend' });
        return events;
      },
      restored: () => this.#hands.pump(id),
    };
  }
}
