/** Opens the store on PostgreSQL, and describes its nodes for `/admin/v1/cluster`. */
import { hostname } from 'node:os';
import type { Sight } from '../storage/contract.ts';
import { parsePostgresUrl } from '../storage/postgres/options.ts';
import type { ClusterView } from './api/hub.ts';
import { removeUnsealed, sealingOf } from './backup-keys.ts';
import type { Addresses } from './cluster/addresses.ts';
import type { HubNode } from './cluster/node.ts';
import type { SharedStore } from './cluster/node-parts.ts';
import { type Config, ConfigError } from './config/config.ts';
import type { Clock } from './kit/clock.ts';
import { systemClock } from './kit/system-clock.ts';
import type { Starting } from './starting.ts';

interface Watching {
  readonly changed: () => void;
  readonly doubts: () => readonly string[];
  readonly notices: () => readonly string[];
  readonly starting: Pick<Starting, 'until'>;
}

/**
 * Waits for a database that is away. [STARTING-4] The leases of the store use the machine's timers, even when a test
 * replaces the hub's clock.
 */
export async function openSharedStore(config: Config, clock: Clock, { changed, doubts, notices, starting }: Watching) {
  const { store: url, nodeUrl, leaseS } = config;
  try {
    parsePostgresUrl(url);
  } catch (error) {
    throw new ConfigError(`HUB_STORE (--store) is not usable: ${(error as Error).message}`);
  }
  const sealing = sealingOf(config);
  await removeUnsealed(config.dataDir);
  // An embedded hub does without the client of a database.
  const { DatabaseAway } = await import('../storage/postgres/connect.ts');
  const { openPostgresStore } = await import('../storage/postgres/store.ts');
  const open = () =>
    openPostgresStore({
      sealing,
      url,
      node: `${hostname()}:${process.pid}`,
      nodeUrl,
      sole: nodeUrl === null,
      ttlMs: leaseS * 1000,
      gained: changed,
      lost: changed,
      doubts,
      notices,
      clock: { ...systemClock, wall: () => clock.wall() },
    });
  return starting.until(open, (error) => error instanceof DatabaseAway);
}

// The nodes of a hub on a database, as this node sees them: the answer of `/admin/v1/cluster`.

/** `node` is null while it starts. */
export function viewOf(
  store: SharedStore,
  { leaseS }: Config,
  { node, addresses }: { node: HubNode | null; addresses: Addresses },
): ClusterView {
  const owner = store.owner()?.id;
  const nodes = store.nodes().map(({ id, name, url, alive }) => {
    const reached = alive ? addresses.reached(id) : null;
    return { name, url, alive, reached, owner: id === owner, answering: id === store.id };
  });
  const sight = store.sight();
  return {
    store: 'postgres',
    role: node?.role ?? 'standby',
    warning: node?.warning ?? null,
    lease_s: leaseS,
    head: store.head(),
    database: sight && databaseOf(sight),
    nodes,
  };
}

function databaseOf({ clockAheadMs, oldest }: Sight): NonNullable<ClusterView['database']> {
  const oldestTransaction = oldest && { since: oldest.since, who: oldest.who };
  return { clock_ahead_ms: Math.round(clockAheadMs), oldest_transaction: oldestTransaction };
}
