/**
 * The row of a delivery: what of it is written, and what a delivery that comes into memory has behind it.
 *
 * DELIVERY-ROW-1  A row holds times of day, memory hub time. A due time is as long after the last attempt as was
 *     recorded, so a step of the wall clock or a restart makes no wait longer than its own maximum.
 * DELIVERY-ROW-2  A session that went whole in place of a part, and is re-driven while a rule joins the two parties, goes whole again, as of its own
 *     change: the receiver may have taken the whole that it refused, and would append the charging periods of the part once more.
 */
import type { DeliveryRow, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { OutcomeClass } from '../../domain/errors.ts';
import type { Attempt, Form, ObjectEventData } from '../../domain/events.ts';
import { instantOf, instantText } from '../../domain/instant.ts';
import { modules, type ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';
import { isJoined } from '../../domain/routing.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';

/** Data of a delivery's row. */
export interface DeliveryMemory {
  readonly attempts: readonly Attempt[];
  /** When the next attempt is due, RFC 3339; null for one that is due at once or has ended. */
  readonly due: string | null;
  /** Start of the retry window, RFC 3339. */
  readonly since: string;
  /** Attempts in this retry window. */
  readonly tries: number;
  readonly module: string;
  /** The owner of the object. Absent in rows of earlier versions. */
  readonly sender?: PartyId;
  /** Outcome class of the end; null while the delivery waits. */
  readonly class: OutcomeClass | null;
  /** Why the delivery is dead; null when it is not. */
  readonly reason: string | null;
  /** A re-drive or resend. */
  readonly redriven?: true;
  /** Of a re-drive: where the log ended then. Absent in rows of earlier versions. */
  readonly owedAt?: Seq;
  /** The whole object is sent in place of a part. [D59] */
  readonly whole?: true;
  /** Of a re-drive that was a whole before, or became one when it was sent: its own change. Else a whole is as of `owedAt`. */
  readonly asOf?: Seq;
  /** Of a dead letter: the object does not say yet that the receiver lacks it, or a change of it. [MISSED-NOTES-1] */
  readonly unnoted?: true;
}

/** Whether the receiver of a dead letter lacks an object then, or a change of it. */
export const leavesGap = ({ form, module }: Pick<Item, 'form' | 'module'>): boolean =>
  form !== 'end' && !modules[module].isImmutable;

/** Result of an attempt: when the next one is due, or how the delivery ended. */
export type Ending = Pick<DeliveryMemory, 'due' | 'class' | 'reason'>;

export function memoryOf(item: Item, { due, class: ended, reason }: Ending, clock: Clock): DeliveryMemory {
  const { module, sender, attempts, tries, isRedriven, owedAt, asWhole, asOf } = item;
  const since = instantText(clock.stamp(item.since));
  const row = { module, sender, attempts, tries, since, due, class: ended, reason };
  const unnoted = reason !== null && leavesGap(item);
  if (!isRedriven && !asWhole && !unnoted) return row;
  const forms = { ...(isRedriven && { redriven: true as const, owedAt }), ...(asWhole && { whole: true as const }) };
  const notOfNow = asWhole && asOf !== owedAt && { asOf };
  return { ...row, ...forms, ...notOfNow, ...(unnoted && { unnoted: true as const }) };
}

/** The last change that the whole of a row has; undefined: that of the row's event. */
export const asOfIn = ({ asOf, owedAt }: Pick<DeliveryMemory, 'asOf' | 'owedAt'>): Seq | undefined => asOf ?? owedAt;

/** What a delivery that comes into memory has behind it: from its row, or null for one that has none. */
export function pastOf(event: StoredEvent, memory: DeliveryMemory | null, { ports, recorder }: Context) {
  const since = ports.clock.steady(instantOf(memory?.since ?? event.at));
  if (memory === null) {
    const isRedriven = event.type === 'object.resent';
    return {
      since,
      owedAt: event.seq,
      asWhole: false,
      asOf: event.seq,
      isRedriven,
      tries: 0,
      attempts: [],
      dueAt: null,
    };
  }
  const { whole: asWhole = false, redriven: isRedriven = event.type === 'object.resent', tries, attempts } = memory;
  const owedAt = memory.owedAt ?? (memory.redriven ? recorder.feed.upTo : event.seq);
  const asOf = memory.asOf ?? (asWhole ? owedAt : event.seq);
  const dueAt = memory.due === null ? null : dueOf(memory, ports.clock);
  return { since, owedAt, asWhole, asOf, isRedriven, tries, attempts, dueAt };
}

/** What a re-drive sends: the change as it was, or the whole object as of now in its place. */
export type RedrivenAs = 'change' | 'whole';

/** The row of a delivery that is re-driven now, with a new retry window; `before`: its row until now. */
export function redrivenRow(
  { seq, data: of }: StoredEvent,
  dest: PartyId,
  before: DeliveryRow | null,
  as: RedrivenAs,
  { ports, recorder, directory }: Context,
): DeliveryRow {
  const { module, owner: sender } = of as ObjectEventData;
  const { attempts = [], whole = false } = (before?.data ?? {}) as Partial<DeliveryMemory>;
  const isWholeAgain = whole && modules[module].isSentAsOfChange && isJoined(directory, module, sender, dest);
  const since = instantText(ports.clock.wall());
  const data: DeliveryMemory = {
    module,
    sender,
    attempts,
    since,
    tries: 0,
    due: null,
    class: null,
    reason: null,
    redriven: true,
    owedAt: recorder.feed.upTo,
    ...(as === 'whole' && { whole: true as const }),
    // [DELIVERY-ROW-2]
    ...(as === 'change' && isWholeAgain && { whole: true as const, asOf: seq }),
  };
  return { dest, seq, state: 'PENDING', data };
}

/** When a delivery that waits is due, in hub time: as long after its last attempt as was recorded. [DELIVERY-ROW-1] */
function dueOf({ due, attempts }: DeliveryMemory, clock: Clock): number {
  const last = Date.parse(attempts.at(-1)?.at ?? '');
  const at = clock.steady(last) + Date.parse(due ?? '') - last;
  return Number.isNaN(at) ? clock.now() : at;
}

/** A delivery in memory. */
export interface Item {
  readonly receiver: PartyId;
  readonly seq: Seq;
  /** Event stream of the object. */
  readonly stream: string;
  readonly module: ObjectModule;
  readonly sender: PartyId;
  /** Id of the object, as the event spells it. */
  readonly id: string;
  /** Characters of the body that is sent. */
  readonly size: number;
  /** Start of the retry window, hub time: acceptance, or the last re-drive. */
  readonly since: number;
  /** Where in the log it was last owed: its event, or the end of the log at the last re-drive. */
  readonly owedAt: Seq;
  /** When the next attempt is due, hub time; null: at once. */
  readonly dueAt: number | null;
  /** When the delivery came into memory, hub time, ms. */
  readonly loadedAt: number;
  /** Stream whose undelivered updates go first (a CDR waits for its session), for at most 10 s. */
  readonly behind: string | null;
  readonly correlationId: string | null;
  readonly form: Form;
  /** The whole object is sent in place of a part. [D59] */
  readonly asWhole: boolean;
  /** The last change that this whole has, where its module says so: its own, or the end of the log at a re-drive that decided on the whole. */
  readonly asOf: Seq;
  /** Kept until the first attempt has ended, if memory allows; null: read from the log for the attempt. */
  readonly event: StoredEvent | null;
  /** A re-drive or resend: such deliveries share one in `redriveShare` of the partner's slots. [LANES-3] */
  readonly isRedriven: boolean;
  /** Attempts in this retry window. */
  readonly tries: number;
  /** All earlier attempts, also those before a re-drive, oldest first. */
  readonly attempts: readonly Attempt[];
}
