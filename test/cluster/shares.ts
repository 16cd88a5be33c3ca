/**
 * Nodes that share the parties, and parties that live on one of them.
 */
import { crc32 } from 'node:zlib';
import { admin, eventually } from '../support/plain-partner.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { adminToken, type Node, type Nodes } from './nodes.ts';

/** Of the address of the database: parties are shared. */
export const shared = '&shards=256';

/** Resolves when each of the nodes has its share and answers. */
export async function untilShared(nodes: Nodes): Promise<void> {
  await eventually('each node has its share', async () => {
    const views = await Promise.all(nodes.all.map(({ url }) => viewOf(url)));
    return views.every((view) => {
      const shares = view?.nodes.filter(({ alive }) => alive).map(({ shards }) => shards) ?? [];
      const sum = shares.reduce((all, share) => all + share, 0);
      return view?.role === 'owner' && shares.length === nodes.all.length && Math.min(...shares) > 32 && sum === 256;
    });
  });
}

interface View {
  readonly role: string;
  readonly nodes: readonly { readonly alive: boolean; readonly shards: number }[];
}

async function viewOf(url: string): Promise<View | null> {
  try {
    return (await admin({ url, adminToken }, 'GET', '/cluster')) as unknown as View;
  } catch {
    return null;
  }
}

/** Identifiers of parties of `NL` that live on a node, none of them twice. */
export async function partiesOn(server: PostgresServer, schema: string, node: Node): Promise<() => string> {
  const rows = await server.query<{ id: number }>(
    `select s.id from ${schema}.shards s join ${schema}.nodes n on n.id = s.owner where n.url = $1`,
    [node.url],
  );
  const shards = new Set(rows.map(({ id }) => Number(id)));
  let next = 0;
  return () => {
    for (;;) {
      const id = `${next.toString(36).padStart(2, '0')}${'ABCDEFGH'[next % 8]}`.slice(-3).toUpperCase();
      next += 1;
      if (shards.has(crc32(`NL-${id}`) % 256)) return id;
    }
  };
}
