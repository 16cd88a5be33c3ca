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

/** Characters of the bodies that an event carries: what came, and what is sent in place of it. */
export function charactersOf({ body, data }: { readonly body: string | null; readonly data: unknown }): number {
  const { owed, whole } = (data ?? {}) as Partial<ObjectEventData>;
  return (body?.length ?? 0) + (owed?.body?.length ?? 0) + (whole?.body?.length ?? 0);
}

/** Of the object: all of it, its end, or less than it. */
export type Form = 'whole' | 'end' | 'part';

/** What is owed to one of the receivers. */
export function owedTo({ owed, whole }: Pick<ObjectEventData, 'owed' | 'whole'>, receiver: PartyId): Owed | null {
  return whole?.to.includes(receiver) ? whole : owed;
}

/** In which form it is owed. What goes whole in place of a part has a body of its own. */
export function formOf(data: Pick<ObjectEventData, 'owed' | 'whole' | 'within'>, receiver: PartyId): Form {
  const owed = owedTo(data, receiver);
  if (owed?.method === 'DELETE') return 'end';
  const isPart = owed?.method === 'PATCH' || (data.within.length > 0 && owed?.body === undefined);
  return isPart ? 'part' : 'whole';
}

/**
 * Data of `object.put`, `object.patched`, `object.deleted`; of `object.resent`, which sends the stored object to somebody and leaves its
 * body as it is; of `object.missed`, by which a receiver leaves `sent`; and of `object.base`, which stands for those that were too old to
 * be kept.
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
  /** Of a change that is less than the object: the whole as of this change, for those receivers that may never have had it. [D59] */
  readonly whole?: Owed & { readonly to: readonly PartyId[] };
  /** Of a base and of `object.missed`: to whom the object was sent whole. */
  readonly sent?: readonly PartyId[];
  /** Of `object.missed`: whom the whole never reached. */
  readonly receiver?: PartyId;
  /** Why it was not forwarded; null when it was. */
  readonly reason: string | null;
  readonly warnings: readonly string[];
  /** Of a base: a delivery was owed to somebody before. */
  readonly forwarded?: true;
  /** Who acted, when it is another than the type says: a pull and a release after a first registration are the hub's. */
  readonly by?: Actor;
}

/** Who acted. Operators have no names yet. [D80] */
export type Actor = 'operator' | 'partner' | 'hub';

export type CommandName = 'START_SESSION' | 'STOP_SESSION' | 'RESERVE_NOW' | 'CANCEL_RESERVATION' | 'UNLOCK_CONNECTOR';

export const commandNames: readonly CommandName[] = [
  'START_SESSION',
  'STOP_SESSION',
  'RESERVE_NOW',
  'CANCEL_RESERVATION',
  'UNLOCK_CONNECTOR',
];

/** What each later fact of a command says again, so that it is found by itself; absent in older logs. */
export type CommandNamed = {
  readonly command?: CommandName;
  readonly emsp?: PartyId;
  readonly cpo?: PartyId;
  readonly sessionId?: string | null;
};

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
  | { type: 'command.answered'; data: CommandNamed & { result: string; timeoutS: number } }
  | { type: 'command.failed'; data: CommandNamed & { reason: string } }
  | { type: 'command.resultReceived'; data: CommandNamed & { result: string } }
  | { type: 'command.relayed'; data: CommandNamed & { result: string } }
  | { type: 'command.relayFailed'; data: CommandNamed & { result: string; reason: string } }
  | { type: 'command.silent'; data: CommandNamed };

export type OrphanKind = 'stop_without_complete' | 'complete_without_cdr';

/** What each later fact of a watch or case says again; absent in older logs. */
export interface OrphanNamed {
  readonly kind?: OrphanKind;
  readonly cpo?: PartyId;
  readonly emsp?: PartyId;
  readonly session?: string;
  /** When it is not the hub. */
  readonly by?: Actor;
}

export type OrphanEvent =
  | {
      type: 'orphan.armed';
      data: { id: string; kind: OrphanKind; cpo: PartyId; emsp: PartyId; session: string; graceEndsAt: string };
    }
  | { type: 'orphan.disarmed'; data: OrphanNamed & { reason: string } }
  | { type: 'orphan.opened'; data: OrphanNamed }
  /** The CPO was asked; `note` says what came of it. */
  | { type: 'orphan.pulled'; data: OrphanNamed & { note: string } }
  | { type: 'orphan.resolved'; data: OrphanNamed & { note: string } };

export type HubEvent =
  | {
      type: 'object.put' | 'object.patched' | 'object.deleted' | 'object.resent' | 'object.missed' | 'object.base';
      data: ObjectEventData;
    }
  | PartnerEvent
  | CommandEvent
  | OrphanEvent
  | PullEvent
  /** What was kept for a partner until its first registration is owed to it now. */
  | { type: 'release.ended'; data: { partner: PartyId; released: number } }
  | { type: 'pull.objectRefused'; data: QuarantineRecord }
  | { type: 'route.set' | 'route.removed'; data: Route }
  | { type: 'circuit.opened' | 'circuit.closed'; data: { circuit: 'sync' | 'async'; reason: string; by?: Actor } }
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
  | { type: 'delivery.dead'; data: DeliveryNamed & { class: OutcomeClass; reason: string } }
  | { type: 'delivery.redriven'; data: DeliveryNamed & { job: string | null } }
  /** As operators are shown it then; `receiver` when it is for one, of a resync the partner. */
  | {
      type: 'job.started' | 'job.progressed' | 'job.ended';
      data: { id: string; kind: string; state: string; receiver?: PartyId; [field: string]: unknown };
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
  | { type: 'actor.quarantined'; data: { actor: string; error: string; parties?: readonly PartyId[] } };

/** Of which delivery it is; all but the first two are absent in older logs. */
export interface DeliveryNamed {
  readonly delivery: string;
  readonly receiver: PartyId;
  readonly sender?: PartyId;
  readonly module?: string;
  /** `{cc}-{pid}/{id}`. */
  readonly object?: string;
}

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
