/**
 * Who may call the admin API: bearer of the admin token (all of it) or of the viewer token (reading alone).
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { trust } from '../transport/trusted.ts';
import { Problem } from './problem.ts';
import type { AdminRole } from './route.ts';

export interface AdminTokens {
  readonly adminToken: string;
  /** Null: nobody has read-only access. */
  readonly viewerToken: string | null;
}

/** The role of the header's bearer. */
export type Gate = (authorization: string | undefined, least: AdminRole) => AdminRole;

/** Lets whoever may read pass, and their connection count as one of ours; throws as the gate does. */
export function admitReader(allow: Gate, { headers, socket }: IncomingMessage): void {
  allow(headers.authorization, 'viewer');
  trust(socket);
}

/** Throws a 401 or 403 `Problem` unless the header's bearer has at least the role. */
export function gate({ adminToken, viewerToken }: AdminTokens): Gate {
  const admin = digest(adminToken);
  const viewer = viewerToken === null ? null : digest(viewerToken);
  return (authorization, least) => {
    const given = digest(/^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1] ?? '');
    // Digests have one length, and both are always compared: neither content nor length shows in the time taken.
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
