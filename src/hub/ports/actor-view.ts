/**
 * What those who watch the running actors are told, and how. Nothing of it is a secret.
 */
import type { PartyId } from '../../domain/party.ts';

/** A running actor as it is shown. */
export interface WatchedActor {
  /** `partner:NL-CPO`, `courier:NL-EMS`, `command:{id}`, `orphan-stop:{cpo}/{session}`. */
  readonly id: string;
  readonly kind: string;
  /** Ids of the partners and of their parties that it is about. */
  readonly parties: readonly PartyId[];
  /** JSON text of its machine's configuration; one text per kind. */
  readonly definition: string;
  readonly state: 'active' | 'restarting' | 'quarantined' | 'ended';
  /** Without value and context, with `status` error, while it is rebuilt and when it was given up. */
  readonly snapshot: {
    readonly status: 'active' | 'done' | 'error' | 'stopped';
    readonly value?: unknown;
    readonly context?: Readonly<Record<string, unknown>>;
    readonly error?: string;
  };
  readonly restarts: number;
  /** Of the last time that it threw. */
  readonly error: string | null;
}

export interface WatchedEvent {
  readonly type: string;
  /** Epoch milliseconds. */
  readonly at?: number;
  readonly data?: { readonly result: string };
}

/** Called while events are handled: must be quick. What it throws is dropped. */
export interface Watcher {
  /** An actor took an event, or came, failed or came back (`event` null). */
  readonly changed: (id: string, event: WatchedEvent | null) => void;
  readonly ended: (last: WatchedActor) => void;
}
