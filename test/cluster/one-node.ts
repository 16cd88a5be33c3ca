/**
 * One node on a real database, whose hubs are stand-ins: each says what it was told, and brings back, gives and is
 * made when the test lets it. A real one does so when it has read, at moments that no test can choose.
 */
import { HubNode } from '../../src/cluster/node.ts';
import type { Homes, Served } from '../../src/cluster/node-parts.ts';
import type { Tenure } from '../../src/cluster/tenure.ts';
import type { Shard } from '../../storage/contract.ts';
import { openPostgresStore, type PostgresStore, type PostgresStoreOptions } from '../../storage/postgres-store.ts';
import type { Test } from '../support/tap.ts';

type Step = (shards: ReadonlySet<Shard>) => Promise<void>;

export interface StandIn extends Served {
  /** Shards of each call, as numbers. */
  readonly told: { readonly verb: 'gain' | 'give' | 'drop' | 'close'; readonly shards: readonly Shard[] }[];
}

export interface Steps {
  /** When a hub is made. */
  make?: (tenure: Tenure, hub: StandIn) => Promise<void>;
  gain?: Step;
  give?: Step;
}

const atOnce = async () => {};

function standIn(steps: Steps): StandIn {
  const told: StandIn['told'] = [];
  const tell = (verb: StandIn['told'][number]['verb'], shards: Iterable<Shard>) => {
    told.push({ verb, shards: [...shards] });
  };
  return {
    told,
    gain(shards) {
      tell('gain', shards);
      return (steps.gain ?? atOnce)(shards);
    },
    give(shards) {
      tell('give', shards);
      return (steps.give ?? atOnce)(shards);
    },
    drop: (shards) => tell('drop', shards),
    close: async () => tell('close', []),
    ...{ calm: atOnce, wake() {}, handle() {}, upgrade() {}, answer: atOnce, homes: {} as Homes },
  };
}

/** A node whose hubs take these steps; they may be replaced while it runs. */
export async function startOneNode(
  t: Test,
  options: Pick<PostgresStoreOptions, 'url' | 'node' | 'ttlMs' | 'shards'>,
  steps: Steps,
): Promise<{ readonly node: HubNode; readonly store: PostgresStore; readonly hubs: readonly StandIn[] }> {
  const hubs: StandIn[] = [];
  const store = await openPostgresStore({ ...options, sole: false, sticky: true });
  t.teardown(() => store.close());
  const node = new HubNode({
    ...{ store, passing: null, idle: atOnce, landed: atOnce },
    async serve(tenure) {
      const hub = standIn(steps);
      hubs.push(hub);
      await steps.make?.(tenure, hub);
      return hub;
    },
    meter: { role() {}, tookOver() {} },
    log: { info() {}, warn() {}, error() {} },
  });
  t.teardown(() => node.close());
  return { node, store, hubs };
}
