/** Sign-in by token or by a provider; the page keeps a token only after the hub has accepted it. */
import { useEffect, useState } from 'preact/hooks';
import { ApiError, askPlain, callAs } from '../data/api.ts';
import { type Caller, signedOutBecause, signIn } from '../data/session.ts';
import { Form } from '../parts/fields.tsx';

export function SignIn() {
  const [error, setError] = useState<string | null>(null);
  const [isTrying, setTrying] = useState(false);

  const [provider, setProvider] = useState<string | null>(null);

  const attempt = async (signedIn: () => Promise<void>) => {
    setTrying(true);
    setError(null);
    try {
      await signedIn();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure.status === 401 ? 'The hub does not know this token.' : failure.message);
    } finally {
      setTrying(false);
    }
  };
  const byToken = (given: string) => attempt(async () => signIn(given, await callAs<Caller>(given, 'GET', '/caller')));
  useEffect(() => {
    if (isArrival())
      void attempt(async () => {
        const { token, caller } = await arrive();
        signIn(token, caller);
      });
    // A hub that cannot be reached says so when somebody signs in.
    providerHost().then(setProvider, () => {});
  }, []);

  const reason = error ?? signedOutBecause.value;
  return (
    <main class="sign-in">
      <Form
        onSubmit={(form) => {
          const given = form.get('token');
          if (typeof given === 'string' && given.trim() !== '') void byToken(given.trim());
        }}
      >
        <h1>
          <img src="/console/icon.svg" alt="" width="28" height="28" /> ocpi-hub console
        </h1>
        {provider && (
          <button type="button" class="main" disabled={isTrying} onClick={leaveForProvider}>
            Sign in with {provider}
          </button>
        )}
        <label>
          Token
          <input name="token" type="password" autocomplete="off" required spellcheck={false} />
        </label>
        {reason && (
          <p class="error" role="alert">
            {reason}
          </p>
        )}
        <button type="submit" class={provider ? 'plain' : 'main'} disabled={isTrying}>
          {provider ? 'Sign in with the token' : 'Sign in'}
        </button>
        <p class="quiet">
          The token of an operator, or the admin token: that is in the file <code>admin-token</code> of the hub's data
          directory, unless it was set with <code>HUB_ADMIN_TOKEN</code>. It is kept for this browser session alone.
        </p>
      </Form>
    </main>
  );
}

// By an OpenID Connect provider the browser leaves for it, and comes back to `arrivalPath` with a query that the hub exchanges for a token.

const arrivalPath = '/console/oidc/callback';
/** Where the person was before. */
const place = 'ocpi-hub.from';

/** Host of the provider; null when operators sign in by token alone. */
async function providerHost(): Promise<string | null> {
  const { provider } = await askPlain<{ provider: { host: string } | null }>('GET', '/console/oidc/provider');
  return provider?.host ?? null;
}

function leaveForProvider(): void {
  sessionStorage.setItem(place, location.pathname + location.search);
  location.assign('/console/oidc/start');
}

const isArrival = (): boolean => location.pathname === arrivalPath;

/** Ends the sign-in, and shows the address at which it began; rejects with an `ApiError`. */
async function arrive(): Promise<{ readonly token: string; readonly caller: Caller }> {
  const { search } = location;
  const from = sessionStorage.getItem(place) ?? '/console/';
  sessionStorage.removeItem(place);
  history.replaceState(null, '', from);
  return askPlain('POST', '/console/oidc/token', { search });
}
