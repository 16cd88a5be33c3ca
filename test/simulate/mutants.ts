/**
 * Bugs put in on purpose, at run time and from outside, to see that the judge finds them. The product knows nothing of them.
 */

import { Lanes } from '../../src/hub/delivery/lanes.ts';
import { MissedNotes } from '../../src/hub/delivery/missed-notes.ts';
import { Progress } from '../../src/hub/delivery/progress.ts';
import type { Store } from '../../storage/contract.ts';
import { storeWith } from '../support/store-with.ts';
import { waiting } from './waiting-mutants.ts';
import type { WorldOptions } from './world.ts';

export interface Mutant {
  readonly name: string;
  /** A seed that finds it, at little cost. */
  readonly seed: number;
  /** The rule that must notice. */
  readonly broken: RegExp;
  readonly bend?: WorldOptions['bend'];
  /** Changes a class; the function that it returns puts it back. */
  readonly patch?: () => () => void;
}

export const mutants: readonly Mutant[] = [
  {
    name: 'a commit is acknowledged and dispatched before it is written',
    seed: 1,
    broken:
      /is in the log|is dispatched|what it is not owed|not registered|recorded before it is forwarded|follows from/,
    bend: ({ store, ports }) => {
      let promised = 0;
      const append: Store['append'] = async (commit) => {
        const first = Math.max(promised, store.head()) + 1;
        promised = first + commit.events.length - 1;
        store.append(commit).catch(() => {});
        return { first, last: promised, replayed: false };
      };
      return { store: storeWith(store, { append }), ports };
    },
  },
  {
    name: 'a lane lets two go at once, now and then',
    seed: 1,
    broken: /one in flight per receiver and object|not sent again/,
    patch: () => {
      let turns = 0;
      const { take } = Lanes.prototype;
      Lanes.prototype.take = function (this: Lanes, ...slots) {
        const lane = take.call(this, ...slots);
        if (lane && ++turns % 20 === 0) {
          this.hold(lane, lane.dueAt);
          this.release(lane);
        }
        return lane;
      };
      return () => {
        Lanes.prototype.take = take;
      };
    },
  },
  {
    name: 'a floor moves one too far',
    seed: 1,
    broken: /a floor never passes/,
    patch: () => {
      const { floor } = Progress.prototype;
      Progress.prototype.floor = function (this: Progress, dispatchedTo) {
        const right = floor.call(this, dispatchedTo);
        return right + (this.isPending(right + 1) ? 1 : 0);
      };
      return () => {
        Progress.prototype.floor = floor;
      };
    },
  },
  {
    name: 'a restart forgets the deliveries that wait for another attempt',
    seed: 8,
    broken: /everything that is owed ends|order of the log|receivers end with/,
    bend: ({ store, ports }) => {
      const deliveries: Store['deliveries'] = async (query) =>
        (await store.deliveries(query)).filter(({ state }) => state !== 'PENDING');
      return { store: storeWith(store, { deliveries }), ports };
    },
  },
  {
    name: 'that a receiver misses a change is not noted',
    seed: 181,
    broken: /the first that a receiver gets/,
    patch: () => {
      const { add } = MissedNotes.prototype;
      MissedNotes.prototype.add = () => {};
      return () => {
        MissedNotes.prototype.add = add;
      };
    },
  },
  {
    name: 'a trim keeps nothing that a row is made from',
    seed: 26,
    broken: /damaged row|never added/,
    bend: ({ store, ports }) => {
      const trim: Store['trim'] = (asked) => store.trim({ ...asked, keeps: [] });
      return { store: storeWith(store, { trim }), ports };
    },
  },
  {
    name: 'a trim overlooks deliveries that wait for another attempt',
    seed: 11,
    broken: /nothing that is owed goes from the log/,
    bend: ({ store, ports }) => {
      // Beside it only lists ask for rows up to a sequence.
      const deliveries: Store['deliveries'] = async (query) =>
        (await store.deliveries(query)).filter(({ state }) => query.toSeq === undefined || state !== 'PENDING');
      return { store: storeWith(store, { deliveries }), ports };
    },
  },
  {
    name: 'a START_SESSION counts for ever',
    seed: 7,
    broken: /goes back to whom it names|not entitled|is owed it/,
    bend: ({ store, ports }) => {
      const get: Store['get'] = async (key) => {
        const row = await store.get(key);
        if (!row || !key.kind.startsWith('starts:')) return row;
        return { ...row, data: { ...(row.data as object), at: new Date(ports.clock.now()).toISOString() } };
      };
      return { store: storeWith(store, { get }), ports };
    },
  },
  {
    name: 'a command is sent again when its answer was lost',
    seed: 2,
    broken: /forwarded once at most/,
    bend: ({ store, ports }) => {
      const { client } = ports;
      const again: typeof client.call = async (call) => {
        const outcome = await client.call(call);
        return outcome.class === 'unavailable' && call.url.includes('/commands/') ? client.call(call) : outcome;
      };
      return { store, ports: { ...ports, client: { ...client, call: again } } };
    },
  },
  ...waiting,
];
