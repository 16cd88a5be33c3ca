/**
 * Authorization of the admin API: a token gives its operator a role. The settings have the tokens of the operators
 * `admin` and `viewer`, the operators file those of operators with other names; a sign-in gives a session's token.
 *
 * TOKENS-1  Wrong tokens are limited by address. Beyond the limit the answer is 429, also to a right token whose
 *     operator was not accepted from that address before. [VISITORS-2]
 * TOKENS-2  An expired token, or a token that comes from outside its networks, is refused like a wrong one.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { CallerRole } from '../api/audit.ts';
import type { Operator } from '../api/operators.ts';
import { isWithin, markAdmitted } from '../transport/client-connection.ts';
import type { Visitors } from '../transport/visitors.ts';
import { Problem } from './problem.ts';
import { type Caller, roleRank } from './route.ts';
import type { Sessions } from './sign-in.ts';

export interface AdminTokens {
  readonly adminToken: string;
  /** Null: there is no read-only access. */
  readonly viewerToken: string | null;
  /** The operators with names of their own, as of now. */
  readonly operators?: () => readonly Operator[];
  /** Those who signed in by a provider; null or absent: nobody can. */
  readonly sessions?: Pick<Sessions, 'callerOf'> | null;
  readonly visitors: Visitors;
  /** Wall clock, ms; ends tokens. */
  readonly now: () => number;
  readonly log?: Record<'info' | 'warn', (fields: object, message: string) => void>;
}

/**
 * Returns whose token a request's Authorization header has; throws when its role is below `least`. `authorizations`:
 * the forms of the header, for a request that cannot send one.
 */
export type Gate = (
  request: IncomingMessage,
  least: CallerRole,
  authorizations?: readonly (string | undefined)[],
) => Caller;

/** Requires a role, at least read access, and marks the request as admitted; throws like the gate. */
export function admitted(allow: Gate, request: IncomingMessage, least: CallerRole = 'viewer'): Caller {
  const caller = allow(request, least);
  markAdmitted(request);
  return caller;
}

/** Throws a 403 `Problem`. */
export function requireRole({ name, role }: Caller, least: CallerRole): void {
  if (roleRank[role] < roleRank[least]) {
    throw new Problem(403, `this needs the role ${least}, and the token of ${name} has the role ${role}`);
  }
}

/** The gate throws a 401, 403 or 429 `Problem` unless the token has at least the role. */
export function gate(tokens: AdminTokens): Gate {
  const { adminToken, viewerToken, operators = () => [], sessions, now } = tokens;
  const admin = digest(adminToken);
  const viewer = viewerToken === null ? null : digest(viewerToken);

  const callerOf = (token: string, address: () => string): Caller | null => {
    const given = digest(token);
    // Digests have equal length, and both are always compared, so the time taken reveals neither content nor length.
    const isAdmin = timingSafeEqual(given, admin);
    const isViewer = viewer !== null && timingSafeEqual(given, viewer);
    if (isAdmin) return { name: 'admin', role: 'admin' };
    if (isViewer) return { name: 'viewer', role: 'viewer' };
    // A search by digest reveals nothing of a token.
    const found = operators().find((one) => one.token_digest === given.toString('base64url'));
    if (!found) return sessions?.callerOf(token) ?? null;
    const { name, role, expires_at, networks } = found;
    const hasEnded = expires_at !== null && Date.parse(expires_at) <= now();
    const isElsewhere = networks.length > 0 && !isWithin(networks, address());
    return hasEnded || isElsewhere ? null : { name, role };
  };

  return gateFor(callerOf, tokens, operatorsWords);
}

/** What a gate says of those it does not know. */
interface GateWords {
  readonly expected: string;
  readonly realm: string;
  /** Of a log line. */
  readonly token: string;
}

const operatorsWords: GateWords = {
  expected: 'expected Authorization: Bearer with the token of an operator',
  realm: 'ocpi-hub admin',
  token: "an operators' token",
};

/** `callerOf`: the caller whose token it is, null when it is unknown; `address` is read where it matters. [TOKENS-1] */
export function gateFor(
  callerOf: (token: string, address: () => string) => Caller | null,
  { visitors, log }: Pick<AdminTokens, 'visitors' | 'log'>,
  words: GateWords,
): Gate {
  const refusalOf = (isGuess: boolean, address: string): Problem => {
    const isTooMany = isGuess && !visitors.failed(address);
    const count = visitors.refused(address);
    if (count > 0 && isGuess) log?.warn({ address, count }, `${words.token} was refused`);
    else if (count > 0) log?.info({ address, count }, `a request without ${words.token} was refused`);
    if (isTooMany) return tooMany();
    return new Problem(401, words.expected, {
      headers: { 'www-authenticate': `Bearer realm="${words.realm}"` },
    });
  };

  return (request, least, authorizations = [request.headers.authorization]) => {
    const tokens = authorizations.map(tokenIn);
    const exact = () => visitors.exact(request);
    const caller = tokens.map((token) => callerOf(token, exact)).find((one) => one !== null) ?? null;
    const address = visitors.of(request);
    if (caller === null)
      throw refusalOf(
        tokens.some((token) => token !== ''),
        address,
      );
    if (!visitors.mayEnter(address, caller.name)) throw tooMany();
    requireRole(caller, least);
    return caller;
  };
}

const tokenIn = (authorization = '') => /^bearer +(\S+) *$/i.exec(authorization)?.[1] ?? '';

const tooMany = () =>
  new Problem(429, 'too many wrong tokens came from this address', { headers: { 'retry-after': '1' } });

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
