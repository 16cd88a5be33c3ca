/**
 * Sign-in by an OpenID Connect provider: the browser leaves for it, and comes back to `arrivalPath` with a query that the hub exchanges
 * for a token.
 */
import { askPlain } from './api.ts';
import type { Caller } from './session.ts';

const arrivalPath = '/console/oidc/callback';
/** Where the person was before. */
const place = 'ocpi-hub.from';

/** Its host; null when operators sign in by token alone. */
export async function providerHost(): Promise<string | null> {
  const { provider } = await askPlain<{ provider: { host: string } | null }>('GET', '/console/oidc/provider');
  return provider?.host ?? null;
}

export function leaveForProvider(): void {
  sessionStorage.setItem(place, location.pathname + location.search);
  location.assign('/console/oidc/start');
}

export const isArrival = (): boolean => location.pathname === arrivalPath;

/** Ends the sign-in, and shows the address at which it began; rejects with an `ApiError`. */
export async function arrive(): Promise<{ readonly token: string; readonly caller: Caller }> {
  const { search } = location;
  const from = sessionStorage.getItem(place) ?? '/console/';
  sessionStorage.removeItem(place);
  history.replaceState(null, '', from);
  return askPlain('POST', '/console/oidc/token', { search });
}
