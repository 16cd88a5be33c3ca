/**
 * The operators who have names of their own: HUB_OPERATORS_FILE, JSON that only its owner may read or write. It holds
 * digests of tokens, so that the file gives no access.
 *
 * OPERATORS-1  A file that cannot be read, that others may read, or that is not valid is refused with the reason: at a
 *     start the hub ends with it, later the operators in use stay.
 */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { z } from 'zod';
import { type Operator, operator, operatorsFile } from './api/operators.ts';
import { ConfigError } from './config/config.ts';

export const digestOfToken = (token: string): string => createHash('sha256').update(token).digest('base64url');

/** Throws an Error with the reason. */
export function operatorIn(value: unknown): Operator {
  const read = operator.safeParse(value);
  if (read.success) return read.data;
  throw new Error(reasonOf(read.error));
}

/** Throws an Error with the reason. [OPERATORS-1] */
export function readOperators(path: string): readonly Operator[] {
  const { mode } = statSync(path);
  if ((mode & 0o077) !== 0) throw new Error(`${path}: others may read or write it; chmod 600 it`);
  return parseOperators(path, readFileSync(path, 'utf8'));
}

function parseOperators(path: string, text: string): readonly Operator[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${path}: not JSON: ${(error as Error).message}`);
  }
  const read = operatorsFile.safeParse(value);
  if (read.success) return read.data.operators;
  throw new Error(`${path}: ${reasonOf(read.error)}`);
}

function reasonOf({ issues: [issue] }: z.ZodError): string {
  return [issue?.path.join('.'), issue?.message].filter(Boolean).join(': ');
}

/** The operators in use; a hub without a file has none with names. */
export interface OperatorsInUse {
  readonly now: () => readonly Operator[];
  /** Reads the file again and returns how many there are; throws an Error with the reason. [OPERATORS-1] */
  readonly reload: () => number;
}

/** Throws `ConfigError`. */
export function operatorsIn(path: string | null): OperatorsInUse {
  let operators: readonly Operator[] = [];
  const reload = () => {
    operators = path === null ? [] : readOperators(path);
    return operators.length;
  };
  try {
    reload();
  } catch (error) {
    throw new ConfigError(`HUB_OPERATORS_FILE (--operators-file) is not usable: ${(error as Error).message}`);
  }
  return { now: () => operators, reload };
}
