/** An open database with what belongs to it. */
import type { EventReader } from './event-log.ts';
import type { Database, Unreadable } from './leveldb.ts';
import type { Marks } from './marks.ts';
import type { Found } from './verify.ts';
import type { Rest, WHOLE } from './verify-rest.ts';

export interface Mounted {
  readonly db: Database;
  readonly reader: EventReader;
  readonly found: Found;
  readonly marks: Marks;
  /** Set when quarantined: reads skip blocks that cannot be read, because the damage is already reported. */
  readonly tolerate: Unreadable | null;
  readonly verified: Rest | typeof WHOLE;
}

/** What an error says, with its cause. */
export const sentence = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
};
