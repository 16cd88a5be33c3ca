/** Each name that `ocpi-hub partner --answer` takes does what it says, once the partner has registered. */
import type { PartyView } from '../../src/api/parties.ts';
import { newToken } from '../../src/sandbox/bodies.ts';
import { type Cpo, startCpo } from '../../src/sandbox/cpo.ts';
import { type Emsp, startEmsp } from '../../src/sandbox/emsp.ts';
import { faults, namesOf } from '../../src/sandbox/habits.ts';
import { callOnce, type Said } from '../support/caller.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

interface Rehearsed {
  readonly partner: Cpo | Emsp;
  /** One call of the hub, below `/ocpi`. */
  readonly ask: (method: string, path: string, body?: object, headers?: Record<string, string>) => Promise<Said>;
  /** As the hub shows the partner. */
  readonly party: PartyView;
}

type Shown = (t: Test, rehearsed: Rehearsed) => Promise<void>;

const list = '/2.2.1/tokens?limit=1';
const session = '/2.2.1/sessions/NL/XXX/S1';
const inSession = { id: 'S1', last_updated: '2026-05-01T10:00:00Z' };

const answers =
  (status: number): Shown =>
  async (t, { ask }) => {
    t.equal((await ask('GET', list)).status, status);
  };

/** What the version details hold. */
async function detailsOf({ ask }: Rehearsed) {
  const { data } = JSON.parse((await ask('GET', '/2.2.1')).text) as { data: unknown };
  return data as { endpoints: { identifier: string; role?: string; url: string }[] };
}

const links =
  (form: RegExp): Shown =>
  async (t, { ask }) => {
    const { status, headers } = await ask('GET', list);
    t.equal(status, 200);
    t.equal(headers.get('x-total-count'), '2');
    t.match(headers.get('link') ?? 'none', form);
  };

const refusesPatch =
  (status: number): Shown =>
  async (t, { ask }) => {
    t.equal((await ask('PUT', session, inSession)).status, 200);
    t.equal((await ask('PATCH', session, inSession)).status, status);
  };

const unanswered: Shown = async (t, { ask }) => {
  await t.rejects(ask('GET', list), { message: /tokens/ });
};

const shown: Readonly<Record<string, Shown>> = {
  '401': answers(401),
  '404': answers(404),
  '429': async (t, { ask }) => {
    const { status, headers } = await ask('GET', list);
    t.same([status, headers.get('retry-after')], [429, '5']);
  },
  '500': answers(500),
  '503': answers(503),
  drop: unanswered,
  garble: unanswered,
  async hang(t, { ask, partner }) {
    const asked = ask('GET', list);
    const isLast = () => partner.transcript.received('tokens').at(-1);
    t.equal((await partner.until('the request', isLast)).answer, null);
    await Promise.all([t.rejects(asked, { message: /tokens/ }, 'only its end ends the call'), partner.hangUp()]);
  },
  async slow(t) {
    // That a delayed answer is the usual one is shown of the knob itself.
    const delays: number[] = [];
    const set = (ms: number) => void delays.push(ms);
    faults.slow?.({ delay: set } as Parameters<(typeof faults)[string]>[0]);
    t.same(delays, [5_000]);
  },
  async 'trailing-slash'(t, rehearsed) {
    const { endpoints } = await detailsOf(rehearsed);
    t.ok(endpoints.every(({ url }) => url.endsWith('/')));
    t.same(
      [(await rehearsed.ask('GET', '/2.2.1/tokens')).status, (await rehearsed.ask('GET', '/2.2.1/tokens/')).status],
      [404, 200],
    );
  },
  async 'redirect-slash'(t, { ask }) {
    const { status, headers } = await ask('GET', list);
    t.same([status, headers.get('location')], [308, '/ocpi/2.2.1/tokens/?limit=1']);
    t.equal((await ask('GET', '/2.2.1/tokens/?limit=1')).status, 200);
  },
  async 'plain-token'(t, { ask, partner: { ownTokens } }) {
    const [token = ''] = ownTokens;
    const base64 = Buffer.from(token).toString('base64');
    t.equal((await ask('GET', list, undefined, { authorization: `Token ${base64}` })).status, 401);
    t.equal((await ask('GET', list, undefined, { authorization: `Token ${token}` })).status, 200);
  },
  async 'needs-user-agent'(t, { ask }) {
    t.equal((await ask('GET', list)).status, 403);
    t.equal((await ask('GET', list, undefined, { 'user-agent': 'test' })).status, 200);
  },
  async 'details-url'(t, { party, partner }) {
    t.equal(party.url, `${partner.url}/ocpi/2.2.1`);
  },
  async 'no-role'(t, rehearsed) {
    const { endpoints } = await detailsOf(rehearsed);
    t.ok(endpoints.length > 3 && endpoints.every(({ role }) => role === undefined));
  },
  async 'not-subscribed'(t, rehearsed) {
    const names = (await detailsOf(rehearsed)).endpoints.map(({ identifier }) => identifier);
    t.ok(names.includes('sessions'));
    t.notOk(names.includes('locations') || names.includes('tariffs'));
  },
  'patch-404': refusesPatch(404),
  'patch-405': refusesPatch(405),
  'no-link': links(/^none$/),
  'bad-link': links(/^<http:\/\/\[next\]\/page>; rel="next"$/),
  'foreign-link': links(/^<https:\/\/lists\.example\//),
  async array(t, rehearsed) {
    t.match(await detailsOf(rehearsed), [{ version: '2.2.1' }]);
  },
  async 'bare-response'(t, { ask }) {
    const { text } = await ask('POST', '/2.2.1/commands/STOP_SESSION', {
      session_id: 'NONE',
      response_url: 'http://x',
    });
    t.match(JSON.parse(text), { result: 'UNKNOWN_SESSION', status_code: undefined });
  },
  async 'text-status'(t, { ask }) {
    t.match(JSON.parse((await ask('GET', list)).text), { status_code: '1000' });
  },
  async 'empty-2xx'(t, { ask }) {
    const { status, text } = await ask('PUT', session, inSession);
    t.same([status, text], [200, '']);
    t.not((await ask('GET', list)).text, '', 'what is asked for comes');
  },
  async gzip(t, { ask }) {
    const { headers, text } = await ask('GET', list);
    t.equal(headers.get('content-encoding'), 'gzip');
    t.notMatch(text, /status_code/);
  },
};

t.test('every fault and habit of --answer does what its name says', async (t) => {
  const hub = await hubFor(t);
  const names = new Set([...namesOf('answers', 'EMSP'), ...namesOf('answers', 'CPO')]);
  t.same([...names].sort(), Object.keys(shown).sort());
  for (const [index, name] of [...names].entries()) {
    await t.test(name, async (t) => {
      const party_id = `F${String.fromCharCode(65 + index)}`;
      const role = namesOf('answers', 'EMSP').includes(name) ? 'EMSP' : 'CPO';
      const options = { ...{ hubUrl: hub.url, country_code: 'NL', party_id }, habits: [name] };
      const partner = role === 'EMSP' ? await startEmsp(options) : await startCpo(options);
      t.teardown(() => partner.close());
      if (partner.role === 'EMSP') {
        while (partner.tokens.size < 2) partner.addToken(newToken(partner, partner.stamp()));
      }
      const roles = [{ role, country_code: 'NL', party_id }];
      const { initial_token } = await admin(hub, 'POST', '/parties', { roles });
      await partner.register(String(initial_token));
      const party = (await admin(hub, 'GET', `/parties/NL-${party_id}`)) as unknown as PartyView;
      t.equal(party.status, 'CONNECTED', 'it registers all the same');
      const authorization = `Token ${Buffer.from(partner.ownTokens[0] ?? '').toString('base64')}`;
      const ask: Rehearsed['ask'] = (method, path, body, headers) =>
        callOnce(method, `${partner.url}/ocpi${path}`, body, { authorization, ...headers });
      await shown[name]?.(t, { partner, ask, party });
    });
  }
});
