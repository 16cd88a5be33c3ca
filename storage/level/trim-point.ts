/**
 * The horizon record: the sequence up to which the log was trimmed, and what was kept there. It contains the number of
 * kept events and the sum of their sequences modulo 2^52, because at or below the horizon sequences are not dense, so a
 * missing event would otherwise go unnoticed.
 */
import type { Seq } from '../contract.ts';
import { HORIZON_KEY } from '../keys.ts';
import { encode, headOf, inspect } from '../records.ts';
import type { Database } from './leveldb.ts';

/** A sum and a sequence together stay below 2^53, hence exact. */
export const SUM_MODULUS = 2 ** 52;

export const plus = (sum: number, seq: Seq): number => (sum + seq) % SUM_MODULUS;
export const minus = (sum: number, seq: Seq): number => (sum - seq + SUM_MODULUS) % SUM_MODULUS;

export interface Horizon {
  readonly seq: Seq;
  readonly kept: number;
  readonly sum: number;
}

export const NO_HORIZON: Horizon = { seq: 0, kept: 0, sum: 0 };

/**
 * `NO_HORIZON` when the record is damaged or unreadable: verification then finds that damage and the missing events.
 */
export async function readHorizon(db: Database): Promise<Horizon> {
  const value = await db.get(HORIZON_KEY).catch((error: unknown) => {
    if (db.status !== 'open') throw error;
  });
  if (value === undefined || inspect(HORIZON_KEY, value) !== 'sound') return NO_HORIZON;
  const [seq, kept, sum] = headOf(value) as [number, number, number];
  // Earlier builds wrote the whole sum.
  return { seq, kept, sum: sum % SUM_MODULUS };
}

export function encodeHorizon({ seq, kept, sum }: Horizon): string {
  return encode(HORIZON_KEY, JSON.stringify([seq, kept, sum]));
}
