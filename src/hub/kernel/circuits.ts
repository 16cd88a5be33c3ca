/**
 * The circuit breakers of all partners: `sync` for authorize and commands, `results` for results of commands, and one for
 * the deliveries of each module, so that what fails holds back nothing else. Starts their actors and implements the effects
 * that their machine names.
 *
 * CIRCUITS-1  A circuit has an actor from its first failure on; without one it is closed, so that a healthy partner
 *     costs nothing.
 * CIRCUITS-2  Openings and closings are recorded as events of the partner. An event about `async` without a module, as
 *     earlier versions wrote them, is about every module.
 * CIRCUITS-3  A circuit whose actor was given up holds nothing back.
 */
import {
  type CircuitContext,
  type CircuitEvent,
  type CircuitRules,
  circuitMachine,
  failsInRow,
  isWell,
  sampleMs,
  slotsOf,
} from '../../../machines/circuit.ts';
import type { ActorSpec, HeardEvent, Supervisor } from '../../../machines/supervisor.ts';
import type { Store, StoredEvent } from '../../../storage/contract.ts';
import type { Actor, CircuitChange, Trace } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import { isModule, moduleNames, type ObjectModule, receivedBy } from '../../domain/modules.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { CircuitView } from '../ports/operator.ts';
import type { HubPorts, HubSettings } from '../ports/ports.ts';
import { partnerStream } from './directory.ts';
import { historyAfter } from './log-reads.ts';
import type { Recorder } from './recorder.ts';
import { heard } from './row-codecs.ts';
import type { Timers } from './timers.ts';

/** Circuits of calls that somebody waits for. A command names the URL of its results, which says nothing of the endpoints. */
const waitedFor = ['sync', 'results'] as const;

export type CircuitName = (typeof waitedFor)[number] | ObjectModule;

/** Failures of deliveries open a circuit when they are of this many objects: one alone backs off in its lane. [D79] */
const objectsMin = 3;
/** Upper bound of how long a circuit stays open before it lets a trial call through, ms. */
const openMsMax = { sync: 30_000, deliveries: 60_000 };

/** Why a circuit changed, and who did it. */
interface Why {
  readonly reason: string;
  readonly by: Actor;
}

/** Reason by the event that changed the circuit; every other event is the outcome of a call. [D80] */
const acts: Readonly<Record<string, Why | undefined>> = {
  'operator.opened': { reason: 'opened by an operator', by: 'operator' },
  'operator.closed': { reason: 'closed by an operator', by: 'operator' },
  'partner.renewed': { reason: 'the partner exchanged credentials', by: 'partner' },
};

function failed(context: CircuitContext): Why {
  const { failures, failed: of, calls } = context;
  const inRow = `${failures} ${failures === 1 ? 'failure' : 'failures'} in a row`;
  const inSample = `${of} of ${calls} calls failed within ${sampleMs / 1000} s`;
  return { reason: failsInRow(context) ? inRow : inSample, by: 'hub' };
}

/** Name of a circuit by the id of its actor. */
interface Named {
  readonly partner: PartyId;
  readonly circuit: CircuitName;
}

interface Parts {
  readonly store: Store;
  readonly recorder: Recorder;
  readonly supervisor: Supervisor;
  readonly timers: Timers;
  readonly ports: HubPorts;
  readonly settings: HubSettings;
  /** A door has circuits of its own for the calls that it makes, and records nothing of them. */
  readonly isDoor: boolean;
}

export class Circuits {
  readonly #parts: Parts;
  readonly #machine: typeof circuitMachine;
  readonly #rules: Readonly<Record<'sync' | 'deliveries', CircuitRules>>;
  readonly #names = new Map<string, Named>();
  /** By partner, the actors that have been started. [CIRCUITS-1] */
  readonly #actors = new Map<PartyId, Map<CircuitName, string>>();
  #mayFlow: (partner: PartyId) => void = () => {};

  constructor(parts: Parts) {
    const { circuitFailures: failuresMax, circuitOpenMs: openMs, deliveryConcurrency: slotsMax } = parts.settings;
    this.#parts = parts;
    this.#machine = this.#handed();
    const rules = { failuresMax, openMs, slotsMax };
    this.#rules = {
      sync: { ...rules, objectsMin: 0, openMsMax: openMsMax.sync },
      deliveries: { ...rules, objectsMin: Math.min(objectsMin, failuresMax), openMsMax: openMsMax.deliveries },
    };
  }

  /** Registers the one function that sends what a partner's circuits let go; it is called in a later microtask. */
  onFlow(mayFlow: (partner: PartyId) => void): void {
    this.#mayFlow = mayFlow;
  }

  /** Undefined while the circuit has no actor, and while that is being rebuilt. */
  snapshot(partner: PartyId, circuit: CircuitName) {
    const actor = this.#actors.get(partner)?.get(circuit);
    return actor === undefined ? undefined : this.#parts.supervisor.snapshot(circuitMachine, actor);
  }

  has(partner: PartyId, circuit: CircuitName): boolean {
    return this.#actors.get(partner)?.has(circuit) ?? false;
  }

  state(partner: PartyId, circuit: CircuitName): CircuitView['state'] {
    const value = this.snapshot(partner, circuit)?.value ?? 'closed';
    return typeof value === 'string' ? value : 'halfOpen';
  }

  /** The partner on whose behalf alone calls failed before a circuit opened; null: of several, or the circuit is closed. */
  failingSource(partner: PartyId, circuit: CircuitName): PartyId | null {
    return this.snapshot(partner, circuit)?.context.failingSource ?? null;
  }

  /** Whether a success of a call changes nothing but the count of calls. */
  isWell(partner: PartyId, circuit: CircuitName): boolean {
    if (!this.has(partner, circuit)) return true;
    const snapshot = this.snapshot(partner, circuit);
    return snapshot !== undefined && isWell(snapshot);
  }

  /** How many deliveries of a module may be in flight to a partner, as far as its circuit says. [CIRCUITS-3] */
  slots(partner: PartyId, module: ObjectModule): number {
    const actor = this.#actors.get(partner)?.get(module);
    const { slotsMax } = this.#rules.deliveries;
    if (actor === undefined) return slotsMax;
    const snapshot = this.#parts.supervisor.snapshot(circuitMachine, actor);
    if (snapshot) return slotsOf(snapshot);
    return this.#parts.supervisor.view(actor)?.status === 'quarantined' ? slotsMax : 0;
  }

  /** Sends an event to a circuit, whose actor is started when it has none. */
  tell(partner: PartyId, circuit: CircuitName, event: CircuitEvent): void {
    const { supervisor } = this.#parts;
    if (!this.has(partner, circuit)) supervisor.start(this.#enter(partner, circuit));
    supervisor.send(actorOf(partner, circuit), event);
  }

  /**
   * Opens circuits by hand, or closes them and forgets their failures; `async` names those of all modules that the
   * partner receives.
   */
  set({ id: partner, roles }: Partner, which: CircuitName | 'async', state: 'open' | 'closed', trace: Trace): void {
    const at = this.#parts.ports.clock.now();
    const type = state === 'open' ? 'operator.opened' : 'operator.closed';
    for (const circuit of which === 'async' ? receivedBy(roles) : [which]) {
      if (state === 'open' || this.has(partner, circuit)) this.tell(partner, circuit, { type, at, trace });
    }
  }

  /** The partner exchanged credentials: its circuits forget earlier failures. */
  renew(partner: PartyId): void {
    const at = this.#parts.ports.clock.now();
    for (const circuit of this.#actors.get(partner)?.keys() ?? []) {
      if (this.state(partner, circuit) !== 'closed') this.tell(partner, circuit, { type: 'partner.renewed', at });
    }
  }

  /** Restores the circuits that the history of the partner leaves open, of calls and of the modules that it receives. */
  async revive({ id: partner, roles }: Partner, history: readonly StoredEvent[]): Promise<void> {
    const used: readonly CircuitName[] = [...waitedFor, ...receivedBy(roles)];
    const open = new Set<CircuitName>();
    for (const event of history) {
      if (event.type === 'circuit.opened') for (const circuit of circuitsOf(event)) open.add(circuit);
      if (event.type === 'circuit.closed') for (const circuit of circuitsOf(event)) open.delete(circuit);
    }
    for (const circuit of used.filter((one) => open.has(one)))
      await this.#parts.supervisor.revive(this.#enter(partner, circuit, history));
  }

  /**
   * What operators see: `sync`, `async` as the worst of all modules, and of `results` and the modules those that have failed
   * since the start or the last opening.
   */
  view(partner: PartyId): CircuitView[] {
    const modules = moduleNames
      .filter((module) => this.has(partner, module))
      .map((name) => this.#viewOf(partner, name));
    const failures = Math.max(0, ...modules.map((module) => module.failures));
    const [until = null] = modules.flatMap((module) => module.until ?? []).sort();
    const all: CircuitView = { circuit: 'async', state: this.worst(partner), failures, until };
    const results = this.has(partner, 'results') ? [this.#viewOf(partner, 'results')] : [];
    return [this.#viewOf(partner, 'sync'), all, ...results, ...modules];
  }

  /** The worst state of the circuits of all modules. */
  worst(partner: PartyId): CircuitView['state'] {
    let worst: CircuitView['state'] = 'closed';
    for (const circuit of this.#actors.get(partner)?.keys() ?? []) {
      const state = this.state(partner, circuit);
      if (isModule(circuit) && badness[state] > badness[worst]) worst = state;
    }
    return worst;
  }

  #viewOf(partner: PartyId, circuit: CircuitName): CircuitView {
    const { failures = 0, until } = this.snapshot(partner, circuit)?.context ?? {};
    const shown = until ? instantText(this.#parts.ports.clock.stamp(until)) : null;
    return { circuit, state: this.state(partner, circuit), failures, until: shown };
  }

  #enter(partner: PartyId, circuit: CircuitName, known: readonly StoredEvent[] = []): ActorSpec<typeof circuitMachine> {
    const { store, ports, settings } = this.#parts;
    const actors = this.#actors.get(partner) ?? new Map<CircuitName, string>();
    const id = actorOf(partner, circuit);
    this.#actors.set(partner, actors.set(circuit, id));
    this.#names.set(id, { partner, circuit });
    const rules = this.#rules[isModule(circuit) ? 'deliveries' : 'sync'];
    // Circuits that open together must not let their trials through together each time.
    const factor = 1 - (settings.retryJitter * ports.random()) / 2;
    const openMs = rules.openMs * factor;
    const openMsMax = rules.openMsMax * factor;
    const history = historyAfter(store, partner, known);
    return {
      id,
      kind: 'circuit',
      machine: this.#machine,
      parties: [partner],
      input: { rules: { ...rules, openMs, openMsMax }, at: ports.clock.now() },
      history: async () =>
        (await history())
          .filter((event) => circuitsOf(event).includes(circuit))
          .map((event) => asHeard(heard(ports.clock, event))),
      restored: () => this.#flow(id),
    };
  }

  #handed(): typeof circuitMachine {
    const { supervisor, timers, ports } = this.#parts;
    return circuitMachine.provide({
      actions: {
        circuitOpened: ({ context, event, self: { id } }, { again }) => {
          timers.arm(`${id}#due`, context.until ?? ports.clock.now(), (at) =>
            supervisor.send(id, { type: 'circuit.due', at }),
          );
          if (!again) this.#note(id, 'circuit.opened', event, failed(context));
        },
        circuitHalfOpened: ({ self }) => this.#flow(self.id),
        circuitMayFlow: ({ self }) => this.#flow(self.id),
        circuitClosed: ({ event, self: { id } }) => {
          timers.disarm(`${id}#due`);
          this.#note(id, 'circuit.closed', event, { reason: 'calls succeed again', by: 'hub' });
          this.#flow(id);
        },
      },
    });
  }

  /** The machine publishes its new state after its effects, and what is sent depends on that state. */
  #flow(actor: string): void {
    const named = this.#names.get(actor);
    if (named && isModule(named.circuit)) queueMicrotask(() => this.#mayFlow(named.partner));
  }

  /** `otherwise`: why, when nobody did it on purpose. [CIRCUITS-2] */
  #note(actor: string, type: 'circuit.opened' | 'circuit.closed', cause: CircuitEvent, otherwise: Why): void {
    const named = this.#names.get(actor);
    const { recorder, isDoor } = this.#parts;
    if (isDoor || !named) return;
    const { partner, circuit } = named;
    const why = acts[cause.type] ?? otherwise;
    const what = isModule(circuit) ? { circuit: 'async' as const, module: circuit } : { circuit };
    const event = { type, data: { ...what, ...why } };
    recorder.note({
      facts: [{ stream: partnerStream(partner), event, party: why.by === 'partner' ? partner : null }],
      trace: 'trace' in cause ? cause.trace : null,
    });
  }
}

/** The circuits that an event of the log is about. [CIRCUITS-2] */
function circuitsOf({ type, data }: StoredEvent): readonly CircuitName[] {
  if (type !== 'circuit.opened' && type !== 'circuit.closed') return [];
  const { circuit, module } = data as CircuitChange;
  if (circuit !== 'async') return [circuit];
  return module === undefined ? moduleNames : [module];
}

/** A running machine opened or closed by itself; a rebuilt one has to hear of it. */
const asHeard = (event: HeardEvent): HeardEvent => ({
  ...event,
  type: event.type === 'circuit.opened' ? 'circuit.wasOpened' : 'circuit.wasClosed',
});

const actorOf = (partner: PartyId, circuit: CircuitName) => `circuit:${partner}/${circuit}`;

const badness = { closed: 0, halfOpen: 1, open: 2 };
