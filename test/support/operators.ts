/** An operators file with one operator of each role. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { digestOfToken } from '../../src/operators.ts';

export interface GivenOperator {
  readonly name: string;
  readonly role: string;
  readonly expires_at?: string;
  readonly networks?: readonly string[];
}

export const tokenOf = (name: string): string => `token-of-${name}-in-the-tests`;

/** Writes the file and returns its path. */
export function operatorsFile(path: string, operators: readonly GivenOperator[], mode = 0o600): string {
  const listed = operators.map((one) => ({ ...one, token_digest: digestOfToken(tokenOf(one.name)) }));
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, JSON.stringify({ operators: listed }), { mode });
  return path;
}
