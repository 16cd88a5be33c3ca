/**
 * Bugs in what waits, put in on purpose: due times, circuits, windows, watches and cases, and what is put back. A part of `mutants.ts`.
 */
import { orphanStopMachine } from '../../machines/orphan-stop.ts';
import { Supervisor } from '../../machines/supervisor.ts';
import type { Item } from '../../src/hub/delivery/delivery-row.ts';
import { type Lane, Lanes } from '../../src/hub/delivery/lanes.ts';
import { OutboxWriter } from '../../src/hub/delivery/outbox-writer.ts';
import { laneMax } from '../../src/hub/delivery/window.ts';
import { Timers } from '../../src/hub/kernel/timers.ts';
import { RedriveForms } from '../../src/hub/maintain/redriven-as.ts';
import { ClockSteps } from '../../src/kit/clock.ts';
import type { Put, Store } from '../../storage/contract.ts';
import { storeWith } from '../support/store-with.ts';
import type { Mutant } from './mutants.ts';
import type { Json } from './reference.ts';

/** Replaces a method as long as a mutant lives. */
function replaced<C extends object, K extends keyof C>(
  of: C,
  name: K,
  make: (original: C[K]) => C[K],
): () => () => void {
  return () => {
    const original = of[name];
    of[name] = make(original);
    return () => {
      of[name] = original;
    };
  };
}

/** Time of day of the hub that runs. */
let now = () => 0;
/** Later than any timer of a process that runs. */
const lateMs = 1_000;
/** Of every simulated hub. */
const graceMs = 120_000;

/** Some timers never fire. */
const deaf = (isDeaf: (id: string) => boolean) =>
  replaced(Timers.prototype, 'arm', (arm) => {
    return function (this: Timers, id, at, fire) {
      arm.call(this, id, at, isDeaf(id) ? () => {} : fire);
    };
  });

/** Some deliveries do not go to the tail of their lane. */
const overtaking = (isFirst: (item: Item) => boolean) =>
  replaced(Lanes.prototype, 'add', (add) => {
    return function (this: Lanes, item) {
      const lane = add.call(this, item);
      const to = lane.state === 'busy' ? 1 : 0;
      const isReady = lane.state === 'ready';
      if (!isFirst(item) || lane.items.length < to + 2) return lane;
      lane.items.pop();
      if (isReady) this.hold(lane, lane.dueAt);
      lane.items.splice(to, 0, item);
      if (isReady) this.release(lane);
      return lane;
    };
  });

/** No lane of a partner moves while one of its locations waits for another attempt. */
function heldTogether(): () => void {
  const held = new WeakMap<Lanes, Set<Lane>>();
  const { hold, take } = Lanes.prototype;
  Lanes.prototype.hold = function (this: Lanes, lane, dueAt, head) {
    hold.call(this, lane, dueAt, head);
    held.set(this, (held.get(this) ?? new Set()).add(lane));
  };
  Lanes.prototype.take = function (this: Lanes, ...given) {
    const waiting = [...(held.get(this) ?? [])].filter(({ state }) => state === 'held');
    held.set(this, new Set(waiting));
    const isHeld = waiting.some(({ items: [head] }) => head?.module === 'locations' && head.tries > 0);
    return isHeld ? undefined : take.call(this, ...given);
  };
  return () => {
    Lanes.prototype.hold = hold;
    Lanes.prototype.take = take;
  };
}

/** The charging periods of a PATCH stand twice in what is stored. */
function twice(put: Put): Put {
  if (put.gone || put.kind !== 'sessions' || put.body === null) return put;
  const object = JSON.parse(put.body) as Json;
  const periods = object.charging_periods;
  if (!Array.isArray(periods) || periods.length === 0) return put;
  return { ...put, body: JSON.stringify({ ...object, charging_periods: [...periods, periods.at(-1)] }) };
}

type Due = { readonly due: string | null };

export const waiting: readonly Mutant[] = [
  {
    name: 'watches that a crash prevented are not caught up at a start',
    seed: 42,
    broken: /a stopped session that does not end becomes a case/,
    bend: ({ store, ports }) => ({ store: storeWith(store, { ranges: async () => [] }), ports }),
  },
  {
    name: 'due times are ignored after a restart',
    seed: 8,
    broken: /no attempt before it is due/,
    bend: ({ store, ports }) => {
      const deliveries: Store['deliveries'] = async (query) =>
        (await store.deliveries(query)).map((row) => ({ ...row, data: { ...(row.data as Due), due: null } }));
      return { store: storeWith(store, { deliveries }), ports };
    },
  },
  {
    name: 'a watch whose grace ended while no process ran never becomes a case',
    seed: 19,
    broken: /a stopped session that does not end becomes a case|every actor is at rest/,
    bend: (parts) => {
      now = () => parts.ports.clock.now();
      return parts;
    },
    patch: replaced(Supervisor.prototype, 'send', (send) => {
      return function (this: Supervisor, id, event) {
        const due = id.startsWith('orphan-stop:') ? this.snapshot(orphanStopMachine, id)?.context.due : null;
        const isLate = event.type === 'deadline.passed' && due && now() > due + lateMs;
        return isLate ? undefined : send.call(this, id, event);
      };
    }),
  },
  {
    name: 'a restart begins every grace anew',
    seed: 105,
    broken: /a case opens when it is due/,
    bend: (parts) => {
      now = () => parts.ports.clock.now();
      return parts;
    },
    patch: replaced(Timers.prototype, 'arm', (arm) => {
      return function (this: Timers, id, at, fire) {
        arm.call(this, id, id.startsWith('orphan-stop:') ? now() + graceMs : at, fire);
      };
    }),
  },
  {
    name: 'a dead letter counts as delivered',
    seed: 4,
    broken: /only what was delivered counts as delivered/,
    patch: replaced(OutboxWriter.prototype, 'remember', (remember) => {
      return function (this: OutboxWriter, progress, row) {
        remember.call(this, progress, row.state === 'DEAD' ? { ...row, state: 'DELIVERED' } : row);
      };
    }),
  },
  {
    name: 'a DELETE overtakes what waits in its lane',
    seed: 75,
    broken: /order of the log/,
    patch: overtaking(({ event }) => event?.type === 'object.deleted'),
  },
  {
    name: 'a re-drive enters its lane at the head',
    seed: 12,
    broken: /what is put back goes behind its lane/,
    patch: overtaking(({ isRedriven, event }) => isRedriven && event === null),
  },
  {
    name: 'the window skips one when it is filled again',
    seed: 2,
    broken: /a floor never passes|everything that is owed ends|order of the log/,
    bend: ({ store, ports }) => {
      const read: Store['read'] = async (query) => {
        const events = await store.read(query);
        return query.to !== undefined && events.length > 1 ? events.slice(1) : events;
      };
      return { store: storeWith(store, { read }), ports };
    },
  },
  {
    name: 'memory holds any number of a lane',
    seed: 94,
    broken: /what may go goes/,
    patch: replaced(Lanes.prototype, 'skip', () => () => false),
  },
  {
    name: 'a lane skips one when it is read on',
    seed: 15,
    broken: /a floor never passes|everything that is owed ends|order of the log/,
    bend: ({ store, ports }) => {
      const history: Store['history'] = async (stream, after, limit) => {
        const events = await store.history(stream, after, limit);
        return limit === laneMax && events.length > 1 ? events.slice(1) : events;
      };
      return { store: storeWith(store, { history }), ports };
    },
  },
  {
    name: 'after a restart only the first of a lane has a due time',
    seed: 133,
    broken: /no attempt before it is due/,
    patch: replaced(Lanes.prototype, 'done', (done) => {
      return function (this: Lanes, lane, at) {
        done.call(this, lane, at);
        const [head] = lane.items;
        if (head) lane.items[0] = { ...head, dueAt: null };
      };
    }),
  },
  {
    name: 'a recorded time of day counts as hub time',
    seed: 16,
    broken: /a dead letter has a reason that was met|no attempt before it is due|nothing is pending in the end/,
    patch: replaced(ClockSteps.prototype, 'steady', () => (wall) => wall),
  },
  {
    name: 'what is put back for the receivers of then goes as it came',
    seed: 60162,
    broken: /nothing older is put back/,
    patch: replaced(RedriveForms.prototype, 'of', (of) => {
      return async function (this: RedriveForms, candidate, routing) {
        const isOfThen = routing === 'then' && !this.isRouted(candidate);
        return isOfThen ? 'change' : of.call(this, candidate, routing);
      };
    }),
  },
  {
    name: 'a floor moves past a delivery that waits for another attempt',
    seed: 2,
    broken: /a floor never passes/,
    patch: replaced(OutboxWriter.prototype, 'remember', (remember) => {
      return function (this: OutboxWriter, progress, row) {
        if (row.state !== 'PENDING') return remember.call(this, progress, row);
        progress.settle(row.seq);
        this.touch(progress);
      };
    }),
  },
  {
    name: 'an open circuit never half-opens',
    seed: 4,
    broken: /every circuit is closed in the end/,
    patch: deaf((id) => /^circuit:.*#due$/.test(id)),
  },
  {
    name: 'a module that fails holds the other lanes of its partner',
    seed: 7,
    broken: /what may go goes/,
    patch: heldTogether,
  },
  {
    name: 'a PATCH is applied twice',
    seed: 8,
    broken:
      /a row is what its log makes of it|carries the whole object|receivers end with|what is sent anew|nothing older is put back/,
    bend: ({ store, ports }) => {
      const append: Store['append'] = (commit) => {
        const isPatch = commit.events.some(({ type }) => type === 'object.patched');
        return store.append(isPatch && commit.puts ? { ...commit, puts: commit.puts.map(twice) } : commit);
      };
      return { store: storeWith(store, { append }), ports };
    },
  },
  {
    name: 'Retry-After is not heard',
    seed: 4,
    broken: /no attempt before its receiver wants it/,
    bend: ({ store, ports }) => {
      const { client } = ports;
      const call: typeof client.call = async (made) => {
        const { retryAfterMs: _, ...outcome } = await client.call(made);
        return outcome;
      };
      return { store, ports: { ...ports, client: { ...client, call } } };
    },
  },
  {
    name: 'a restart forgets the commands that wait for their results',
    seed: 1,
    broken: /no command stays open/,
    bend: ({ store, ports }) => {
      const due: Store['due'] = async () => (await store.due()).filter(({ key }) => !key.startsWith('command:'));
      return { store: storeWith(store, { due }), ports };
    },
  },
  {
    name: 'the end of a grace is not heard',
    seed: 5,
    broken: /a stopped session that does not end becomes a case|every actor is at rest/,
    patch: deaf((id) => id.startsWith('orphan-stop:')),
  },
  {
    name: 'a lane that is held for another attempt is forgotten now and then',
    seed: 230,
    broken: /nothing is pending in the end|everything that is owed ends/,
    patch: () => {
      let holds = 0;
      return deaf((id) => id.startsWith('lane:') && ++holds % 50 === 0)();
    },
  },
];
