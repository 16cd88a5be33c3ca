/**
 * The nodes of a hub on a database, as this node sees them: the answer of `/admin/v1/cluster`.
 */
import type { Sight } from '../storage/contract.ts';
import type { ClusterView } from './api/hub.ts';
import type { Addresses } from './cluster/addresses.ts';
import type { HubNode } from './cluster/node.ts';
import type { SharedStore } from './cluster/node-parts.ts';
import type { Config } from './config.ts';

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
