/**
 * The horizon, as it is recorded: up to where the log was trimmed, and what was kept there. Its record counts the kept events
 * and sums their sequences, because up to the horizon no dense sequence tells that one is missing.
 */
import type { Seq } from '../contract.ts';
import { HORIZON_KEY } from '../keys.ts';
import { encode, headOf, inspect } from '../records.ts';
import type { Database } from './leveldb.ts';

export interface Horizon {
  readonly seq: Seq;
  readonly kept: number;
  readonly sum: number;
}

export const NO_HORIZON: Horizon = { seq: 0, kept: 0, sum: 0 };

/** None when its record is damaged or cannot be read: then whoever reads on finds that, and the events that are missing. */
export async function readHorizon(db: Database): Promise<Horizon> {
  const value = await db.get(HORIZON_KEY).catch((error: unknown) => {
    if (db.status !== 'open') throw error;
  });
  if (value === undefined || inspect(HORIZON_KEY, value) !== 'sound') return NO_HORIZON;
  const [seq, kept, sum] = headOf(value) as [number, number, number];
  return { seq, kept, sum };
}

export function encodeHorizon({ seq, kept, sum }: Horizon): string {
  return encode(HORIZON_KEY, JSON.stringify([seq, kept, sum]));
}
