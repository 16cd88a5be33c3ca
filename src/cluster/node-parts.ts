/**
 * What a node is made of: the store that it shares, the hub that runs on it, and where a request goes.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Commit, Seq, Sight, Store } from '../../storage/contract.ts';
import type { Target } from './node-auth.ts';
import type { Passing } from './passing.ts';
import type { Tenure } from './tenure.ts';

export type Role = 'standby' | 'gaining' | 'owner' | 'isolated' | 'leaving';

interface PeerNode {
  readonly id: string;
  readonly name: string;
  readonly url: string | null;
  readonly alive: boolean;
}

/** What a store for several nodes can do besides. */
export interface SharedStore extends Store {
  readonly id: string;
  owner(): PeerNode | null;
  nodes(): readonly PeerNode[];
  /** Renews and looks at once. */
  poke(): Promise<void>;
  giveUp(): void;
  /** Whether the database has answered so recently that a lease which was held then still is. */
  isFresh(): boolean;
  /** Sees how far the log goes. */
  look(): Promise<void>;
  /** The log goes up to this sequence, as another node knows. */
  sees(head: Seq): void;
  /** Whether every node that lives reads what others write: then any of them may write what needs no fence. */
  isFollowed(): boolean;
  sight(): Sight | null;
  leave(): Promise<void>;
}

/** A hub that serves under one tenure, or a door. */
export interface Served {
  /** Resolves when everything recorded is back. */
  recover(): Promise<void>;
  /** Others have written up to this sequence; `followed` resolves when what they wrote counts here. */
  follow(seq: Seq): void;
  followed(seq: Seq): Promise<void>;
  /** Sends no more deliveries. Resolves when those in flight have ended, or after `graceMs`. */
  calm(graceMs: number): Promise<void>;
  handle(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Writes what is known. */
  close(graceMs: number): Promise<void>;
}

export interface NodeParts {
  readonly store: SharedStore;
  readonly passing: Passing | null;
  /** A hub that has not read anything of what is recorded. */
  readonly serve: (tenure: Tenure) => Promise<Served>;
  /** A door of this node, which has not read anything either. */
  readonly makeDoor: () => Promise<Served>;
  /** Whether doors must go by a commit before it is acknowledged. */
  readonly isForDoors: (commit: Commit) => boolean;
  /** Resolves when no request is under way here, or after a while. */
  readonly idle: () => Promise<void>;
  /** The same of requests that were passed on. */
  readonly landed: () => Promise<void>;
  readonly meter: { role(role: Role): void; tookOver(): void };
  readonly log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>;
}

/** Where a request goes now. */
export type Place =
  | { readonly kind: 'here'; readonly hub: Served }
  | { readonly kind: 'peer'; readonly target: Target }
  | { readonly kind: 'wait' | 'nowhere' };
