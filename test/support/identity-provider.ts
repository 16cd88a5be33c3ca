/** A real OpenID Connect provider (oidc-provider) on a port of its own. People sign in at its page by a press of a button. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider from 'oidc-provider';
import type { Test } from './tap.ts';

/** Claims of a person. */
export interface Person {
  readonly email?: string;
  readonly groups?: string | readonly string[];
}

export interface IdentityProvider {
  readonly issuer: string;
  readonly clientSecret: string;
  /** Browsers may be sent back to this address from now on. */
  allow(redirectUrl: string): void;
  /** Who is at its page now; null: somebody who declines. */
  person: Person | null;
  /** Requests so far, by path. */
  readonly paths: string[];
}

export const clientId = 'ocpi-hub';

export async function identityProvider(t: Test): Promise<IdentityProvider> {
  const redirectUrls: string[] = [];
  let made: Provider | null = null;
  const server = createServer((request, response) => {
    const path = request.url?.split('?', 1)[0] ?? '';
    own.paths.push(path);
    // It knows its client from the first request on.
    made ??= providerOf(own, redirectUrls);
    if (!path.startsWith('/interaction/')) void made.callback()(request, response);
    else if (request.method === 'GET') response.setHeader('content-type', 'text/html').end(page);
    else void made.interactionFinished(request, response, loginOf(own.person));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const own: IdentityProvider = {
    issuer: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    clientSecret: 'secret-of-the-client',
    allow: (redirectUrl) => void redirectUrls.push(redirectUrl),
    person: null,
    paths: [],
  };
  return own;
}

const page =
  '<!doctype html><link rel="icon" href="data:,"><title>Provider</title><form method="post"><button>Log in</button></form>';

const loginOf = (person: Person | null) =>
  person === null ? { error: 'access_denied', error_description: 'not today' } : { login: { accountId: 'somebody' } };

function providerOf(own: IdentityProvider, redirectUrls: readonly string[]): Provider {
  return new Provider(own.issuer, {
    clients: [
      {
        ...{ client_id: clientId, client_secret: own.clientSecret, token_endpoint_auth_method: 'client_secret_post' },
        ...{ redirect_uris: [...redirectUrls] },
      },
    ],
    claims: { openid: ['sub'], email: ['email'], profile: ['groups'] },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    cookies: { keys: ['of the test'] },
    // Who signs in has agreed.
    async loadExistingGrant({ oidc: { provider, session } }) {
      const grant = new provider.Grant({ clientId, ...(session?.accountId && { accountId: session.accountId }) });
      grant.addOIDCScope('openid email profile');
      await grant.save();
      return grant;
    },
    findAccount: (_context, accountId) => ({ accountId, claims: () => ({ sub: accountId, ...own.person }) }),
  });
}
