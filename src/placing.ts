/**
 * In which shard a request is answered: that of the party that it is of. Whatever is of no party is the first shard's.
 */
import type { IncomingMessage } from 'node:http';
import type { Shard } from '../storage/contract.ts';
import { pathOf } from './cluster/refusal.ts';
import type { Homes } from './hub/homes.ts';
import { authorizationTokens } from './transport/headers.ts';

/** Hub-wide work and views. */
const common: Shard = 0;

const callbackPath = /^\/ocpi\/[^/]+\/commands\/callback\/([^/]+)$/;

/** Admin verbs of one party, by what the path names. */
const admin: readonly (readonly [
  path: RegExp,
  find: (homes: Homes, name: string) => Shard | null | Promise<Shard | null>,
])[] = [
  [/^\/admin\/v1\/parties\/([^/]+)(?!.*\/resync$)/, (homes, party) => homes.ofParty(party)],
  [/^\/admin\/v1\/routes\/[^/]+\/([^/]+)$/, (homes, cpo) => homes.ofParty(cpo)],
  [/^\/admin\/v1\/deliveries\/(?:\d+\.)?\d+-([^/]+)/, (homes, receiver) => homes.ofParty(receiver)],
  [/^\/admin\/v1\/orphans\/([^/]+)\/(?:pull|resolve)$/, (homes, id) => homes.ofCase(id)],
];

export function shardOf(request: IncomingMessage, homes: Homes): Shard | Promise<Shard> {
  const path = pathOf(request);
  if (path.startsWith('/admin/')) {
    for (const [pattern, find] of admin) {
      const [, name] = pattern.exec(path) ?? [];
      if (name !== undefined) return orCommon(find(homes, plain(name)));
    }
    return common;
  }
  if (!path.startsWith('/ocpi/')) return common;
  const [, command] = callbackPath.exec(path) ?? [];
  if (command !== undefined) return orCommon(homes.ofCommand(plain(command)));
  const tokens = authorizationTokens(request.headers.authorization);
  if (tokens.length === 0) return common;
  // A token that is not known may have been given out elsewhere a moment ago.
  return ofTokens(tokens, homes) ?? homes.caughtUp().then(() => ofTokens(tokens, homes) ?? common);
}

function ofTokens(tokens: readonly string[], homes: Homes): Shard | null {
  for (const token of tokens) {
    const shard = homes.ofToken(token);
    if (shard !== null) return shard;
  }
  return null;
}

function orCommon(found: Shard | null | Promise<Shard | null>): Shard | Promise<Shard> {
  return found instanceof Promise ? found.then((shard) => shard ?? common) : (found ?? common);
}

function plain(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
