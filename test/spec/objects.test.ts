/**
 * Every object that OCPI 2.2.1 can describe is accepted, arrives at the receiver byte for byte, and comes back byte for byte from
 * lists and GETs. [D17]
 */
import type { RunningHub } from '../../src/main.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import {
  type Answer,
  admin,
  eventually,
  type PlainPartner,
  type Received,
  type Reply,
} from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { cdrs, sessions } from './fixtures/charges.ts';
import { commandBodies, commandResponses, commandResults } from './fixtures/commands.ts';
import type { Fixture } from './fixtures/fixture.ts';
import {
  connectorFragments,
  evseFragments,
  type Fragment,
  locationFragments,
  sessionFragments,
  tokenFragments,
} from './fixtures/fragments.ts';
import { connectors, evses, locations, unpublishedLocations } from './fixtures/locations.ts';
import { dated, tariffs } from './fixtures/tariffs.ts';
import { authorizations, locationReferences, tokens } from './fixtures/tokens.ts';
import { type ClassName, collectCovered, everythingBelow, fieldsOf, fragmentProblems, problemsOf } from './model.ts';

type Pair = Awaited<ReturnType<typeof routedPair>>;

const whole = [
  ...[...locations, ...unpublishedLocations, ...evses, ...connectors],
  ...[...tariffs, ...dated, ...tokens, ...sessions, ...cdrs],
];
const fragments = [
  ...[...evseFragments, ...connectorFragments, ...locationFragments, ...sessionFragments, ...tokenFragments],
];
const exchanged: readonly (readonly [ClassName, object])[] = [
  ...authorizations.map((value) => ['AuthorizationInfo', value] as const),
  ...locationReferences.map((value) => ['LocationReferences', value] as const),
  ...commandResponses.map((value) => ['CommandResponse', value] as const),
  ...commandResults.map((value) => ['CommandResult', value] as const),
  ...commandBodies.map(
    ({ className, body }) => [className, { response_url: 'https://ems.example/', ...body }] as const,
  ),
];

/** Classes whose optional fields are all tried as null and whose lists are all tried empty. */
const triedBare: readonly ClassName[] = ['Location', 'EVSE', 'Connector', 'Tariff', 'Token', 'Session', 'CDR'];

t.test('the fixtures are valid and complete', async (t) => {
  for (const { title, className, text } of whole)
    t.same(problemsOf(className, JSON.parse(text)), [], `${className}: ${title}`);
  for (const { title, className, text } of fragments) t.same(fragmentProblems(className, JSON.parse(text)), [], title);
  for (const [className, value] of exchanged) t.same(problemsOf(className, value), [], className);

  const covered = new Set<string>();
  for (const { className, text } of whole) collectCovered(className, JSON.parse(text), covered);
  for (const [className, value] of exchanged) collectCovered(className, value, covered);
  const roots = [
    ...new Set([...whole.map(({ className }) => className), ...exchanged.map(([className]) => className)]),
  ];
  const missing = [...everythingBelow(roots)].filter((name) => !covered.has(name));
  t.same(missing, [], 'every field and every enumeration value occurs');
  const bare = triedBare.flatMap((name) =>
    fieldsOf(name).flatMap(({ name: field, card }) => [
      ...(card === '?' || card === '*' ? [`${name}.${field}=null`] : []),
      ...(card === '*' ? [`${name}.${field}=[]`] : []),
    ]),
  );
  t.same(
    bare.filter((name) => !covered.has(name)),
    [],
    'every optional field occurs as null, every list empty',
  );
});

const isSuccess = ({ status, json }: Answer) => (status === 200 || status === 201) && json.status_code === 1000;

async function accepted(t: Test, title: string, answering: Promise<Answer>): Promise<Answer> {
  const answer = await answering;
  t.ok(isSuccess(answer), `${title} is accepted${isSuccess(answer) ? '' : `, not ${answer.text}`}`);
  return answer;
}

/** The call that brought exactly these bytes to a path, once it has come. */
async function arrived(partner: PlainPartner, method: string, path: string, text: string): Promise<void> {
  const isIt = (call: Received) => call.method === method && call.path === path && call.body === text;
  await eventually(`${method} ${path} arrives as it was sent`, () => partner.received.some(isIt), 20_000);
}

async function comesBack(t: Test, partner: PlainPartner, path: string, text: string, title: string): Promise<void> {
  const answer = await partner.call('GET', path);
  // A stored text is what stands between `"data":` and the rest of the envelope, but for white space around it.
  t.ok(isSuccess(answer) && answer.text.includes(text.trim()), `${title}: GET answers it byte for byte`);
}

async function allListed(t: Test, partner: PlainPartner, path: string, fixtures: readonly Fixture[]): Promise<void> {
  const answer = await partner.call('GET', path);
  t.ok(isSuccess(answer), `GET ${path}`);
  t.equal((answer.json.data as unknown[]).length, fixtures.length, 'the list is complete');
  t.equal(answer.headers.get('x-total-count'), String(fixtures.length), 'and its total right');
  const changed = fixtures.filter(({ text }) => !answer.text.includes(text.trim())).map(({ title }) => title);
  t.same(changed, [], 'each is listed byte for byte');
}

/** What the hub noted about pushes of correct objects, with the object it noted it about. */
async function noted(hub: RunningHub): Promise<string[]> {
  const { items } = await admin(hub, 'GET', '/events?type=object&limit=1000');
  const events = items as { object: string; data: { warnings: string[] } }[];
  return events.flatMap(({ object, data }) => data.warnings.map((warning) => `${object}: ${warning}`));
}

interface Route {
  readonly module: string;
  readonly fixtures: readonly Fixture[];
  readonly from: (pair: Pair) => PlainPartner;
  readonly to: (pair: Pair) => PlainPartner;
  /** Of one object, below `/2.2.1/{module}`. */
  readonly path: (fixture: Fixture) => string;
  readonly list: string;
}

const cpoOf = ({ cpo }: Pair) => cpo;
const emspOf = ({ emsp }: Pair) => emsp;
const cpoPath = ({ id }: Fixture) => `/NL/CPO/${encodeURIComponent(id)}`;
const typeOf = ({ text }: Fixture) => (JSON.parse(text) as { type: string }).type;
const tokenPath = (fixture: Fixture) => `/NL/EMS/${fixture.id}?type=${typeOf(fixture)}`;

const routes: readonly Route[] = [
  { module: 'locations', fixtures: locations, from: cpoOf, to: emspOf, path: cpoPath, list: '?limit=1000' },
  { module: 'tariffs', fixtures: [...tariffs, ...dated], from: cpoOf, to: emspOf, path: cpoPath, list: '?limit=1000' },
  {
    ...{ module: 'sessions', fixtures: sessions, from: cpoOf, to: emspOf, path: cpoPath },
    list: '?date_from=2000-01-01T00:00:00&limit=1000',
  },
  { module: 'tokens', fixtures: tokens, from: emspOf, to: cpoOf, path: tokenPath, list: '?limit=1000' },
];

const rates = { HUB_RATE_LISTS_PER_MIN: '100000', HUB_RATE_COMMANDS_PER_MIN: '1000' };

for (const { module, fixtures, from, to, path, list } of routes) {
  t.test(`${module}: each arrives and comes back byte for byte [D17]`, async (t) => {
    const hub = await hubFor(t, rates);
    const pair = await routedPair(t, hub);
    const [sender, receiver] = [from(pair), to(pair)];
    for (const fixture of fixtures) {
      const at = `/2.2.1/${module}${path(fixture)}`;
      await accepted(t, fixture.title, sender.call('PUT', at, fixture.text));
      await t.resolves(
        arrived(receiver, 'PUT', `/ocpi${at}`, fixture.text),
        `${fixture.title}: it arrives byte for byte`,
      );
      await comesBack(t, sender, at, fixture.text, fixture.title);
      await comesBack(t, receiver, at, fixture.text, `${fixture.title}, for its receiver`);
    }
    await allListed(t, receiver, `/2.2.1/${module}${list}`, fixtures);
    t.same(await noted(hub), [], 'nothing is noted about a correct object');
  });
}

t.test('CDRs: each arrives and comes back byte for byte, also from its Location [D17, D22]', async (t) => {
  const hub = await hubFor(t, rates);
  const { cpo, emsp } = await routedPair(t, hub);
  for (const { title, id, text } of cdrs) {
    const { status, headers } = await accepted(t, title, cpo.call('POST', '/2.2.1/cdrs', text));
    t.equal(status, 201, `${title}: it is created`);
    const location = headers.get('location') ?? '';
    t.match(location, new RegExp(`^http://[^/]+/ocpi/2\\.2\\.1/cdrs/${id}$`), `${title}: its Location`);
    await t.resolves(arrived(emsp, 'POST', '/ocpi/2.2.1/cdrs', text), `${title}: it arrives byte for byte`);
    const path = new URL(location).pathname.replace(/^\/ocpi/, '');
    await comesBack(t, cpo, path, text, title);
    await comesBack(t, emsp, path, text, `${title}, for its receiver`);
  }
  await allListed(t, emsp, '/2.2.1/cdrs?limit=1000', cdrs);
  t.same(await noted(hub), [], 'nothing is noted about a correct CDR');
});

t.test('unpublished locations come back byte for byte to their owner alone [interface, Locations]', async (t) => {
  const { cpo, emsp } = await routedPair(t, await hubFor(t));
  for (const fixture of unpublishedLocations) {
    const at = `/2.2.1/locations${cpoPath(fixture)}`;
    await accepted(t, fixture.title, cpo.call('PUT', at, fixture.text));
    await comesBack(t, cpo, at, fixture.text, fixture.title);
    t.equal((await emsp.call('GET', at)).status, 404, `${fixture.title}: eMSPs do not find it`);
  }
  await allListed(t, emsp, '/2.2.1/locations', []);
  t.same(emsp.received, [], 'and nothing of it reached one');
});

/** Pushes fragments to one object; each arrives as it was sent, and its fields are in the object from then on. */
async function patched(
  t: Test,
  [sender, receiver]: readonly [PlainPartner, PlainPartner],
  at: string,
  all: readonly Fragment[],
): Promise<void> {
  for (const { title, className, text } of all) {
    const name = `${className}, ${title}`;
    const before = (await sender.call('GET', at)).json.data as Record<string, unknown[]>;
    await accepted(t, name, sender.call('PATCH', at, text));
    await t.resolves(arrived(receiver, 'PATCH', `/ocpi${at}`, text), `${name}: it arrives byte for byte`);
    const fragment = JSON.parse(text) as Record<string, unknown[]>;
    const periods = [...(before.charging_periods ?? []), ...(fragment.charging_periods ?? [])];
    const expected = { ...before, ...fragment, ...(fragment.charging_periods && { charging_periods: periods }) };
    t.same((await sender.call('GET', at)).json.data, expected, `${name}: it is in the object [D19]`);
  }
}

t.test('EVSEs, connectors and fragments arrive byte for byte and change their target [D17, D19]', async (t) => {
  const { cpo, emsp } = await routedPair(t, await hubFor(t));
  const both = [cpo, emsp] as const;
  const location = '/2.2.1/locations/NL/CPO/FULL';
  const put = async (at: string, { title, text }: Fixture) => {
    await accepted(t, title, cpo.call('PUT', at, text));
    await t.resolves(arrived(emsp, 'PUT', `/ocpi${at}`, text), `${title}: it arrives byte for byte`);
    await comesBack(t, cpo, at, text, title);
  };
  for (const fixture of locations.filter(({ id }) => id === 'FULL')) await put(location, fixture);
  for (const fixture of evses) await put(`${location}/${fixture.id}`, fixture);
  for (const fixture of connectors) await put(`${location}/3F-7/${fixture.id}`, fixture);
  await patched(t, both, `${location}/3F-7/A`, connectorFragments);
  await patched(t, both, `${location}/3F-7`, evseFragments);
  await patched(t, both, location, locationFragments);

  for (const fixture of sessions.filter(({ id }) => id === 'S-FULL'))
    await put('/2.2.1/sessions/NL/CPO/S-FULL', fixture);
  await patched(t, both, '/2.2.1/sessions/NL/CPO/S-FULL', sessionFragments);

  for (const { id, text } of tokens.slice(0, 1)) {
    const at = `/2.2.1/tokens/NL/EMS/${id}?type=RFID`;
    await accepted(t, 'a token', emsp.call('PUT', at, text));
    await patched(t, [emsp, cpo], at, tokenFragments);
  }
});

const toEmsp = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };

t.test('every AuthorizationInfo passes, and every form of its request [D25]', async (t) => {
  const answers: object[] = [];
  const answer = ({ path }: Received): Reply => (path.includes('/authorize') ? { body: answers[0] } : {});
  const { cpo, emsp } = await routedPair(t, await hubFor(t), { emsp: answer });
  for (const [index, info] of authorizations.entries()) {
    answers[0] = info;
    const references = locationReferences[index];
    const path = '/2.2.1/tokens/04C1D2E3F4A5B6/authorize?type=RFID';
    const { json } = await accepted(t, JSON.stringify(info), cpo.call('POST', path, references, toEmsp));
    t.same(json.data, info, 'the CPO gets the whole AuthorizationInfo');
    const received = emsp.received.at(-1);
    t.equal(received?.path, `/ocpi${path}`, 'the eMSP was asked at the same path');
    t.equal(received?.body, references === undefined ? '' : JSON.stringify(references), 'with the same references');
  }
});

/** A CPO that gives the answers of `responses`, one after the other, again and again. */
async function commandedPair(t: Test, hub: RunningHub, responses: readonly object[]): Promise<Pair> {
  let turn = 0;
  const answer = ({ path }: Received): Reply =>
    path.includes('/commands/') ? { body: responses[turn++ % responses.length] } : {};
  const pair = await routedPair(t, hub, { cpo: answer });
  const pushed = [
    ['locations', locations.find(({ id }) => id === 'FULL')],
    ['sessions', sessions.find(({ id }) => id === 'S-LEAST')],
  ] as const;
  for (const [module, fixture] of pushed) {
    if (!fixture) throw new Error(`no fixture among ${module}`);
    await accepted(t, fixture.title, pair.cpo.call('PUT', `/2.2.1/${module}/NL/CPO/${fixture.id}`, fixture.text));
  }
  return pair;
}

t.test('every command reaches the CPO byte for byte, but for its response_url [D17, D26]', async (t) => {
  const { cpo, emsp } = await commandedPair(t, await hubFor(t, rates), [{ result: 'ACCEPTED', timeout: 30 }]);
  for (const { command, className, body } of commandBodies) {
    const text = JSON.stringify({ ...body, response_url: 'https://ems.example/results/1' }, null, 2);
    await accepted(t, command, emsp.call('POST', `/2.2.1/commands/${command}`, text));
    const received = cpo.received.at(-1);
    t.equal(received?.path, `/ocpi/2.2.1/commands/${command}`, `${command}: it is the CPO's`);
    const { response_url: callback } = JSON.parse(received?.body ?? '{}') as { response_url: string };
    t.equal(received?.body, text.replace('https://ems.example/results/1', callback), `${command}: byte for byte`);
    t.same(problemsOf(className, JSON.parse(received?.body ?? 'null')), [], `${command}: a correct ${className}`);
  }
});

t.test('every CommandResponse passes [D28]', async (t) => {
  const { emsp } = await commandedPair(t, await hubFor(t, rates), commandResponses);
  for (const response of commandResponses) {
    const body = { session_id: 'S-LEAST', response_url: 'https://ems.example/results/1' };
    const { json } = await accepted(t, 'STOP_SESSION', emsp.call('POST', '/2.2.1/commands/STOP_SESSION', body));
    t.same(json.data, response, `${JSON.stringify(response)} is what the eMSP gets`);
  }
});

t.test('every CommandResult reaches the response_url byte for byte [D29]', async (t) => {
  const { cpo, emsp } = await commandedPair(t, await hubFor(t, rates), [{ result: 'ACCEPTED', timeout: 30 }]);
  for (const [index, result] of commandResults.entries()) {
    const response_url = `${emsp.url}/results/${index}`;
    await accepted(
      t,
      'STOP_SESSION',
      emsp.call('POST', '/2.2.1/commands/STOP_SESSION', { session_id: 'S-LEAST', response_url }),
    );
    const { response_url: callback } = JSON.parse(cpo.received.at(-1)?.body ?? '{}') as { response_url: string };
    const text = JSON.stringify(result, null, 2);
    await accepted(t, text, cpo.call('POST', new URL(callback).pathname.replace(/^\/ocpi/, ''), text));
    const received = emsp.received.at(-1);
    t.same([received?.method, received?.path, received?.body], ['POST', `/results/${index}`, text], 'it arrives');
  }
});
