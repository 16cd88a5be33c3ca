/** The operators with names of their own, as HUB_OPERATORS_FILE lists them. */
import * as z from 'zod';
import { operatorRole } from './audit.ts';
import { instant, network, type View } from './common.ts';

export const operatorName = z
  .string()
  .regex(/^[A-Za-z0-9][\w.@-]{0,63}$/, 'expected 1 to 64 letters, digits, or any of . _ @ -')
  .refine((name) => !reserved.has(name), 'this name is taken by the hub');

/** Names in the audit log that are those of no person: the tokens of the settings, and the hub itself. */
const reserved: ReadonlySet<string> = new Set(['admin', 'viewer', 'hub']);

export const operator = z.strictObject({
  name: operatorName,
  role: operatorRole,
  /** SHA-256 of the token, base64url. */
  token_digest: z.string().regex(/^[\w-]{43}$/, 'expected a SHA-256 digest, base64url'),
  /** Null: it does not end. */
  expires_at: instant.nullable().default(null),
  /** Networks in CIDR form from which the token is accepted; empty: from everywhere. */
  networks: z.array(network).default([]),
});

export const operatorsFile = z
  .strictObject({ operators: z.array(operator) })
  .refine(({ operators }) => new Set(operators.map(({ name }) => name)).size === operators.length, {
    error: 'a name stands twice',
  })
  .refine(({ operators }) => new Set(operators.map(({ token_digest }) => token_digest)).size === operators.length, {
    error: 'two operators have the same token',
  });

export type Operator = z.output<typeof operator>;

// Answers about saved views.

export const savedView = z.object({
  id: z.string(),
  name: z.string(),
  path: z.string().describe('address below /console, with its query'),
  by: z.string().describe('name of the operator who saved it'),
  at: instant,
});

export type SavedViewView = View<typeof savedView>;
