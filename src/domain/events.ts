/**
 * Types of the events in the log. Their names are in the past tense and dotted; each event has all the data that is
 * needed to rebuild the rows that were written with it.
 */
import type { Outcome, OutcomeClass } from './errors.ts';
import type { HistoryEvent } from './history.ts';
import type { ObjectModule } from './modules.ts';
import type { WebhookEvent } from './notification.ts';
import type { NamedChange, PushMethod } from './object.ts';
import type { PartnerEvent, PartyId } from './party.ts';
import type { PullEvent, QuarantineRecord } from './pull.ts';
import type { Quirk, QuirksMet } from './quirks.ts';
import type { RefusedRecord, Tallies } from './report.ts';
import type { Route } from './routing.ts';
import type { Triage, TriageEvent } from './triage.ts';

/** The request that is owed to each receiver: method, path below the receiver's module URL, and body. */
export interface Owed {
  readonly method: PushMethod;
  /** Path below the module URL, percent-encoded, e.g. `/NL/TNM/101`. Empty for CDRs. */
  readonly path: string;
  /** Query with its leading `?`, or empty. */
  readonly query: string;
  /** Body to send instead of the event's own. */
  readonly body?: string;
  /** Lane whose undelivered updates go first: a CDR waits for its session. */
  readonly behind?: string;
}

/** Size in characters of all bodies that an event carries: the received one, and those sent instead of it. */
export function charactersOf({ body, data }: { readonly body: string | null; readonly data: unknown }): number {
  const { owed, whole } = (data ?? {}) as Partial<ObjectEventData>;
  return (body?.length ?? 0) + (owed?.body?.length ?? 0) + (whole?.body?.length ?? 0);
}

/** What a delivery carries: the whole object, its deletion (`end`), or a part. */
export type Form = 'whole' | 'end' | 'part';

/** The request that is owed to one receiver. */
export function owedTo({ owed, whole }: Pick<ObjectEventData, 'owed' | 'whole'>, receiver: PartyId): Owed | null {
  return whole?.to.includes(receiver) ? whole : owed;
}

/** Id of a delivery, `{seq}-{receiver}`: stable over retries, restarts and re-drives. */
export const deliveryId = (receiver: PartyId, { seq }: { readonly seq: number }): string => `${seq}-${receiver}`;

/** Null when the text is not a delivery id. */
export function readDeliveryId(id: string): { readonly seq: number; readonly receiver: PartyId } | null {
  const [, seq, receiver] = /^(\d{1,16})-(.+)$/.exec(id) ?? [];
  return seq === undefined || receiver === undefined ? null : { seq: Number(seq), receiver };
}

/** The form of the request that is owed to one receiver. A whole object that replaces a part has a body of its own. */
export function formOf(data: Pick<ObjectEventData, 'owed' | 'whole' | 'within'>, receiver: PartyId): Form {
  const owed = owedTo(data, receiver);
  if (owed?.method === 'DELETE') return 'end';
  const isPart = owed?.method === 'PATCH' || (data.within.length > 0 && owed?.body === undefined);
  return isPart ? 'part' : 'whole';
}

/**
 * Data of `object.put`, `object.patched` and `object.deleted`; of `object.resent`, which sends the unchanged stored
 * object to a receiver; of `object.missed`, which notes that a change did not reach a receiver; and of `object.base`, which replaces
 * the events that compaction removed.
 */
export interface ObjectEventData extends NamedChange {
  readonly viewer: PartyId | null;
  readonly owed: Owed | null;
  /** Of a partial change: the whole object as of this change, for the receivers that may never have had it. [D59] */
  readonly whole?: Owed & { readonly to: readonly PartyId[] };
  /** Of `object.base` and `object.missed`: receivers to whom the whole object was sent. */
  readonly sent?: readonly PartyId[];
  /** Of `object.base` and `object.missed`: receivers of an older version, as of the object. */
  readonly outdated?: readonly PartyId[];
  /** Of `object.missed`: the receiver that the whole object, or a change of it, never reached; with `by`: to which a re-drive sends it after all. */
  readonly receiver?: PartyId;
  /** Why the change was not forwarded; null when it was. */
  readonly reason: string | null;
  readonly warnings: readonly string[];
  /** Habits that the change showed and the hub made up for. Absent in events of earlier versions. [D70] */
  readonly quirks?: QuirksMet;
  /** Routed eMSPs that have no receiver for the module, so that nothing is owed to them. [D60] */
  readonly unsubscribed?: readonly PartyId[];
  /** `OCPI-to-*` named this party, and nobody else is owed the change. [D68] */
  readonly addressed?: PartyId;
  /** Of `object.base`: a delivery of the object was owed to some receiver before. */
  readonly forwarded?: true;
  /**
   * The actor, where it is not the usual one of the event type: the hub for a pull and for a release after a first
   * registration.
   */
  readonly by?: Actor;
}

/** Who caused an event. Operators are not distinguished. [D80] */
export type Actor = 'operator' | 'partner' | 'hub';

/** A change of a circuit of synchronous calls, or of that of a module's deliveries; without a module, of all modules. */
export type CircuitChange = {
  readonly circuit: 'sync' | 'results' | 'async';
  readonly module?: ObjectModule;
  readonly reason: string;
  readonly by?: Actor;
};

export const commandNames = [
  'START_SESSION',
  'STOP_SESSION',
  'RESERVE_NOW',
  'CANCEL_RESERVATION',
  'UNLOCK_CONNECTOR',
] as const;

export type CommandName = (typeof commandNames)[number];

/**
 * Fields that every later event of a command repeats, so that searches find it without the first one; absent in older
 * logs.
 */
export type CommandNamed = {
  readonly command?: CommandName;
  readonly emsp?: PartyId;
  readonly cpo?: PartyId;
  readonly sessionId?: string | null;
  /** What the hub made up for in this step alone. [D70] */
  readonly quirks?: QuirksMet;
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
        /** Ids that later steps need. */
        sessionId: string | null;
        reservationId: string | null;
        /** End of the reservation, as received. Absent in events of other commands and of earlier versions. */
        expiryDate?: string;
        authorizationReference: string | null;
        tokenUid: string | null;
        quirks?: QuirksMet;
      };
    }
  | { type: 'command.answered'; data: CommandNamed & { result: string; timeoutS: number } }
  | { type: 'command.failed'; data: CommandNamed & { reason: string } }
  /** `accepts`: there is no answer yet, or it was lost, and this ACCEPTED is the first that tells. [D29, D66] */
  | { type: 'command.resultReceived'; data: CommandNamed & { result: string; accepts?: true } }
  /** `resultNumber`: of the command's results, which one; absent in events of earlier versions. */
  | { type: 'command.relayed'; data: CommandNamed & { result: string; resultNumber?: number } }
  | { type: 'command.relayFailed'; data: CommandNamed & { result: string; resultNumber?: number; reason: string } }
  | { type: 'command.silent'; data: CommandNamed };

export type OrphanKind = 'stop_without_complete' | 'complete_without_cdr';

/** Fields that every later event of a watch or case repeats; absent in older logs. */
export interface OrphanNamed {
  readonly kind?: OrphanKind;
  readonly cpo?: PartyId;
  readonly emsp?: PartyId;
  readonly session?: string;
  /** Who acted, when it was not the hub. */
  readonly by?: Actor;
}

export type OrphanEvent =
  | {
      type: 'orphan.armed';
      data: { id: string; kind: OrphanKind; cpo: PartyId; emsp: PartyId; session: string; graceEndsAt: string };
    }
  | { type: 'orphan.disarmed'; data: OrphanNamed & { reason: string } }
  | { type: 'orphan.opened'; data: OrphanNamed }
  /** The hub queried the CPO; `note` says with what result. */
  | { type: 'orphan.pulled'; data: OrphanNamed & { note: string } }
  | { type: 'orphan.triaged'; data: OrphanNamed & { triage: Triage } }
  | { type: 'orphan.resolved'; data: OrphanNamed & { note: string } };

/** `audit.noted` has the entry as the admin API shows it. */
export type AuditEvent =
  | { type: 'audit.noted'; data: { readonly n: number; readonly operator: string; readonly [field: string]: unknown } }
  | { type: 'audit.removed'; data: Record<string, never> };

export type HubEvent =
  | {
      type: 'object.put' | 'object.patched' | 'object.deleted' | 'object.resent' | 'object.missed' | 'object.base';
      data: ObjectEventData;
    }
  | PartnerEvent
  | CommandEvent
  | OrphanEvent
  | PullEvent
  /** All objects that were kept for a partner until its first registration are now owed to it. */
  | { type: 'release.ended'; data: { partner: PartyId; released: number } }
  | { type: 'pull.objectRefused'; data: QuarantineRecord }
  /** Its body is that of the last refusal. */
  | { type: 'push.refused'; data: RefusedRecord }
  /** All tallies of the partner's report as of then. */
  | { type: 'report.noted'; data: Tallies }
  | { type: 'route.set' | 'route.removed'; data: Route }
  | { type: 'circuit.opened' | 'circuit.closed'; data: CircuitChange }
  | {
      type: 'token.authorized';
      data: {
        direction: 'toEmsp' | 'toCpo';
        uid: string;
        from: PartyId;
        to: PartyId;
        allowed: string;
        outcome: string;
        quirks?: QuirksMet;
      };
    }
  | { type: 'delivery.dead'; data: DeliveryNamed & { class: OutcomeClass; reason: string } }
  | { type: 'delivery.redriven' | 'delivery.discarded'; data: DeliveryNamed & { job: string | null } }
  /** The view of the job at that time; `receiver` when the job is for one receiver, for a resync the partner. */
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
  /** Digests only, see `ErasureView`. */
  | { type: 'person.erased'; data: { id: string; digests: readonly string[]; [field: string]: unknown } }
  /** A party has used most of what it may have stored within a day. */
  | { type: 'quota.warned'; data: { party: PartyId; mb: number; mb_per_day: number } }
  | AuditEvent
  | HistoryEvent
  | WebhookEvent
  | TriageEvent
  | SavedViewEvent
  | { type: 'row.rebuilt'; data: { kind: string; owner: string; id: string } }
  | { type: 'actor.quarantined'; data: { actor: string; error: string; parties?: readonly PartyId[] } };

/** Fields that name the delivery of an event; all but the first two are absent in older logs. */
export interface DeliveryNamed {
  readonly delivery: string;
  readonly receiver: PartyId;
  readonly sender?: PartyId;
  readonly module?: string;
  /** `{cc}-{pid}/{id}`. */
  readonly object?: string;
}

/** One attempt at a delivery, as operators see it. */
export interface Attempt {
  readonly at: string;
  readonly duration_ms: number;
  readonly http_status: number | null;
  readonly ocpi_status: number | null;
  readonly class: OutcomeClass;
  readonly excerpt: string;
  /** What the hub made up for, each once; absent: nothing, or in rows of earlier versions. [D70] */
  readonly quirks?: readonly Quirk[];
  /** Nothing of the request left the hub; absent: it may have arrived, or in rows of earlier versions. */
  readonly unsent?: true;
}

/** Whether the receiver may have taken what it did not acknowledge, or did: not where it refused it or answered with a redirect. */
export function mayHaveArrived({ class: met, unsent, http_status }: Pick<Attempt, 'class' | 'unsent' | 'http_status'>) {
  if (unsent) return false;
  if (met === 'invalid_response') return http_status === null || http_status < 300;
  return met === 'delivered' || met === 'timeout' || met === 'unavailable';
}

/** `more`: what the hub makes up for beside what its client did. */
export function attemptOf(outcome: Outcome, at: string, more: readonly Quirk[] = []): Attempt {
  const quirks = [...new Set([...(outcome.quirks ?? []), ...more])];
  return {
    at,
    duration_ms: Math.round(outcome.durationMs),
    http_status: outcome.httpStatus,
    ocpi_status: outcome.ocpiStatus,
    class: outcome.class,
    excerpt: outcome.excerpt || outcome.message,
    ...(quirks.length > 0 && { quirks }),
    ...(outcome.isUnsent && { unsent: true as const }),
  };
}

// The two ids that link the log lines, events and forwards of one request. [D14]

export interface Trace {
  readonly requestId: string;
  readonly correlationId: string;
  /** Name of the operator whose request it is; events that it causes are recorded with the name. [D80] */
  readonly operator?: string;
}

// Saved views: addresses of the console that operators keep under a name, for all of them.

export interface SavedView {
  readonly id: string;
  readonly name: string;
  /** Address below `/console`, with its query: `/deliveries?state=DEAD`. */
  readonly path: string;
  /** Name of the operator who saved it. */
  readonly by: string;
  /** RFC 3339. */
  readonly at: string;
}

export type SavedViewEvent =
  | { type: 'view.saved'; data: SavedView }
  | { type: 'view.removed'; data: { readonly id: string } };
