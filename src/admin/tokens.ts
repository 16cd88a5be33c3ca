/**
 * Authorization of the admin API: the admin token grants everything, the viewer token only reading.
 *
 * TOKENS-1  Wrong tokens are limited by address; beyond the limit the answer is 429, also to a right token that was not
 *     accepted from that address before. [VISITORS-2]
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { markAdmitted } from '../transport/trusted.ts';
import type { Visitors } from '../transport/visitors.ts';
import { Problem } from './problem.ts';
import type { AdminRole } from './route.ts';

export interface AdminTokens {
  readonly adminToken: string;
  /** Null: there is no read-only access. */
  readonly viewerToken: string | null;
  readonly visitors: Visitors;
  readonly log?: Record<'info' | 'warn', (fields: object, message: string) => void>;
}

/**
 * Returns the role that a request's Authorization header gives it; throws when it is below `least`. `authorizations`:
 * the forms of the header, for a request that cannot send one.
 */
export type Gate = (
  request: IncomingMessage,
  least: AdminRole,
  authorizations?: readonly (string | undefined)[],
) => AdminRole;

/** Requires read access and marks the request as admitted; throws like the gate. */
export function admitReader(allow: Gate, request: IncomingMessage): void {
  allow(request, 'viewer');
  markAdmitted(request);
}

/** The gate throws a 401, 403 or 429 `Problem` unless the token has at least the role. */
export function gate({ adminToken, viewerToken, visitors, log }: AdminTokens): Gate {
  const admin = digest(adminToken);
  const viewer = viewerToken === null ? null : digest(viewerToken);

  const roleOf = (token: string): AdminRole | null => {
    const given = digest(token);
    // Digests have equal length, and both are always compared, so the time taken reveals neither content nor length.
    const isAdmin = timingSafeEqual(given, admin);
    const isViewer = viewer !== null && timingSafeEqual(given, viewer);
    if (isAdmin) return 'admin';
    return isViewer ? 'viewer' : null;
  };

  const refusalOf = (isGuess: boolean, address: string): Problem => {
    const isTooMany = isGuess && !visitors.failed(address);
    const count = visitors.refused(address);
    if (count > 0 && isGuess) log?.warn({ address, count }, "an operators' token was refused");
    else if (count > 0) log?.info({ address, count }, "a request without an operators' token was refused");
    if (isTooMany) return tooMany();
    return new Problem(401, 'expected Authorization: Bearer with the admin or viewer token', {
      headers: { 'www-authenticate': 'Bearer realm="ocpi-hub admin"' },
    });
  };

  return (request, least, authorizations = [request.headers.authorization]) => {
    const tokens = authorizations.map(tokenIn);
    const role = tokens.map(roleOf).find((one) => one !== null) ?? null;
    const address = visitors.of(request);
    if (role === null)
      throw refusalOf(
        tokens.some((token) => token !== ''),
        address,
      );
    if (!visitors.mayEnter(address, role)) throw tooMany();
    if (role === 'viewer' && least === 'admin') throw new Problem(403, 'the viewer token may only read');
    return role;
  };
}

const tokenIn = (authorization = '') => /^bearer +(\S+) *$/i.exec(authorization)?.[1] ?? '';

const tooMany = () =>
  new Problem(429, 'too many wrong tokens came from this address', { headers: { 'retry-after': '1' } });

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
