/**
 * Authorization of the admin API: the admin token grants everything, the viewer token only reading.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { trust } from '../transport/trusted.ts';
import { Problem } from './problem.ts';
import type { AdminRole } from './route.ts';

export interface AdminTokens {
  readonly adminToken: string;
  /** Null: there is no read-only access. */
  readonly viewerToken: string | null;
}

/** Returns the role of an Authorization header; throws when it is below `least`. */
export type Gate = (authorization: string | undefined, least: AdminRole) => AdminRole;

/** Requires read access and marks the connection as trusted; throws like the gate. */
export function admitReader(allow: Gate, { headers, socket }: IncomingMessage): void {
  allow(headers.authorization, 'viewer');
  trust(socket);
}

/** The gate throws a 401 or 403 `Problem` unless the token has at least the role. */
export function gate({ adminToken, viewerToken }: AdminTokens): Gate {
  const admin = digest(adminToken);
  const viewer = viewerToken === null ? null : digest(viewerToken);
  return (authorization, least) => {
    const given = digest(/^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1] ?? '');
    // Digests have equal length, and both are always compared, so the time taken reveals neither content nor length.
    const isAdmin = timingSafeEqual(given, admin);
    const isViewer = viewer !== null && timingSafeEqual(given, viewer);
    if (isAdmin) return 'admin';
    if (isViewer && least === 'viewer') return 'viewer';
    if (isViewer) throw new Problem(403, 'the viewer token may only read');
    throw new Problem(401, 'expected Authorization: Bearer with the admin or viewer token', {
      headers: { 'www-authenticate': 'Bearer realm="ocpi-hub admin"' },
    });
  };
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
