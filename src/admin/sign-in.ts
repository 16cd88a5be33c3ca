/**
 * Doors of the sign-in to the console by a provider: begun by a link, ended by the page to which the provider sends the
 * browser back.
 *
 * SIGN-IN-1  A sign-in ends in the browser that began it: its state, nonce and PKCE verifier are in a sealed HttpOnly cookie, valid for
 *     `cookieMs`. Any end of the sign-in removes the cookie.
 * SIGN-IN-2  A session is a sealed text that any node can open: whose it is, with which role, and until when. Settings of the
 *     provider that change end all of them.
 * SIGN-IN-3  A sign-in, and one that was refused to a person, is an entry of the audit log.
 * SIGN-IN-4  An address may end `HUB_RATE_FAILED_TOKENS_PER_S` sign-ins a second, counted apart from wrong tokens: each end may
 *     call the provider.
 */
import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import * as z from 'zod';
import { operatorRole } from '../api/audit.ts';
import { expiring, type Sealing } from '../domain/expiring.ts';
import type { AuditVerbs, NotedAct } from '../hub/ports/operator.ts';
import type { Visitors } from '../transport/visitors.ts';
import { noteAct } from './audit-trail.ts';
import { acceptJsonAlone } from './json-bodies.ts';
import { Problem } from './problem.ts';
import type { NamedOperator } from './route.ts';

/** What the answer of the provider must fit. */
const pending = z.object({ state: z.string(), nonce: z.string(), verifier: z.string() });
export type Pending = z.output<typeof pending>;

export interface SignInProvider {
  /** Host of the provider, to show. */
  readonly host: string;
  /** The settings on which its sessions depend. [SIGN-IN-2] */
  readonly identity: string;
  /** The provider's page to which the browser goes. Rejects with `SignInFailed`. */
  begin(): Promise<{ readonly url: string; readonly pending: Pending }>;
  /** Who came back with this query. Rejects with `SignInFailed`. */
  finish(search: string, pending: Pending): Promise<NamedOperator>;
}

export class SignInFailed extends Error {
  override readonly name = 'SignInFailed';
  /** 403 when a person may not, 502 when the provider failed. */
  readonly status: 403 | 502;
  /** Null: it is not known. */
  readonly who: string | null;

  constructor(status: 403 | 502, message: string, who: string | null = null, cause?: unknown) {
    super(message, { cause });
    this.status = status;
    this.who = who;
  }
}

const session = z.object({ name: z.string(), role: operatorRole });
const prefix = 'session.';

export interface Sessions {
  /** A token of the admin API. */
  issue(caller: NamedOperator): string;
  /** Whose it is; null when it has ended, or is none. */
  callerOf(token: string): NamedOperator | null;
}

/** [SIGN-IN-2] `now`: wall clock, ms. */
export function sessionsOf(
  { identity }: SignInProvider,
  secrets: Sealing,
  { now, hours }: { readonly now: () => number; readonly hours: number },
): Sessions {
  const sealed = expiring((value) => session.parse(value), `operator session ${identity}`, secrets, now);
  return {
    issue: ({ name, role }) => `${prefix}${sealed.seal({ name, role }, hours * 3_600_000)}`,
    callerOf: (token) => (token.startsWith(prefix) ? sealed.open(token.slice(prefix.length)) : null),
  };
}

const cookieName = 'ocpi-hub-sign-in';
const cookieMs = 600_000;
/** The query with which the provider sends the browser back. */
const returned = z.strictObject({ search: z.string().regex(/^\?/).max(8192) });

export interface SignInOptions {
  /** Null: operators sign in by token alone. */
  readonly provider: SignInProvider | null;
  readonly sessions: Sessions | null;
  readonly secrets: Sealing;
  readonly operations: Pick<AuditVerbs, 'noteAct'>;
  readonly visitors: Visitors;
  /** Whether browsers reach the console by https. */
  readonly isSecure: boolean;
  /** Wall clock, ms. */
  readonly now: () => number;
  readonly log: Record<'info' | 'warn' | 'error', (fields: object, message: string) => void>;
}

/** Register it under the prefix `/console/oidc`. */
export function signIn(options: SignInOptions): FastifyPluginAsync {
  const { provider, sessions, secrets, operations, visitors, isSecure, now, log } = options;
  const cookies = expiring((value) => pending.parse(value), 'operator sign-in', secrets, now);
  const setCookie = (reply: FastifyReply, value: string, maxAgeMs: number) => {
    const attributes = `Path=/console/oidc; Max-Age=${maxAgeMs / 1000}; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
    void reply.header('set-cookie', `${cookieName}=${value}; ${attributes}`);
  };

  return async (app) => {
    acceptJsonAlone(app);
    app.addHook('onSend', async (_request, reply) => void reply.header('cache-control', 'no-store'));
    app.get('/provider', async () => ({ provider: provider && { host: provider.host } }));
    if (provider === null || sessions === null) return;

    app.get('/start', async (_request, reply) => {
      const { url, pending: begun } = await provider.begin().catch(refused);
      setCookie(reply, cookies.seal(begun, cookieMs), cookieMs);
      return reply.redirect(url, 302);
    });

    app.post('/token', { bodyLimit: 16_384 }, async (request, reply) => {
      const address = visitors.exact(request.raw);
      // [SIGN-IN-4]
      const from = `${visitors.of(request.raw)} sign-in`;
      if (!visitors.failed(from)) throw new Problem(429, 'too many sign-ins came from this address');
      const cookie = new RegExp(`(?:^|; )${cookieName}=([^;]+)`).exec(request.headers.cookie ?? '')?.[1] ?? '';
      const kept = cookies.open(cookie);
      const read = returned.safeParse(request.body);
      setCookie(reply, '', 0);
      if (kept === null || !read.success)
        throw new Problem(400, 'this browser has begun no sign-in that could end here; sign in again');
      const note = (act: Pick<NotedAct, 'operator' | 'role' | 'status'>) =>
        noteAct(
          operations,
          {
            ...act,
            verb: 'POST /console/oidc/token',
            about: '/console/oidc/token',
            reason: null,
            address,
            correlation_id: null,
          },
          log,
        );
      try {
        const caller = await provider.finish(read.data.search, kept);
        await note({ operator: caller.name, role: caller.role, status: 200 });
        log.info({ operator: caller.name, role: caller.role, address }, 'an operator signed in');
        return { token: sessions.issue(caller), caller };
      } catch (error) {
        if (error instanceof SignInFailed) {
          const count = visitors.refused(from);
          if (count > 0) log.warn({ err: error, operator: error.who, address, count }, 'a sign-in was refused');
          if (error.who !== null) await note({ operator: error.who, role: null, status: error.status });
        }
        return refused(error);
      }
    });
  };
}

function refused(error: unknown): never {
  throw error instanceof SignInFailed ? new Problem(error.status, error.message) : error;
}
