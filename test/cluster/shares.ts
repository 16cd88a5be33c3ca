/**
 * Nodes that share the parties, and parties that live on one of them.
 */
import { crc32 } from 'node:zlib';
import { admin, eventually } from '../support/plain-partner.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { adminToken, type Node, nudge } from './nodes.ts';

const all = 256;

/** Resolves when each of the nodes has its share and answers. */
export async function untilShared(nodes: { readonly all: readonly { readonly url: string }[] }): Promise<void> {
  await eventually('each node has its share', async () => {
    await nudge(nodes.all);
    // Shards move meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 100));
    return isShared(nodes.all);
  });
}

/** Whether each of these nodes has its share, knows it of the others, and answers: nothing moves any more. */
export async function isShared(nodes: readonly { readonly url: string }[]): Promise<boolean> {
  const views = await Promise.all(nodes.map(({ url }) => viewOf(url)));
  return views.every((view) => {
    const live = view?.nodes.filter(({ alive }) => alive) ?? [];
    const areSettled = live.every(({ shards, share }) => shards === share);
    return view?.role === 'owner' && live.length === nodes.length && areSettled;
  });
}

/** Resolves when a node has so many shards, and requests of their parties are answered. */
export async function untilOwned(node: Node, count: number): Promise<void> {
  await eventually(`a node has ${count} shards`, async () => {
    const view = await viewOf(node.url);
    return view?.role === 'owner' && view.nodes.some(({ answering, shards }) => answering && shards === count);
  });
}

interface View {
  readonly role: string;
  readonly nodes: readonly ViewedNode[];
}

interface ViewedNode {
  readonly alive: boolean;
  readonly answering: boolean;
  readonly shards: number;
  readonly share: number;
}

async function viewOf(url: string): Promise<View | null> {
  try {
    return (await admin({ url, adminToken }, 'GET', '/cluster')) as unknown as View;
  } catch {
    return null;
  }
}

/** Those that were given to a test, with their schema. */
const given = new Set<string>();

/** Identifiers of parties of `NL` that live on a node, none of them twice, whichever node it lived on then. */
export async function partiesOn(
  server: PostgresServer,
  schema: string,
  node: Pick<Node, 'url'>,
): Promise<() => string> {
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
      if (!shards.has(crc32(`NL-${id}`) % all) || given.has(`${schema}/${id}`)) continue;
      given.add(`${schema}/${id}`);
      return id;
    }
  };
}
