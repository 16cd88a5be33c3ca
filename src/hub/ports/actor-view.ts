/** Views of running actors and the callbacks by which the inspector watches them. They contain no secrets. */
import type { PartyId } from '../../domain/party.ts';

/** A running actor as the inspector shows it. */
export interface WatchedActor {
  /** `partner:NL-CPO`, `courier:NL-EMS`, `command:{id}`, `orphan-stop:{cpo}/{session}`. */
  readonly id: string;
  readonly kind: string;
  /** Ids of the partners, and of their parties, that the actor concerns. */
  readonly parties: readonly PartyId[];
  /** Configuration of the actor's machine as JSON text; all actors of a kind share one text. */
  readonly definition: string;
  readonly state: 'active' | 'restarting' | 'quarantined' | 'ended';
  /** While the actor is being restarted, and when it is quarantined: `status` is `error`, without value and context. */
  readonly snapshot: {
    readonly status: 'active' | 'done' | 'error' | 'stopped';
    readonly value?: unknown;
    readonly context?: Readonly<Record<string, unknown>>;
    readonly error?: string;
  };
  readonly restarts: number;
  /** Message of the last error that the actor threw; null when it never did. */
  readonly error: string | null;
}

export interface WatchedEvent {
  readonly type: string;
  /** Epoch milliseconds. */
  readonly at?: number;
  readonly data?: { readonly result: string };
}

/** Callbacks that run while an actor handles an event, so they must be quick. An error that they throw is dropped. */
export interface Watcher {
  /** An actor handled an event, or (`event` null) started, failed or was restarted. */
  readonly changed: (id: string, event: WatchedEvent | null) => void;
  readonly ended: (last: WatchedActor) => void;
}
