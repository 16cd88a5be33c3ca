/**
 * A delivery in memory.
 */
import type { Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Attempt, Form } from '../../domain/events.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { PartyId } from '../../domain/party.ts';

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
