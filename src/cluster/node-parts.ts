/**
 * What a node is made of: the store that it shares, the hub that runs on it, and where a request goes.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Fence, Shard, Store } from '../../storage/contract.ts';
import type { Target } from './hop.ts';
import type { Passing } from './passing.ts';
import type { PeerParts } from './peers.ts';
import type { Tenure } from './tenure.ts';

export type Role = 'standby' | 'gaining' | 'owner' | 'isolated' | 'leaving';

interface PeerNode {
  readonly id: string;
  readonly name: string;
  readonly url: string | null;
  readonly alive: boolean;
  readonly share: number;
}

/** What a store for several nodes can do besides. */
export interface SharedStore extends Store, Readonly<PeerParts['store']> {
  readonly id: string;
  /** Of every shard that is held. */
  fences(): Fence[];
  /** Shards that are held and should be another node's. */
  surplus(): Shard[];
  /** Hands shards over. */
  release(shards: readonly Shard[]): Promise<void>;
  owner(shard: Shard): PeerNode | null;
  nodes(): readonly PeerNode[];
  /** Renews and looks at once. */
  poke(): Promise<void>;
  giveUp(shard: Shard): void;
  /** Whether the database has answered so recently that a lease which was held then still is. */
  isFresh(): boolean;
  leave(): Promise<void>;
}

/** A hub that serves under one tenure, whose shards come and go. */
export interface Served {
  /** Resolves when everything recorded of these shards is back. */
  gain(shards: ReadonlySet<Shard>): Promise<void>;
  /** Before shards are given: sends nothing more to their parties, and lets what is in flight end, for `graceMs` at most. */
  calm(shards: ReadonlySet<Shard>, graceMs: number): Promise<void>;
  /** They are not given after all. */
  wake(shards: ReadonlySet<Shard>): void;
  /** No request of their parties may be under way. Resolves when another node may gain them. */
  give(shards: ReadonlySet<Shard>): Promise<void>;
  /** They were lost: puts away at once what runs of them. */
  drop(shards: ReadonlySet<Shard>): void;
  handle(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** What a peer asks for. Never rejects. */
  answer(verb: string, data: unknown): Promise<unknown>;
  readonly homes: Homes;
  close(graceMs: number): Promise<void>;
}

/** In which shard what a request is about lives. */
export interface Homes {
  ofParty(party: string): Shard;
  ofToken(token: string): Shard | null;
  ofCommand(id: string): Promise<Shard | null>;
  ofCase(id: string): Promise<Shard | null>;
  caughtUp(): Promise<void>;
}

export interface NodeParts {
  readonly store: SharedStore;
  readonly passing: Passing | null;
  /** A hub without any shard. */
  readonly serve: (tenure: Tenure) => Promise<Served>;
  /** Resolves when no request of these shards (null: of any) is under way here, or after a while. */
  readonly idle: (shards: ReadonlySet<Shard> | null) => Promise<void>;
  /** The same of requests that were passed on to a node. */
  readonly landed: (nodeId: string, shards: ReadonlySet<Shard> | null) => Promise<void>;
  readonly meter: { role(role: Role): void; tookOver(): void };
  readonly log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>;
}

/** Where a request goes now. */
export type Place =
  | { readonly kind: 'here'; readonly hub: Served }
  | { readonly kind: 'peer'; readonly target: Target }
  | { readonly kind: 'wait' | 'nowhere' };

export const shardsOf = ({ shards }: Pick<SharedStore, 'shards'>): Shard[] =>
  Array.from({ length: shards }, (_, shard) => shard);
