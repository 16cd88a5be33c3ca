/** Sign-in by OpenID Connect at the doors, against a real provider; `console/oidc.test.ts` does it in a browser. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Replaced } from '../../src/main.ts';
import { digestOfToken } from '../../src/operators.ts';
import { bent } from '../support/bent.ts';
import { callOnce } from '../support/caller.ts';
import { fullAudit } from '../support/full-audit.ts';
import { hubFor, type TestHub } from '../support/hub-in-process.ts';
import { clientId, type IdentityProvider, identityProvider } from '../support/identity-provider.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const roles = 'hub-admins=admin, hub-noc = support';
const callbackPath = '/console/oidc/callback';
const ada = { email: 'ada@example.com', groups: ['staff', 'hub-noc', 'hub-admins'] };

interface Stage {
  readonly hub: TestHub;
  readonly provider: IdentityProvider;
  readonly clock: SimulatedClock;
}

async function stage(t: Test, env: Readonly<Record<string, string>> = {}, replaced: Replaced = {}): Promise<Stage> {
  const provider = await identityProvider(t);
  const clock = new SimulatedClock();
  const hub = await hubFor(
    t,
    {
      ...{ HUB_OIDC_ISSUER: provider.issuer, HUB_OIDC_CLIENT_ID: clientId },
      ...{ HUB_OIDC_CLIENT_SECRET: provider.clientSecret, HUB_OIDC_ROLES: roles },
      ...env,
    },
    { clock, ...replaced },
  );
  provider.allow(`${hub.url}${callbackPath}`);
  return { hub, provider, clock };
}

/** As a browser goes: to the provider and back, with the cookies of each. Ends with the query of the way back. */
async function led({ hub, provider }: Stage): Promise<{ readonly cookie: string; readonly search: string }> {
  const began = await fetch(`${hub.url}/console/oidc/start`, { redirect: 'manual' });
  const cookies = new Map<string, string>();
  const ask = async (method: string, url: URL): Promise<URL> => {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const answer = await fetch(url, { method, headers: { cookie }, redirect: 'manual' });
    const text = await answer.text();
    if (!answer.ok && answer.status !== 303) throw new Error(`${method} ${url}: ${answer.status} ${text}`);
    for (const set of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      cookies.set(name, value);
    }
    return new URL(answer.headers.get('location') ?? url, url);
  };
  let url = new URL(began.headers.get('location') ?? '');
  for (let asked = ''; url.origin === provider.issuer; ) {
    // The page of the provider, whose button posts to itself, leads nowhere else.
    const method = url.href === asked ? 'POST' : 'GET';
    asked = url.href;
    url = await ask(method, url);
  }
  return { cookie: began.headers.getSetCookie()[0]?.split(';', 1)[0] ?? '', search: url.search };
}

const end = ({ hub }: Stage, { cookie, search }: { readonly cookie: string; readonly search: string }) =>
  callOnce('POST', `${hub.url}/console/oidc/token`, { search }, { cookie });

async function signedIn(at: Stage): Promise<string> {
  const { status, text } = await end(at, await led(at));
  if (status !== 200) throw new Error(`${status} ${text}`);
  return (JSON.parse(text) as { token: string }).token;
}

const asked = ({ hub }: Stage, token: string, path: string, method = 'GET') =>
  callOnce(method, `${hub.url}/admin/v1${path}`, undefined, { authorization: `Bearer ${token}` });

t.test('a person signs in with the highest role that a claim gives, until the sign-in expires', async (t) => {
  const at = await stage(t, { HUB_OIDC_SESSION_H: '2' });
  const provided = await callOnce('GET', `${at.hub.url}/console/oidc/provider`);
  t.strictSame(JSON.parse(provided.text), { provider: { host: new URL(at.provider.issuer).host } });
  at.provider.person = ada;
  const began = await callOnce('GET', `${at.hub.url}/console/oidc/start`);
  const sent = new URL(began.headers.get('location') ?? '').searchParams;
  t.equal(sent.get('code_challenge_method'), 'S256');
  t.match(began.headers.get('set-cookie'), /; Path=\/console\/oidc; Max-Age=600; HttpOnly; SameSite=Lax$/);
  t.equal(began.headers.get('cache-control'), 'no-store');

  const way = await led(at);
  const { status, text, headers } = await end(at, way);
  t.equal(status, 200, text);
  t.match(headers.get('set-cookie'), /^ocpi-hub-sign-in=; .*Max-Age=0/, 'the cookie has gone');
  const { token, caller } = JSON.parse(text) as { token: string; caller: object };
  t.strictSame(caller, { name: 'ada@example.com', role: 'admin' });
  t.strictSame(JSON.parse((await asked(at, token, '/caller')).text), caller);
  const entries = JSON.parse((await asked(at, token, '/audit')).text) as { items: object[] };
  t.match(entries.items, [
    { operator: 'ada@example.com', role: 'admin', verb: 'POST /console/oidc/token', status: 200, address: '127.0.0.1' },
  ]);
  t.equal((await end(at, way)).status, 502, 'a code counts once');
  at.clock.advance(2 * 3_600_000 - 1);
  t.equal((await asked(at, token, '/caller')).status, 200);
  at.clock.advance(1);
  t.equal((await asked(at, token, '/caller')).status, 401, 'it has ended');
});

t.test('a session that was changed, or that another provider issued, is refused', async (t) => {
  const at = await stage(t);
  at.provider.person = { ...ada, groups: 'hub-noc' };
  const token = await signedIn(at);
  t.match(JSON.parse((await asked(at, token, '/caller')).text), { role: 'support' });
  t.equal((await asked(at, token, '/parties/NL-CPO/suspend', 'POST')).status, 403);
  t.equal((await asked(at, bent(token), '/caller')).status, 401);
  t.equal((await asked(at, token.slice('session.'.length), '/caller')).status, 401);
  // With the same key.
  const env = { HUB_OIDC_ISSUER: at.provider.issuer, HUB_OIDC_CLIENT_ID: clientId, HUB_OIDC_ROLES: roles };
  for (const [changed, status] of [
    [{}, 200],
    [{ HUB_OIDC_ROLES: 'hub-noc=viewer' }, 401],
    [{ HUB_OIDC_ROLE_CLAIM: 'hub_groups' }, 401],
    [{ HUB_OIDC_NAME_CLAIM: 'name' }, 401],
  ] as const) {
    const other = await hubFor(t, { ...env, ...changed }, { clock: at.clock });
    t.equal((await asked({ ...at, hub: other }, token, '/caller')).status, status, JSON.stringify(changed));
  }
});

t.test(
  'a person without a role, without a usable name or with an operator’s name is refused in words and audited',
  async (t) => {
    const file = join(t.testdir({}), 'operators.json');
    const anna = { name: 'anna@example.com', role: 'viewer', token_digest: digestOfToken('a token of hers') };
    writeFileSync(file, JSON.stringify({ operators: [anna] }), { mode: 0o600 });
    const at = await stage(t, { HUB_OPERATORS_FILE: file, HUB_RATE_FAILED_TOKENS_PER_S: '1000' });
    const cases = [
      [{ ...ada, email: anna.name }, /the name anna@example.com is that of an operator with a token/],
      [
        { email: 'eve@example.com', groups: ['staff'] },
        /eve@example.com has no value in the claim groups that gives a role/,
      ],
      [{ email: 'eve@example.com' }, /has no value in the claim groups/],
      [{ ...ada, email: 'admin' }, /the claim email is no name/],
      [{ ...ada, email: 'Ada <ada@example.com>' }, /the claim email is no name/],
      [{ groups: ada.groups }, /the claim email is no name/],
      [null, /access_denied: not today/],
    ] as const;
    for (const [person, words] of cases) {
      at.provider.person = person;
      const { status, text } = await end(at, await led(at));
      t.equal(status, 403, text);
      t.match((JSON.parse(text) as { detail: string }).detail, words);
    }
    const { text } = await asked(at, at.hub.adminToken, '/audit');
    const { items } = JSON.parse(text) as { items: { operator: string; role: null; status: number }[] };
    t.strictSame(
      items.map(({ operator, role, status }) => [operator, role, status]),
      [
        ['eve@example.com', null, 403],
        ['eve@example.com', null, 403],
        ['anna@example.com', null, 403],
      ],
    );
  },
);

t.test('a person can sign in while the audit log cannot be written; a log line records it', async (t) => {
  const { replaced, unwritten } = fullAudit();
  const at = await stage(t, {}, replaced);
  at.provider.person = ada;
  t.equal((await asked(at, await signedIn(at), '/caller')).status, 200);
  t.match(unwritten(), [/"operator":"ada@example.com".*"verb":"POST \/console\/oidc\/token"/]);
});

t.test('a sign-in completes only in the browser that began it, with its own answer, in time', async (t) => {
  const at = await stage(t, { HUB_RATE_FAILED_TOKENS_PER_S: '1000000' });
  at.provider.person = ada;
  const [mine, yours] = [await led(at), await led(at)];
  const calls = at.provider.paths.length;
  const refused = [
    { ...mine, cookie: '' },
    { ...mine, cookie: `${mine.cookie}x` },
    { ...mine, search: 'code=1' },
  ];
  for (const way of refused) t.equal((await end(at, way)).status, 400, way.cookie);
  t.equal(at.provider.paths.length, calls, 'nobody asks the provider');
  t.equal((await end(at, { ...mine, search: yours.search })).status, 502, 'the answer to another sign-in');
  t.equal(
    (await end(at, { ...mine, search: `?error=access_denied&iss=${encodeURIComponent(at.provider.issuer)}` })).status,
    502,
    'made up by somebody else',
  );
  at.clock.advance(600_000);
  t.equal((await end(at, mine)).status, 400, 'too late');
});

t.test('[SIGN-IN-4] callbacks of sign-ins are limited by address, and so are log lines of refused ones', async (t) => {
  const lines: string[] = [];
  const logTo = { write: (line: string) => void lines.push(line) };
  const at = await stage(t, { HUB_RATE_FAILED_TOKENS_PER_S: '2' }, { logTo });
  at.provider.person = ada;
  const begun = await led(at);
  for (const [way, status] of [
    [{ cookie: '', search: '?code=1' }, 400],
    [{ ...begun, search: begun.search.replace(/code=[^&]+/, 'code=none') }, 502],
  ] as const) {
    const statuses = [];
    for (let i = 0; i < 4; i++) statuses.push((await end(at, way)).status);
    t.strictSame(statuses, [status, status, 429, 429]);
    at.clock.advance(1000);
  }
  t.equal(at.provider.paths.filter((path) => path === '/token').length, 2, 'the provider is asked no further');
  t.equal(lines.filter((line) => line.includes('a sign-in was refused')).length, 1);
  const [, token] = [await signedIn(at), await signedIn(at)];
  t.equal((await asked(at, token, '/caller')).status, 200, 'sign-ins leave the tries of tokens as they are');
});

t.test('an unreachable provider is answered with 502, and the next sign-in asks it again', async (t) => {
  const at = await stage(t, { HUB_OIDC_ISSUER: 'http://127.0.0.1:9' });
  for (let time = 0; time < 2; time++) {
    const { status, text } = await callOnce('GET', `${at.hub.url}/console/oidc/start`);
    t.equal(status, 502);
    t.match((JSON.parse(text) as { detail: string }).detail, /^127\.0\.0\.1:9 cannot be reached: /);
  }
});

t.test('without a provider there is no sign-in by a provider', async (t) => {
  const hub = await hubFor(t);
  t.strictSame(JSON.parse((await callOnce('GET', `${hub.url}/console/oidc/provider`)).text), { provider: null });
  t.equal((await callOnce('POST', `${hub.url}/console/oidc/token`, { search: '?' })).status, 404);
  t.equal((await asked({ hub } as Stage, 'session.v2.abc', '/caller')).status, 401);
});
