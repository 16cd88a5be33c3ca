/**
 * One node on a real database, whose hubs are stand-ins: each says what it was told, and is made and recovers when the test lets it. A
 * real one does so when it has read, at moments that no test can choose.
 */
import { HubNode } from '../../src/cluster/node.ts';
import type { Served } from '../../src/cluster/node-parts.ts';
import type { Passing } from '../../src/cluster/passing.ts';
import type { Tenure } from '../../src/cluster/tenure.ts';
import type { PostgresStoreOptions } from '../../storage/postgres/options.ts';
import { openPostgresStore, type PostgresStore } from '../../storage/postgres/store.ts';
import type { Test } from '../support/tap.ts';

export interface StandIn extends Served {
  readonly told: ('recover' | 'close')[];
}

export interface Steps {
  /** When a hub is made. */
  make?: (tenure: Tenure, hub: StandIn) => Promise<void>;
  recover?: () => Promise<void>;
  /** When a door is made. */
  door?: () => Promise<void>;
}

/** Stands for an error that tells of settings which do not fit. */
export class Unfit extends Error {}

const atOnce = async () => {};

function standIn(steps: Steps): StandIn {
  const told: StandIn['told'] = [];
  return {
    told,
    recover() {
      told.push('recover');
      return (steps.recover ?? atOnce)();
    },
    close: async () => void told.push('close'),
    ...{
      follow() {},
      followed: atOnce,
      tokenUsed() {},
      isSettling: () => false,
      drain: atOnce,
      handle() {},
      upgrade() {},
    },
  };
}

interface OneNode {
  readonly node: HubNode;
  readonly store: PostgresStore;
  /** In order of their making. */
  readonly hubs: readonly StandIn[];
  readonly doors: readonly StandIn[];
}

/** A node whose hubs take these steps. */
export async function startOneNode(
  t: Test,
  options: Pick<PostgresStoreOptions, 'url' | 'node' | 'ttlMs'>,
  steps: Steps,
  passing: Passing | null = null,
): Promise<OneNode> {
  const hubs: StandIn[] = [];
  const doors: StandIn[] = [];
  const store = await openPostgresStore({ ...options, sole: false });
  t.teardown(() => store.close());
  const node = new HubNode({
    ...{ store, passing, idle: atOnce, landed: atOnce },
    async serve(tenure) {
      const hub = standIn(steps);
      hubs.push(hub);
      await steps.make?.(tenure, hub);
      return hub;
    },
    isForDoors: () => false,
    isOfSettings: (error): error is Error => error instanceof Unfit,
    async makeDoor() {
      await steps.door?.();
      const door = standIn({});
      doors.push(door);
      return door;
    },
    meter: { role() {}, tookOver() {} },
    log: { info() {}, warn() {}, error() {} },
  });
  t.teardown(() => node.close());
  return { node, store, hubs, doors };
}
