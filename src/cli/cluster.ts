/** `ocpi-hub cluster`: prints the nodes of a hub, as seen by the node that answers. */
import type { Command } from 'commander';
import type { ClusterNode, ClusterView } from '../api/hub.ts';
import { type Column, fields, type Page, table } from './table.ts';
import { noun, verb } from './verb.ts';

const reachedWords = {
  itself: 'yes',
  another: 'no: another node answers',
  stranger: 'no: another secret, or no node',
  nobody: 'no',
  unknown: '-',
} as const;

const columns: readonly Column<ClusterNode>[] = [
  { title: 'node', of: ({ name }) => name },
  { title: 'url', of: ({ url }) => url ?? 'none' },
  { title: 'lives', of: ({ alive }) => (alive ? 'yes' : 'no') },
  { title: 'reached', of: ({ reached }) => reachedWords[reached ?? 'unknown'] },
  { title: 'owner', of: ({ owner }) => (owner ? 'yes' : 'no') },
  { title: 'answering', of: ({ answering }) => (answering ? 'yes' : 'no') },
];

export function command(): Command {
  return noun('cluster', 'the nodes of a hub on a shared database', [
    verb({
      usage: 'show',
      summary: 'show every node, who is the owner, the lease and the head of the log',
      examples: ['cluster', 'cluster --url http://node-2:8080'],
      run: async ({ hub, screen }) => screen.answer(await hub.get<ClusterView>('/cluster'), cluster),
    }),
  ]);
}

const openedBy = ({ who, since }: { who: string; since: string }) => `${who}, since ${since}`;

/** A difference below 1 s counts as none: the round trip to the database alone may cause it. */
function clockOf({ clock_ahead_ms: ms }: NonNullable<ClusterView['database']>): string {
  if (Math.abs(ms) < 1000) return 'agrees with that of this node';
  return `${Math.round(Math.abs(ms) / 1000)} s ${ms > 0 ? 'ahead of' : 'behind'} that of this node`;
}

function cluster({ store, role, warning, lease_s, head, database, nodes }: ClusterView, page: Page): string[] {
  const known = fields(page, [
    ['store', store === 'level' ? 'embedded: one process, no other nodes' : 'PostgreSQL'],
    ['this node', role],
    ['warning', warning ?? null],
    ['lease', lease_s === null ? null : `${lease_s} s`],
    ['head of the log', String(head)],
    ['database clock', database === null ? null : clockOf(database)],
    ['open transaction', database?.oldest_transaction ? openedBy(database.oldest_transaction) : null],
  ]);
  return nodes.length === 0 ? known : [...known, '', ...table(columns, nodes, page)];
}
