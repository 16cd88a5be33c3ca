/**
 * Interfaces between a node and its parts: the shared store, the hub or door that runs on it, and the place of a
 * request.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Commit, Seq, Sight, Store } from '../../storage/contract.ts';
import type { Grant } from './grant-sharing.ts';
import type { Target } from './node-auth.ts';
import type { Passing } from './passing.ts';
import type { Tenure } from './tenure.ts';

export type Role = 'standby' | 'gaining' | 'owner' | 'isolated' | 'leaving';

export interface PeerNode {
  readonly id: string;
  readonly name: string;
  readonly url: string | null;
  readonly alive: boolean;
}

/** Round trips to the database, ms: that of this node, and the shortest of the other live ones. */
export interface Slowness {
  readonly ms: number;
  readonly otherMs: number;
}

/** A store that several nodes share, with the lease and the node table. */
export interface SharedStore extends Store {
  readonly id: string;
  owner(): PeerNode | null;
  nodes(): readonly PeerNode[];
  /** Runs a lease beat now instead of at the next interval: renews the lease and reads owner and nodes. */
  poke(): Promise<void>;
  /** Gives up the lease; this node can hold it again only under a new fencing token. */
  giveUp(): void;
  /** Whether the last lease renewal still counts by this node's own clock. */
  isFresh(): boolean;
  /** Whether this node could serve if it had the lease: only then may a slow owner leave it to this one. */
  offer(isAble: boolean): void;
  /** Null unless the way to the database is slow here beside another live node's. */
  slowness(): Slowness | null;
  /** Reads the head of the log. Rejects when the database is unavailable. */
  look(): Promise<void>;
  /** A peer reports that the log goes up to `head`. */
  sees(head: Seq): void;
  /** Whether every live node reads the writes of other nodes. Only then may any node make writes that need no fence. */
  isFollowed(): boolean;
  /** One sentence for each part of the log that the database lost since this node started: its memory was of another log. */
  losses(): readonly string[];
  /** Clock difference and oldest open transaction of the database; null while unknown. */
  sight(): Sight | null;
  /** Hands the lease over. Rejects when the database is unavailable: the lease then expires. */
  leave(): Promise<void>;
}

/** A running hub: the owner's hub, under one tenure, or a door. */
export interface Served {
  /** Resolves when recovery from the store is complete. */
  recover(): Promise<void>;
  /** Other nodes have written up to `seq`: reads their events. */
  follow(seq: Seq): void;
  /** Resolves when this hub has applied all events up to `seq`. */
  followed(seq: Seq): Promise<void>;
  /** A door of another node noted a use of a token. */
  tokenUsed(use: Omit<Grant, 'budget'> & { readonly digest: string; readonly address: string }): void;
  /** Whether the partner with this initial token has answered an exchange that the hub began, and the exchange has not ended. */
  isSettling(digest: string): boolean;
  /** Starts no more deliveries. Resolves when those in flight have ended, or after `graceMs`. */
  drain(graceMs: number): Promise<void>;
  handle(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Stops the hub and writes its pending state. */
  close(graceMs: number): Promise<void>;
}

export interface NodeParts {
  readonly store: SharedStore;
  readonly passing: Passing | null;
  /** Makes the owner's hub, which has not recovered yet. */
  readonly serve: (tenure: Tenure) => Promise<Served>;
  /** Makes this node's door, which has not recovered yet. */
  readonly makeDoor: () => Promise<Served>;
  /** Whether an error says that settings of this node do not fit the store, which only an operator can change. */
  readonly isOfSettings: (error: unknown) => error is Error;
  /** Whether all doors must apply a commit before it is acknowledged: it changes partners or routing rules. */
  readonly isForDoors: (commit: Commit) => boolean;
  /** Resolves when the hub on this node has no request in flight, or after a timeout. */
  readonly idle: () => Promise<void>;
  /** Resolves when no request that was passed to a peer is in flight, or after a timeout. */
  readonly landed: () => Promise<void>;
  readonly meter: { role(role: Role): void; tookOver(): void };
  readonly log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>;
}

/** Who answers a request: the hub on this node, a peer, nobody yet (the request is held), or nobody (503). */
export type Place =
  | { readonly kind: 'here'; readonly hub: Served }
  | { readonly kind: 'peer'; readonly target: Target }
  | { readonly kind: 'wait' | 'nowhere' };
