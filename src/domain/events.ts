/**
 * The facts in the log. Past tense, dotted; each is enough to rebuild what was stored when it was recorded.
 */
import type { Outcome, OutcomeClass } from './errors.ts';
import type { ObjectFacts, ObjectModule, PushMethod } from './object.ts';
import type { PartnerEvent, PartyId } from './party.ts';
import type { PullEvent, QuarantineRecord } from './pull.ts';
import type { Route } from './routing.ts';

/** The request as it will be sent to each receiver: what is below the receiver's module URL, and which bytes. */
export interface Owed {
  readonly method: PushMethod;
  /** Below the module URL, percent-encoded, e.g. `/NL/TNM/101`. Empty for CDRs. */
  readonly path: string;
  /** Query with its `?`, or empty. */
  readonly query: string;
  /** Bytes to send when they are not the event's own body. */
  readonly body?: string;
  /** Lane whose undelivered updates go first (a CDR waits for its session). */
  readonly behind?: string;
}

/**
 * Data of `object.put`, `object.patched`, `object.deleted`; of `object.resent`, which changes nothing; and of `object.base`,
 * which stands for those that were too old to be kept.
 */
export interface ObjectEventData {
  readonly module: ObjectModule;
  readonly method: PushMethod;
  readonly owner: PartyId;
  readonly id: string;
  readonly within: readonly string[];
  readonly lastUpdated: string | null;
  readonly facts: ObjectFacts;
  readonly viewer: PartyId | null;
  readonly owed: Owed | null;
  /** Why it was not forwarded; null when it was. */
  readonly reason: string | null;
  readonly warnings: readonly string[];
  /** Of a base: a delivery was owed to somebody before. */
  readonly forwarded?: true;
}

export type CommandName = 'START_SESSION' | 'STOP_SESSION' | 'RESERVE_NOW' | 'CANCEL_RESERVATION' | 'UNLOCK_CONNECTOR';

export const commandNames: readonly CommandName[] = [
  'START_SESSION',
  'STOP_SESSION',
  'RESERVE_NOW',
  'CANCEL_RESERVATION',
  'UNLOCK_CONNECTOR',
];

export type CommandEvent =
  | {
      type: 'command.requested';
      data: {
        id: string;
        command: CommandName;
        emsp: PartyId;
        cpo: PartyId;
        responseUrl: string;
        /** Lower-cased ids that later steps need. */
        sessionId: string | null;
        reservationId: string | null;
        authorizationReference: string | null;
        tokenUid: string | null;
      };
    }
  | { type: 'command.answered'; data: { result: string; timeoutS: number } }
  | { type: 'command.failed'; data: { reason: string } }
  | { type: 'command.resultReceived'; data: { result: string } }
  | { type: 'command.relayed'; data: { result: string } }
  | { type: 'command.relayFailed'; data: { result: string; reason: string } }
  | { type: 'command.silent'; data: Record<string, never> };

export type OrphanKind = 'stop_without_complete' | 'complete_without_cdr';

export type OrphanEvent =
  | {
      type: 'orphan.armed';
      data: { id: string; kind: OrphanKind; cpo: PartyId; emsp: PartyId; session: string; graceEndsAt: string };
    }
  | { type: 'orphan.disarmed'; data: { reason: string } }
  | { type: 'orphan.opened'; data: Record<string, never> }
  /** The CPO was asked; `note` says what came of it. */
  | { type: 'orphan.pulled'; data: { note: string } }
  | { type: 'orphan.resolved'; data: { note: string } };

export type HubEvent =
  | {
      type: 'object.put' | 'object.patched' | 'object.deleted' | 'object.resent' | 'object.base';
      data: ObjectEventData;
    }
  | PartnerEvent
  | CommandEvent
  | OrphanEvent
  | PullEvent
  | { type: 'pull.objectRefused'; data: QuarantineRecord }
  | { type: 'route.set' | 'route.removed'; data: Route }
  | { type: 'circuit.opened' | 'circuit.closed'; data: { circuit: 'sync' | 'async'; reason: string } }
  | {
      type: 'token.authorized';
      data: {
        direction: 'toEmsp' | 'toCpo';
        uid: string;
        from: PartyId;
        to: PartyId;
        allowed: string;
        outcome: string;
      };
    }
  | { type: 'delivery.dead'; data: { delivery: string; receiver: PartyId; class: OutcomeClass; reason: string } }
  | { type: 'delivery.redriven'; data: { delivery: string; receiver: PartyId; job: string | null } }
  /** As operators are shown it then. */
  | {
      type: 'job.started' | 'job.progressed' | 'job.ended';
      data: { id: string; kind: string; state: string; [field: string]: unknown };
    }
  | {
      type: 'log.trimmed';
      data: { upTo: number; events: number; kept: number; dead: Readonly<Record<PartyId, number>> };
    }
  | {
      type: 'backup.started' | 'backup.ended';
      data: { id: string; directory: string; state: string; [field: string]: unknown };
    }
  | { type: 'row.rebuilt'; data: { kind: string; owner: string; id: string } }
  | { type: 'actor.quarantined'; data: { actor: string; error: string } };

/** One try at a delivery, as support sees it. */
export interface Attempt {
  readonly at: string;
  readonly duration_ms: number;
  readonly http_status: number | null;
  readonly ocpi_status: number | null;
  readonly class: OutcomeClass;
  readonly excerpt: string;
}

export function attemptOf(outcome: Outcome, at: string): Attempt {
  return {
    at,
    duration_ms: Math.round(outcome.durationMs),
    http_status: outcome.httpStatus,
    ocpi_status: outcome.ocpiStatus,
    class: outcome.class,
    excerpt: outcome.excerpt || outcome.message,
  };
}
