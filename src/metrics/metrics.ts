/**
 * Prometheus metrics of the hub. docs/METRICS.md describes each.
 *
 * METRICS-1  Label values are partners, modules, classes, reasons and codes; none comes from an object or from free
 *     text of a partner, which bounds the number of series.
 * METRICS-2  Events are counted where they happen; state is read from the operators' views at each scrape.
 * METRICS-3  Counters that alerts use are initialized to 0, because Prometheus sees no increase when a series first
 *     appears.
 * METRICS-4  Partners have no gauges before the hub is recovered: a 0 of that time would look like new dead letters afterwards.
 */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Sight } from '../../storage/contract.ts';
import type { ClockMeter } from '../clock-watch.ts';
import type { InspectorMeter } from '../console/inspector.ts';
import { ownedModules } from '../domain/modules.ts';
import { keptReasons } from '../domain/ownership.ts';
import type { Operations } from '../hub/ports/operator.ts';
import { type Meter, notedTypes } from '../hub/ports/ports.ts';
import { memoized } from '../kit/memo.ts';
import { type Cells, cellsIn } from './metric-cells.ts';
import { type UpkeepMeter, upkeep } from './upkeep-metrics.ts';

/** One HTTP answer of the hub. */
export interface Answered {
  /** Pattern of the route, never the requested path; undefined when no route matched. */
  readonly route: string | undefined;
  readonly method: string;
  readonly httpStatus: number;
  /** Null for an answer without envelope. */
  readonly ocpiStatus: number | null;
  readonly seconds: number;
}

export interface Exposition {
  readonly contentType: string;
  readonly text: string;
}

type Shares = Readonly<Record<string, number>>;
/** By name of the room. */
type Rooms = Readonly<Record<string, ReadonlyMap<string, number>>>;

export interface Metrics {
  readonly meter: Meter;
  readonly inspectors: InspectorMeter;
  readonly cluster: ClusterMeter;
  readonly clock: ClockMeter;
  readonly upkeep: UpkeepMeter;
  answered(answer: Answered): void;
  /** A request was shed: its urgency, and the load signal that was full. */
  shed(urgency: string, signal: string): void;
  /**
   * The text of a scrape. State is read from `operations`, which is not kept between scrapes; null while no hub runs.
   * `load` is the share per load signal; `rooms`, per room, what partners have of it as a share of what one may have;
   * `isRecovered`: whether the hub has back what is recorded. [METRICS-4]
   */
  exposition(operations: Operations | null, load: Shares, rooms?: Rooms, isRecovered?: boolean): Promise<Exposition>;
}

/** Seconds that a caller waits; a hub on an SSD and a nearby partner answer in the middle of the range. */
const answerBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30];
/** Seconds to a receiver. The target of 5 s must be a bucket bound; retried deliveries take hours. */
const deliveryBuckets = [
  0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 43200, 86400,
];
const commitBuckets = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5];
const waitingBuckets = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384];

/** Partners that are shown of each room: those that have most of it, so that the number of series is bounded. */
const shownOfRoom = 5;

/** Labels of shed requests: urgencies and load signals. [METRICS-3] */
const urgencies = ['list', 'push', 'driver'];
const signals = ['requests', 'ofPartner', 'bytes', 'heap', 'loopDelayMs', 'forwardingMs'];
const actorKinds = ['partner', 'courier', 'circuit', 'command', 'orphan-stop', 'orphan-cdr'];
const circuitStates = ['closed', 'open', 'halfOpen'] as const;
const partnerStatuses = ['REGISTERED', 'CONNECTED', 'OFFLINE', 'SUSPENDED'] as const;
const storeStates = ['open', 'failed', 'quarantined', 'closed'];

export function createMetrics(version: string): Metrics {
  const registry = new Registry();
  const ofState = new Registry();
  const make = makerIn(registry);
  const { gauge } = make;
  gauge('info', 'Always 1; the version as a label', ['version']).set({ version }, 1);
  const full = gauge('load', 'How full the hub is, by figure; at 0.5 it begins to refuse, at 1 it refuses all', [
    'signal',
  ]);
  const taken = gauge(
    'partner_load',
    'What a partner has of what one may have: requests, bytes, calls to it, storage of the day, objects; the five with most',
    ['partner', 'room'],
  );
  const read = standing(ofState);
  const kept = upkeep(gauge);
  return {
    ...happening(cellsIn(registry)),
    inspectors: watched(make),
    cluster: clustered(make),
    clock: clockWatched(make),
    upkeep: kept.meter,
    async exposition(operations, load, rooms = {}, isRecovered = true) {
      read(operations, isRecovered);
      // While the store cannot be read, the backup known before stays.
      await kept.read(await operations?.lastBackup().catch(() => undefined));
      for (const [signal, share] of Object.entries(load)) full.set({ signal }, share);
      taken.reset();
      const { quota = {}, objects = {}, calls = {} } = operations?.vitals() ?? {};
      const counted = { day: quota, objects, calls };
      const others = Object.entries(counted).map(([room, shares]) => [room, new Map(Object.entries(shares))] as const);
      for (const [room, shares] of [...Object.entries(rooms), ...others]) {
        const most = [...shares].sort(([, a], [, b]) => b - a).slice(0, shownOfRoom);
        for (const [partner, share] of most) taken.set({ partner, room }, share);
      }
      const all = Registry.merge([registry, ofState, processRegistry()]);
      return { contentType: all.contentType, text: await all.metrics() };
    },
  };
}

interface Make {
  counter<L extends string>(name: string, help: string, labels?: readonly L[]): Counter<L>;
  /** `collect` sets it at each scrape. */
  gauge<L extends string>(
    name: string,
    help: string,
    labels?: readonly L[],
    collect?: (this: Gauge<L>) => void,
  ): Gauge<L>;
}

function makerIn(registry: Registry): Make {
  const registers = [registry];
  const named = (name: string, help: string) => ({ name: `ocpi_hub_${name}`, help, registers });
  return {
    counter: (name, help, labels = []) => new Counter({ ...named(name, help), labelNames: [...labels] }),
    gauge: (name, help, labels = [], collect) =>
      new Gauge({ ...named(name, help), labelNames: [...labels], ...(collect && { collect }) }),
  };
}

/** Metrics of events, counted where they happen. [METRICS-2] */
function happening({ counter, histogram }: Cells): Pick<Metrics, 'meter' | 'answered' | 'shed'> {
  const requests = counter('http_requests_total', 'Answers to HTTP requests; module of OCPI, or admin', [
    ...(['module', 'method', 'http_status', 'ocpi_status'] as const),
  ]);
  const requestSeconds = histogram('http_request_duration_seconds', 'Request to answer', answerBuckets, ['module']);
  const shed = counter('shed_total', 'Requests refused with 503 because there was too much to do', [
    'urgency',
    'signal',
  ]);
  const ingest = counter('ingest_total', 'Changes of objects by how they ended: a result, or the code of a refusal', [
    ...(['source', 'module', 'method', 'result'] as const),
  ]);
  const notForwarded = counter('not_forwarded_total', 'Stored and not forwarded, by reason', ['module', 'reason']);
  const refused = counter('refused_total', 'Pushes that were refused, by the code of the refusal', [
    ...(['partner', 'module', 'reason'] as const),
  ]);
  const warnings = counter('warnings_total', 'Deviations from the specification in changes that were taken', [
    ...(['partner', 'module'] as const),
  ]);
  const quirks = counter('quirks_total', 'Calls in which the hub made up for a habit of a partner', [
    ...(['partner', 'module', 'quirk'] as const),
  ]);
  const commitSeconds = histogram('commit_duration_seconds', 'One durable write, its waiting included', commitBuckets);
  const commitWaiting = histogram('commit_waiting', 'Writes under way when one began, itself included', waitingBuckets);
  const attempts = counter('attempts_total', 'Tries at deliveries by the class of their end', ['module', 'class']);
  const attemptSeconds = histogram('attempt_duration_seconds', 'One try at a delivery', answerBuckets, ['module']);
  const deliveries = counter('deliveries_total', 'Deliveries that ended: delivered, or dead by class', [
    ...(['module', 'class'] as const),
  ]);
  const latency = histogram('delivery_latency_seconds', 'Acceptance (or re-drive) to 2xx', deliveryBuckets, ['module']);
  const authorize = histogram(
    'authorize_duration_seconds',
    'Authorize by what was answered or why not',
    answerBuckets,
    [...(['direction', 'outcome'] as const)],
  );
  const command = histogram('command_duration_seconds', 'Command by what was answered or why not', answerBuckets, [
    ...(['command', 'outcome'] as const),
  ]);
  const result = histogram('command_result_duration_seconds', 'Relay of an asynchronous result', answerBuckets, [
    'outcome',
  ]);
  const hostChanges = counter(
    'host_changes_total',
    'Rotations that changed the host of a partner, or wait for an operator because they would',
    ['end'],
  );
  const restarts = counter('actor_restarts_total', 'Actors that threw and were brought back', ['kind']);
  const quarantines = counter('actor_quarantines_total', 'Actors stopped after repeated failures', ['kind']);
  const unrecorded = counter('unrecorded_total', 'Facts that nobody waits for, and that could not be written', [
    'type',
  ]);
  for (const module of ownedModules) for (const reason of keptReasons) notForwarded.inc({ module, reason }, 0);
  for (const kind of actorKinds) for (const one of [restarts, quarantines]) one.inc({ kind }, 0);
  for (const end of ['made', 'waiting']) hostChanges.inc({ end }, 0);
  for (const urgency of urgencies) for (const signal of signals) shed.inc({ urgency, signal }, 0);
  for (const type of notedTypes) unrecorded.inc({ type }, 0);
  return {
    answered({ route, method, httpStatus, ocpiStatus, seconds }) {
      const module = moduleOf(route ?? '');
      requests.inc({ module, method, http_status: httpStatus, ocpi_status: ocpiStatus ?? '' });
      requestSeconds.observe({ module }, seconds);
    },
    shed: (urgency, signal) => shed.inc({ urgency, signal }),
    meter: {
      ingested: (source, module, method, ended) => ingest.inc({ source, module, method, result: ended }),
      notForwarded: (module, reason) => notForwarded.inc({ module, reason }),
      refused: (partner, module, reason) => refused.inc({ partner, module, reason }),
      warned: (partner, module, count) => warnings.inc({ partner, module }, count),
      used: (partner, module, quirk) => quirks.inc({ partner, module, quirk }),
      committed(seconds, waiting) {
        commitSeconds.observe({}, seconds);
        commitWaiting.observe({}, waiting);
      },
      attempted(module, outcome, seconds) {
        attempts.inc({ module, class: outcome });
        attemptSeconds.observe({ module }, seconds);
      },
      deliveryEnded(module, outcome, seconds) {
        deliveries.inc({ module, class: outcome });
        if (outcome === 'delivered') latency.observe({ module }, seconds);
      },
      forwarded(kind, name, outcome, seconds) {
        if (kind === 'authorize') authorize.observe({ direction: name, outcome }, seconds);
        else if (kind === 'command') command.observe({ command: name, outcome }, seconds);
        else result.observe({ outcome }, seconds);
      },
      hostChanged: (end) => hostChanges.inc({ end }),
      unrecorded: (type) => unrecorded.inc({ type }),
      actorFailed: (kind, end) => (end === 'restarted' ? restarts : quarantines).inc({ kind }),
    },
  };
}

function watched({ counter, gauge }: Make): InspectorMeter {
  const readers = gauge('inspector_readers', 'Readers of the inspector that are connected');
  const messages = counter('inspector_messages_total', 'Messages handed to sockets of readers of the inspector');
  const missed = counter('inspector_missed_total', 'Events that a reader of the inspector was not shown singly');
  return {
    readers: (count) => readers.set(count),
    sent: (count) => messages.inc(count),
    missed: (count) => missed.inc(count),
  };
}

function clockWatched({ counter, gauge }: Make): ClockMeter {
  const steps = counter('clock_steps_total', 'Times that the wall clock was moved');
  const last = gauge('clock_step_seconds', 'How far the wall clock was moved the last time; 0 when it was not');
  return {
    stepped(stepS) {
      steps.inc();
      last.set(stepS);
    },
  };
}

const nodeRoles = ['owner', 'gaining', 'standby', 'isolated', 'leaving'] as const;

/** Metrics of a node among its peers; a single process is always the owner. */
export interface ClusterMeter {
  role(role: (typeof nodeRoles)[number]): void;
  /** The node became the owner. */
  tookOver(): void;
  /** Sets the function that each scrape calls for the latest observation of the database. */
  sees(read: () => Sight | null): void;
  /** A request was passed to the owner, and its answer came or did not. */
  passed(end: 'answered' | 'failed'): void;
}

function clustered({ counter, gauge }: Make): ClusterMeter {
  const roles = gauge('node_role', '1 for the role of this node among its peers', ['role']);
  const takeovers = counter('takeovers_total', 'Times that this node became the owner');
  const passed = counter('passed_on_total', 'Requests passed on to the owner by how they ended', ['end']);
  for (const end of ['answered', 'failed']) passed.inc({ end }, 0);
  let database: () => Sight | null = () => ({ clockAheadMs: 0, oldest: null });
  const seconds = (name: string, help: string, ms: (sight: Sight) => number) =>
    gauge(name, help, [], function () {
      const sight = database();
      this.set(sight === null ? Number.NaN : ms(sight) / 1000);
    });
  seconds('database_clock_ahead_seconds', "The database's clock less this node's", ({ clockAheadMs }) => clockAheadMs);
  seconds(
    'database_oldest_transaction_seconds',
    'Age of the transaction of the database that is open for longest; 0 when none is',
    ({ oldest }) => oldest?.ms ?? 0,
  );
  return {
    role(role) {
      for (const one of nodeRoles) roles.set({ role: one }, one === role ? 1 : 0);
    },
    tookOver: () => takeovers.inc(),
    sees(read) {
      database = read;
    },
    passed: (end) => passed.inc({ end }),
  };
}

/** Metrics of state, alone in their registry; the returned function sets all of them again at each scrape. [METRICS-2] */
function standing(registry: Registry): (operations: Operations | null, isRecovered: boolean) => void {
  const { counter, gauge } = makerIn(registry);
  const ready = gauge('ready', '1 when the hub accepts work');
  const store = gauge('store_state', '1 for the state in which the store is', ['state']);
  const events = counter('events_total', 'Events in the log since its beginning');
  const actors = gauge('actors', 'Running actors by kind and state of their machine', ['kind', 'state']);
  const deadlines = gauge('deadlines', 'Waits that are armed');
  const lost = counter('lost_sends_total', 'Sends to actors that were not there');
  const status = gauge('partner_status', '1 for the connection status of the partner', ['partner', 'status']);
  const pullOnly = gauge('pull_only', '1 for a partner that is pull only: the hub never calls it', ['partner']);
  const circuit = gauge('circuit_state', '1 for the state of the circuit', ['partner', 'circuit', 'state']);
  const depth = gauge('backlog_deliveries', 'Deliveries that wait, in memory and in the log', ['partner']);
  const oldest = gauge('backlog_oldest_age_seconds', 'Age of the oldest that waits; 0 when none does', ['partner']);
  const overdue = gauge(
    'overdue_deliveries',
    'Deliveries first in their lane, due for a minute or more and not held back; 1 for a backlog that is not read',
    ['partner'],
  );
  const dead = gauge('dead_letters', 'Deliveries that are not retried automatically', ['partner']);
  const held = gauge('log_held_age_seconds', 'Age of the oldest event that is too old and stays, because it is owed', [
    'partner',
  ]);
  const lag = gauge(
    'retention_lag_seconds',
    'By how long the oldest event is older than events are kept, held by nobody',
  );
  const foreign = counter(
    'foreign_requests_total',
    'Requests with a token of the partner from outside its allow_from, which were refused',
    ['partner'],
  );
  const push = gauge('last_push_timestamp_seconds', 'When the partner pushed last, Unix time; absent while unknown', [
    'partner',
    'module',
  ]);
  const silent = gauge(
    'silent',
    '1 for a connected CPO that has pushed nothing for silent_after_h or else HUB_SILENT_AFTER_H',
    ['partner'],
  );

  return (operations, isRecovered) => {
    // Without the reset, partners and states that no longer exist would keep their last value.
    registry.resetMetrics();
    // A reset sets 0, from which a takeover would look like as many events at once.
    if (operations === null) return events.remove();
    const now = operations.status();
    const vitals = operations.vitals();
    ready.set(now.ready ? 1 : 0);
    for (const state of storeStates) store.set({ state }, now.store.state === state ? 1 : 0);
    events.inc(now.sequence);
    for (const [kind, states] of Object.entries(vitals.actors)) {
      for (const [state, count] of Object.entries(states)) actors.set({ kind, state }, count);
    }
    deadlines.set(vitals.deadlines);
    lost.inc(vitals.lost_sends);
    lag.set(vitals.retention_lag_s);
    // [METRICS-4]
    if (!isRecovered) return;
    for (const { id: partner, status: connection, circuits, queue, refused_from, ...of } of operations.parties()) {
      pullOnly.set({ partner }, of.settings.pull_only ? 1 : 0);
      silent.set({ partner }, of.silent_since === null ? 0 : 1);
      for (const { module, last_push } of of.inbound) push.set({ partner, module }, Date.parse(last_push) / 1000);
      foreign.inc({ partner }, refused_from?.count ?? 0);
      for (const one of partnerStatuses) status.set({ partner, status: one }, one === connection ? 1 : 0);
      // `async` sums up the modules, which are shown one by one.
      for (const { circuit: name, state } of circuits.filter((one) => one.circuit !== 'async')) {
        for (const one of circuitStates) circuit.set({ partner, circuit: name, state: one }, one === state ? 1 : 0);
      }
      depth.set({ partner }, queue.depth);
      oldest.set({ partner }, queue.oldest_age_s ?? 0);
      overdue.set({ partner }, vitals.overdue[partner] ?? 0);
      dead.set({ partner }, queue.dead);
      held.set({ partner }, vitals.log_held_age_s[partner] ?? 0);
    }
  };
}

/** `/ocpi/2.2.1/sessions/:country_code/…` → `sessions`. */
const moduleOf = memoized((route): string => {
  const [, door, ...rest] = route.split(/[/?]/);
  if (door !== 'ocpi') return door === 'admin' ? door : 'other';
  return rest[0] === 'versions' ? 'versions' : rest[1] || 'versions';
});

let ofProcess: Registry | undefined;

/** Event loop, memory and garbage collection of the process, measured once regardless of how many hubs it holds. */
function processRegistry(): Registry {
  if (!ofProcess) {
    ofProcess = new Registry();
    collectDefaultMetrics({ register: ofProcess });
  }
  return ofProcess;
}
