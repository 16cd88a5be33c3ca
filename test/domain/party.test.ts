/** A partner's life folded from its facts: tokens, status, settings, and whose endpoint wins. */

import { choicesOf, defaultSettings, type PartnerSettings, storedSettings } from '../../src/domain/partner-settings.ts';
import {
  applyToPartner,
  type Endpoint,
  endpointOf,
  isRegistered,
  keyOf,
  type Partner,
  type PartnerEvent,
  partyKey,
  within,
} from '../../src/domain/party.ts';
import { growthMax, growthOf } from '../support/growth.ts';
import { t } from '../support/tap.ts';

const roles = [{ role: 'CPO' as const, country_code: 'NL', party_id: 'Cpo' }];
const named = [
  { ...roles[0], role: 'CPO' as const, country_code: 'NL', party_id: 'Cpo', business_details: { name: 'C' } },
];
const endpoint = (identifier: string, source: Endpoint['source'], url: string, role: Endpoint['role'] = 'RECEIVER') =>
  ({ identifier, role, url, source }) as const;
const exchange = (
  kind: 'registered' | 'rotated',
  hubTokenDigest: string,
  discovered: Endpoint[] = [],
): PartnerEvent => ({
  type: `partner.${kind}`,
  data: {
    url: `https://p/${hubTokenDigest}`,
    roles,
    discovered,
    hubTokenDigest,
    partnerToken: `sealed ${hubTokenDigest}`,
  },
});
/** A rotation that `formerDigest` asked for. */
const rotatedBy = (formerDigest: string, hubTokenDigest: string): PartnerEvent => {
  const event = exchange('rotated', hubTokenDigest);
  if (event.type !== 'partner.rotated') throw new Error(event.type);
  return { ...event, data: { ...event.data, formerDigest, formerUntil: 'tomorrow' } };
};
const confirmed: PartnerEvent = { type: 'partner.tokenConfirmed', data: {} };
const added: PartnerEvent = {
  type: 'partner.added',
  data: { id: 'NL-CPO', roles, settings: defaultSettings, initialTokenDigest: 'i1' },
};
const suspended: PartnerEvent = { type: 'partner.suspended', data: { reason: 'left' } };
const offline: PartnerEvent = { type: 'partner.offline', data: { reason: 'silent' } };
const online: PartnerEvent = { type: 'partner.online', data: { reason: 'back' } };
const issued = (initialTokenDigest: string): PartnerEvent => ({
  type: 'partner.initialTokenIssued',
  data: { initialTokenDigest },
});

/** The partner after each of the facts; the n-th happens at `t{n}`, from 0. */
function folded(...events: PartnerEvent[]): Partner {
  return events.reduce<Partner>(
    (partner, event, index) => applyToPartner(partner, event, `t${index + 1}`),
    applyToPartner(null, added, 't0'),
  );
}

t.test('tokens and status follow the events of a partner; former tokens are remembered [D9, D10]', async (t) => {
  const [registered, rotated] = [exchange('registered', 'h1'), exchange('rotated', 'h2')];
  type Row = [PartnerEvent[], Partner['status'], string | null, string | null, string[], string];
  const table: Row[] = [
    // facts, status, initial token, hub token, spent, last_updated
    [[], 'REGISTERED', 'i1', null, [], 't0'],
    [[issued('i2')], 'REGISTERED', 'i2', null, ['i1'], 't0'],
    [[registered], 'CONNECTED', null, 'h1', ['i1'], 't1'],
    [[registered, rotated], 'CONNECTED', null, 'h2', ['i1', 'h1'], 't2'],
    [[registered, offline], 'OFFLINE', null, 'h1', ['i1'], 't2'],
    [[registered, offline, online], 'CONNECTED', null, 'h1', ['i1'], 't3'],
    [[registered, offline, rotated], 'CONNECTED', null, 'h2', ['i1', 'h1'], 't3'],
    [[registered, suspended], 'SUSPENDED', null, null, ['i1', 'h1'], 't2'],
    [[registered, rotated, suspended], 'SUSPENDED', null, null, ['i1', 'h1', 'h2'], 't3'],
    [[suspended], 'SUSPENDED', null, null, ['i1'], 't1'],
    [[registered, suspended, issued('i2')], 'SUSPENDED', 'i2', null, ['i1', 'h1'], 't2'],
    [
      [registered, suspended, issued('i2'), exchange('registered', 'h3')],
      'CONNECTED',
      null,
      'h3',
      ['i1', 'h1', 'i2'],
      't4',
    ],
  ];
  for (const [facts, status, initial, hub, spent, lastUpdated] of table) {
    const title = facts.map(({ type }) => type).join(' → ') || 'added';
    const partner = folded(...facts);
    t.equal(partner.status, status, title);
    t.strictSame([partner.initialTokenDigest, partner.hubTokenDigest], [initial, hub], `${title}: tokens in force`);
    t.strictSame([...partner.spentDigests].sort(), [...spent].sort(), `${title}: spent`);
    t.equal(partner.lastUpdated, lastUpdated, `${title}: last_updated`);
    t.equal(isRegistered(partner), hub !== null, `${title}: registered`);
    t.equal(partner.partnerToken, hub && `sealed ${hub}`, `${title}: the token of the partner`);
  }
});

t.test('the token that asked for a rotation stays until the next one is confirmed [D73]', async (t) => {
  const [registered, rotated] = [exchange('registered', 'h1'), rotatedBy('h1', 'h2')];
  type Row = [PartnerEvent[], initial: string | null, former: string | null, hub: string | null, spent: string[]];
  const table: Row[] = [
    [[registered, rotated], null, 'h1', 'h2', ['i1']],
    [[registered, rotated, confirmed], null, null, 'h2', ['h1', 'i1']],
    // The answer was lost, and it asks again with the token that it has.
    [[registered, rotated, rotatedBy('h1', 'h3')], null, 'h1', 'h3', ['h2', 'i1']],
    [[registered, rotated, rotatedBy('h2', 'h3')], null, 'h2', 'h3', ['h1', 'i1']],
    [[registered, rotated, suspended], null, null, null, ['h1', 'h2', 'i1']],
    [[registered, rotated, offline], null, 'h1', 'h2', ['i1']],
    [[registered, issued('i2')], 'i2', null, 'h1', ['i1']],
    [[registered, issued('i2'), rotated], 'i2', 'h1', 'h2', ['i1']],
    [[registered, issued('i2'), rotated, exchange('registered', 'h3')], null, null, 'h3', ['h1', 'h2', 'i1', 'i2']],
  ];
  for (const [facts, initial, former, hub, spent] of table) {
    const title = facts.map(({ type }) => type).join(' → ');
    const { initialTokenDigest, formerToken, hubTokenDigest, spentDigests } = folded(...facts);
    t.strictSame([initialTokenDigest, formerToken?.digest ?? null, hubTokenDigest], [initial, former, hub], title);
    t.strictSame([...spentDigests].sort(), spent, `${title}: spent`);
  }
  t.strictSame(folded(registered, rotated).formerToken, { digest: 'h1', until: 'tomorrow' });
});

t.test('an endpoint set by the operator wins over a discovered one and survives a rotation [D13]', async (t) => {
  const found = (url: string) => [
    endpoint('cdrs', 'discovered', url),
    endpoint('cdrs', 'discovered', `${url}/s`, 'SENDER'),
  ];
  const set = (...endpoints: Endpoint[]): PartnerEvent => ({ type: 'partner.endpointsSet', data: { endpoints } });
  const ours = endpoint('cdrs', 'operator', 'https://ours');
  const table: [string, PartnerEvent[], string | undefined, string | undefined][] = [
    // facts, cdrs RECEIVER, cdrs SENDER
    ['none', [], undefined, undefined],
    ['discovered', [exchange('registered', 'h1', found('d1'))], 'd1', 'd1/s'],
    [
      'discovered again',
      [exchange('registered', 'h1', found('d1')), exchange('rotated', 'h2', found('d2'))],
      'd2',
      'd2/s',
    ],
    [
      'gone from the details',
      [exchange('registered', 'h1', found('d1')), exchange('rotated', 'h2')],
      undefined,
      undefined,
    ],
    ['set before', [set(ours), exchange('registered', 'h1', found('d1'))], 'https://ours', 'd1/s'],
    ['set after', [exchange('registered', 'h1', found('d1')), set(ours)], 'https://ours', 'd1/s'],
    ['withdrawn', [exchange('registered', 'h1', found('d1')), set(ours), set()], 'd1', 'd1/s'],
    [
      'set, then rotated',
      [exchange('registered', 'h1', found('d1')), set(ours), exchange('rotated', 'h2', found('d2'))],
      'https://ours',
      'd2/s',
    ],
    ['set anew', [set(ours), set(endpoint('cdrs', 'operator', 'https://new'))], 'https://new', undefined],
    ['withdrawn, then rotated', [set(ours), set(), exchange('rotated', 'h2', found('d2'))], 'd2', 'd2/s'],
  ];
  for (const [title, facts, receiver, sender] of table) {
    const partner = folded(...facts);
    t.equal(endpointOf(partner, 'cdrs', 'RECEIVER')?.url, receiver, `${title}: RECEIVER`);
    t.equal(endpointOf(partner, 'cdrs', 'SENDER')?.url, sender, `${title}: SENDER`);
    t.equal(endpointOf(partner, 'tokens', 'RECEIVER'), undefined, `${title}: another module`);
    const all = partner.endpoints.map(({ identifier, role, source }) => `${identifier} ${role} ${source}`);
    t.equal(new Set(all).size, all.length, `${title}: each once from each source`);
  }
});

t.test('settings and business details change without touching the rest [D30]', async (t) => {
  const before = folded(exchange('registered', 'h1'));
  const settings = { token_encoding: 'plain', paused: true } as const;
  const changed = applyToPartner(before, { type: 'partner.changed', data: { settings } }, 't9');
  t.strictSame(changed, { ...before, settings: { ...defaultSettings, ...settings } }, 'last_updated stays');
  const renamed = applyToPartner(before, { type: 'partner.changed', data: { settings: {}, roles: named } }, 't9');
  t.strictSame(renamed, { ...before, roles: named, lastUpdated: 't9' }, 'the roles move it');
  t.equal(folded(exchange('registered', 'h1'), exchange('rotated', 'h2')).url, 'https://p/h2', 'the url is the latest');
});

t.test(
  'an exchange changes the form of the token unless the form is fixed, as in rows of earlier versions [D58]',
  async (t) => {
    const event = exchange('registered', 'h1');
    if (event.type !== 'partner.registered') throw new Error(event.type);
    const plain: PartnerEvent = { ...event, data: { ...event.data, tokenEncoding: 'plain' } };
    const { token_encoding_auto: _, ...earlier } = defaultSettings;
    const rows: [settings: PartnerSettings, form: string][] = [
      [defaultSettings, 'plain'],
      [{ ...defaultSettings, ...storedSettings({ token_encoding: 'base64' }) }, 'base64'],
      [earlier, 'base64'],
    ];
    for (const [settings, form] of rows) {
      const added = { ...folded(), settings };
      t.equal(applyToPartner(added, plain, 't2').settings.token_encoding, form, choicesOf(settings).token_encoding);
    }
  },
);

t.test('the time of the last suspension is kept [D50]', async (t) => {
  const registered = exchange('registered', 'h1');
  t.equal(folded(registered).suspendedAt, null);
  t.equal(folded(registered, suspended).suspendedAt, 't2');
  t.equal(folded(registered, suspended, issued('i2'), exchange('registered', 'h2')).suspendedAt, 't2');
});

t.test('party ids ignore case [D12]', async (t) => {
  t.equal(partyKey('nl', 'cPo'), 'NL-CPO');
  for (const role of roles) t.equal(keyOf(role), 'NL-CPO');
});

t.test('a fact about a partner that was never added is a bug', async (t) => {
  for (const event of [suspended, offline, online, issued('i'), exchange('registered', 'h')]) {
    t.throws(() => applyToPartner(null, event, 't1'), { message: event.type });
  }
});

t.test(
  'a module URL and a path are joined by one slash, and a run of slashes costs no more than other characters',
  async (t) => {
    t.equal(within('https://p/a//', '/b'), 'https://p/a/b');
    t.equal(within('https://p/a//', ''), 'https://p/a//', 'without a path it keeps its form');
    t.equal(within('https://p//a/?q=/', '/b'), 'https://p//a/b?q=/');
    const growth = growthOf(
      (length) => `https://p/${'/'.repeat(length)}a/`,
      (url) => within(url, '/b'),
    );
    t.ok(growth < growthMax, `${growth} times`);
  },
);
