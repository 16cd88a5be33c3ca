/**
 * Starts and revives the two actors of each partner, and implements the effects that their machines name.
 */
import { courierMachine } from '../../../machines/courier.ts';
import {
  type CircuitName,
  type PartnerContext,
  type PartnerMachineEvent,
  type PartnerRules,
  partnerMachine,
  sampleMs,
} from '../../../machines/partner.ts';
import type { ActorSpec, HeardEvent } from '../../../machines/supervisor.ts';
import type { StoredEvent } from '../../../storage/contract.ts';
import type { Actor, HubEvent } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import { heard } from '../kernel/row-codecs.ts';
import type { CircuitView } from '../ports/operator.ts';

/**
 * Memoizes actor ids, because a map lookup by the same string object is faster than by a new one. It needs no eviction:
 * partners are never removed.
 */
function named(kind: string): (id: PartyId) => string {
  const names = new Map<PartyId, string>();
  return (id) => {
    let name = names.get(id);
    if (name === undefined) {
      name = `${kind}:${id}`;
      names.set(id, name);
    }
    return name;
  };
}

export const partnerStream = named('partner');
export const courierActor = named('courier');
const timerOf = (actor: string, circuit: CircuitName) => `${actor}#${circuit}`;
/** The partner of a partner or courier actor. */
export const partnerOf = (actor: string): PartyId => actor.slice(actor.indexOf(':') + 1);

/** Converts the state value of a circuit's region to the name that operators see. */
export function circuitState(value: unknown = 'closed'): CircuitView['state'] {
  return typeof value === 'string' ? (value as 'closed' | 'open') : 'halfOpen';
}

/** Upper bound of the back-off of an open circuit, ms: how long it stays open before it lets a trial call through. */
const openMsMax: Record<CircuitName, number> = { sync: 30_000, async: 60_000 };

/**
 * Renames circuit events for the replay of a partner's history: a running machine opened the circuit by itself, a
 * rebuilt one must be told.
 */
function asHeard(clock: Clock, event: StoredEvent): HeardEvent {
  const plain = heard(clock, event);
  if (event.type !== 'circuit.opened' && event.type !== 'circuit.closed') return plain;
  const { circuit } = event.data as { circuit: CircuitName };
  return { ...plain, type: `${circuit}.${event.type === 'circuit.opened' ? 'wasOpened' : 'wasClosed'}` };
}

/** Why a circuit changed, and who did it. */
interface Why {
  readonly reason: string;
  readonly by: Actor;
}

const byOperator = (done: string): Why => ({ reason: `${done} by an operator`, by: 'operator' });
const renewed: Why = { reason: 'the partner exchanged credentials', by: 'partner' };

/** Reason by the event that changed the circuit; every other event is the outcome of a call. [D80] */
const acts: Readonly<Record<string, Why | undefined>> = {
  'sync.operatorOpened': byOperator('opened'),
  'async.operatorOpened': byOperator('opened'),
  'sync.operatorClosed': byOperator('closed'),
  'async.operatorClosed': byOperator('closed'),
  'sync.renewed': renewed,
  'async.renewed': renewed,
};

function failed({ failures, failed: of, calls }: PartnerContext[CircuitName], { failuresMax }: PartnerRules): Why {
  const inRow = `${failures} ${failures === 1 ? 'failure' : 'failures'} in a row`;
  const inSample = `${of} of ${calls} calls failed within ${sampleMs / 1000} s`;
  return { reason: failures >= failuresMax ? inRow : inSample, by: 'hub' };
}

/** Effects of the machines that other parts of the hub implement. */
export interface PartnerHands {
  /** Send the partner's deliveries that are ready. */
  readonly pump: (partnerId: PartyId) => void;
  /** Record whether the hub can reach the partner. */
  readonly reachable: (partnerId: PartyId, isReachable: boolean) => void;
  /** Record why a circuit changed, and who did it. */
  readonly circuit: (partnerId: PartyId, event: HubEvent, byPartner: boolean) => void;
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
      actions: { pump: ({ self }) => queueMicrotask(() => hands.pump(partnerOf(self.id))) },
    });
    this.#rules = {
      failuresMax: settings.circuitFailures,
      openMs: settings.circuitOpenMs,
      openMsMax,
      offlineAfterMs: settings.offlineAfterS * 1000,
    };
  }

  start(partner: Partner): void {
    this.#context.supervisor.start(this.#partnerSpec(partner.id));
    this.#context.supervisor.start(this.#courierSpec(partner.id));
    this.#context.supervisor.send(courierActor(partner.id), { type: 'suspend' });
  }

  /** Starts a partner's actor at a door, which has circuits of its own for the synchronous calls that it makes. */
  startAtDoor(id: PartyId): void {
    const { supervisor } = this.#context;
    // The row may already contain events that are still to be dispatched, so the actor may exist.
    if (!supervisor.has(partnerStream(id))) supervisor.start(this.#partnerSpec(id));
  }

  async revive(partner: Partner): Promise<void> {
    await this.#context.supervisor.revive(this.#partnerSpec(partner.id));
    await this.#context.supervisor.revive(this.#courierSpec(partner.id));
  }

  /** The partner exchanged credentials: its deliveries flow, and its circuits forget earlier failures. */
  connected(partnerId: PartyId): void {
    this.#context.supervisor.send(courierActor(partnerId), { type: 'connect' });
    this.renewed(partnerId);
  }

  renewed(partnerId: PartyId): void {
    const at = this.#context.ports.clock.now();
    for (const { circuit, state } of this.circuits(partnerId)) {
      if (state !== 'closed') this.tell(partnerId, { type: `${circuit}.renewed`, at });
    }
  }

  tell(partnerId: PartyId, event: PartnerMachineEvent & { seq?: number }): void {
    this.#context.supervisor.send(partnerStream(partnerId), event);
  }

  circuits(partnerId: PartyId): CircuitView[] {
    const { supervisor, ports } = this.#context;
    const snapshot = supervisor.snapshot(partnerMachine, partnerStream(partnerId));
    return (['sync', 'async'] as const).map((circuit) => {
      const memory = snapshot?.context[circuit];
      return {
        circuit,
        state: circuitState(snapshot?.value[circuit]),
        failures: memory?.failures ?? 0,
        until: memory?.until ? instantText(ports.clock.stamp(memory.until)) : null,
      };
    });
  }

  #handedPartner(): typeof partnerMachine {
    const { supervisor, timers, ports } = this.#context;
    const note = (actor: string, type: 'circuit.opened' | 'circuit.closed', circuit: CircuitName, why: Why) =>
      this.#hands.circuit(partnerOf(actor), { type, data: { circuit, ...why } }, why.by === 'partner');
    return partnerMachine.provide({
      actions: {
        circuitOpened: ({ context, event, self: { id: actor } }, { circuit, again }) => {
          const until = context[circuit].until ?? ports.clock.now();
          timers.arm(timerOf(actor, circuit), until, (at) => supervisor.send(actor, { type: `${circuit}.due`, at }));
          this.#toCourier(actor, circuit, 'circuit.opened');
          if (!again)
            note(actor, 'circuit.opened', circuit, acts[event.type] ?? failed(context[circuit], context.rules));
        },
        circuitHalfOpened: ({ self }, { circuit }) => this.#toCourier(self.id, circuit, 'circuit.halfOpened'),
        circuitClosed: ({ event, self: { id: actor } }, { circuit }) => {
          timers.disarm(timerOf(actor, circuit));
          this.#toCourier(actor, circuit, 'circuit.closed');
          note(actor, 'circuit.closed', circuit, acts[event.type] ?? { reason: 'calls succeed again', by: 'hub' });
        },
        recordOffline: ({ self }) => this.#hands.reachable(partnerOf(self.id), false),
        recordOnline: ({ self }) => this.#hands.reachable(partnerOf(self.id), true),
      },
    });
  }

  /** Only the `async` circuit concerns the courier. */
  #toCourier(actor: string, circuit: CircuitName, type: string): void {
    if (circuit === 'async') this.#context.supervisor.send(courierActor(partnerOf(actor)), { type });
  }

  #partnerSpec(id: PartyId): ActorSpec<typeof partnerMachine> {
    const { store, ports } = this.#context;
    const actor = partnerStream(id);
    return {
      id: actor,
      kind: 'partner',
      machine: this.#partnerMachine,
      parties: [id],
      input: { rules: this.#rules, at: ports.clock.now() },
      history: async () => (await store.history(actor)).map((event) => asHeard(ports.clock, event)),
      restored: (snapshot) => {
        // A courier that starts after its partner reads the circuit by itself.
        if (!this.#context.supervisor.has(courierActor(id))) return;
        if (typeof snapshot.value.async !== 'string') this.#toCourier(actor, 'async', 'circuit.halfOpened');
        else if (snapshot.value.async === 'closed') this.#toCourier(actor, 'async', 'circuit.closed');
      },
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
        const [, asyncCircuit] = this.circuits(id);
        if (asyncCircuit?.state === 'open') events.push({ type: 'circuit.opened' });
        if (asyncCircuit?.state === 'halfOpen') events.push({ type: 'circuit.halfOpened' });
        return events;
      },
      restored: () => this.#hands.pump(id),
    };
  }
}

/** Records changes of circuits as events of the partner. */
export function noteCircuit({ recorder }: Context): PartnerHands['circuit'] {
  return (id, event, byPartner) =>
    recorder.note({
      facts: [{ stream: partnerStream(id), event, party: byPartner ? id : null }],
      trace: null,
      at: recorder.instant(),
    });
}
