/**
 * Signs operators in by OpenID Connect: authorization code with PKCE at the provider of HUB_OIDC_ISSUER.
 *
 * OIDC-1  The hub keeps nothing of a sign-in under way: the browser brings its `Pending` back, so that any node may end it.
 * OIDC-2  A person without a role, or with a name that the audit log cannot hold or that is another operator's, is refused.
 * OIDC-3  The provider is discovered at the first sign-in, and again after a failure: a hub starts without it.
 */
import type { Configuration, IDToken, UserInfoResponse } from 'openid-client';
import { type NamedOperator, roleRank } from './admin/route.ts';
import { type Pending, SignInFailed, type SignInProvider } from './admin/sign-in.ts';
import { type Operator, operatorName } from './api/operators.ts';
import type { Config } from './config/config.ts';

/** Limit of one call to the provider, s. */
const timeoutS = 10;

export type OidcConfig = Pick<
  Config,
  `oidc${'Issuer' | 'ClientId' | 'ClientSecret' | 'RedirectUrl' | 'Roles' | 'RoleClaim' | 'NameClaim'}`
>;

/** Null when no provider is configured. `consoleUrl` serves unless a redirect URL is set. */
export function oidcOf(
  config: OidcConfig,
  consoleUrl: string,
  named: () => readonly Operator[],
): SignInProvider | null {
  const { oidcIssuer: issuer, oidcClientId: clientId, oidcClientSecret: secret, oidcRoles: roles } = config;
  if (issuer === null || clientId === null || roles === null) return null;
  const redirectUrl = config.oidcRedirectUrl ?? `${consoleUrl}/console/oidc/callback`;
  const server = new URL(issuer);

  let found: Promise<Configuration> | null = null;
  async function discovered(): Promise<Configuration> {
    const { discovery, allowInsecureRequests } = await import('openid-client');
    // Settings allow plain HTTP on loopback alone.
    const execute = server.protocol === 'http:' ? [allowInsecureRequests] : [];
    found ??= discovery(server, clientId ?? '', secret ?? undefined, undefined, { execute, timeout: timeoutS });
    return found.catch((error: unknown) => {
      found = null;
      throw failed('cannot be reached', error);
    });
  }

  const callerIn = (claims: Partial<IDToken & UserInfoResponse>): NamedOperator => {
    const { oidcNameClaim, oidcRoleClaim } = config;
    const name = operatorName.safeParse(claims[oidcNameClaim]);
    if (!name.success) throw new SignInFailed(403, `the claim ${oidcNameClaim} is no name for the audit log`);
    if (named().some((operator) => operator.name === name.data))
      throw new SignInFailed(403, `the name ${name.data} is that of an operator with a token`, name.data);
    const values = [claims[oidcRoleClaim]].flat().map(String);
    const [role] = values
      .flatMap((value) => roles.get(value) ?? [])
      .sort((one, other) => roleRank[other] - roleRank[one]);
    if (role === undefined)
      throw new SignInFailed(
        403,
        `${name.data} has no value in the claim ${oidcRoleClaim} that gives a role`,
        name.data,
      );
    return { name: name.data, role };
  };

  return {
    host: server.host,
    identity: JSON.stringify([issuer, clientId, config.oidcRoleClaim, config.oidcNameClaim, ...roles]),
    async begin() {
      const client = await import('openid-client');
      const configuration = await discovered();
      const pending: Pending = {
        state: client.randomState(),
        nonce: client.randomNonce(),
        verifier: client.randomPKCECodeVerifier(),
      };
      const url = client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUrl,
        scope: 'openid email profile',
        state: pending.state,
        nonce: pending.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(pending.verifier),
        code_challenge_method: 'S256',
      });
      return { url: url.href, pending };
    },
    async finish(search, { state, nonce, verifier }) {
      const client = await import('openid-client');
      const configuration = await discovered();
      const url = new URL(`${redirectUrl}${search}`);
      const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true };
      try {
        const tokens = await client.authorizationCodeGrant(configuration, url, checks);
        const claims = tokens.claims();
        if (claims === undefined) throw new Error('there is no ID token');
        const isWhole = config.oidcNameClaim in claims && config.oidcRoleClaim in claims;
        const info = isWhole ? {} : await client.fetchUserInfo(configuration, tokens.access_token, claims.sub);
        return callerIn({ ...info, ...claims });
      } catch (error) {
        throw error instanceof SignInFailed ? error : failed('did not let you in', error);
      }
    },
  };

  function failed(what: string, cause: unknown): SignInFailed {
    const { error, error_description: description } = (cause ?? {}) as Record<string, unknown>;
    const why = [error, description].filter((one) => typeof one === 'string').join(': ');
    const words = why || (cause instanceof Error ? cause.message : String(cause));
    return new SignInFailed(error === 'access_denied' ? 403 : 502, `${server.host} ${what}: ${words}`, null, cause);
  }
}
