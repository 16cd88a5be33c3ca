/**
 * Tokens on the wire: eMSPs push them for whitelisting, routed CPOs get them and pull them. Authorize has its own file.
 */
import { tokenBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { arrivals, dataText, idsOf, lines, quiet, statusOf } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';

const hub = await hubFor(t);
const { cpo, emsp } = await routedPair(t, hub);
const secondCpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CP2' });
const stranger = await partnerFor(t, hub, { role: 'CPO', countryCode: 'DE', partyId: 'STR' });
const otherEmsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'BE', partyId: 'EMS' });
await admin(hub, 'PUT', '/routes/NL-EMS/NL-CP2', { active: true });
await admin(hub, 'PUT', '/routes/BE-EMS/DE-STR', { active: true });

const base = '/2.2.1/tokens/NL/EMS';
const done = '200/1000';
const notFound = '404/2003';
const instant = (minute: number) => `2026-02-01T10:${String(minute).padStart(2, '0')}:00Z`;

t.test(
  'a token push goes to every routed CPO with the same method, path, type and bytes [interface, Events; D15, D17, D24]',
  async (t) => {
    const whole = `{ "x_own": [1.0, 1e2],${JSON.stringify(tokenBody('CARD 1')).slice(1)}`;
    const steps = [
      { method: 'PUT', query: '', body: whole, type: 'RFID' },
      { method: 'PATCH', query: '', body: `{"valid" : false, "last_updated":"${instant(1)}"}`, type: 'RFID' },
      { method: 'PUT', query: '?type=RFID', body: whole, type: 'RFID' },
      {
        method: 'PUT',
        query: '?type=APP_USER',
        body: JSON.stringify(tokenBody('CARD 1', { type: 'APP_USER' })),
        type: 'APP_USER',
      },
    ];
    for (const { method, query, body, type } of steps) {
      const before = [secondCpo, stranger].map(({ received }) => received.length);
      const [came, ...more] = await arrivals(hub, cpo, async () => {
        t.equal(statusOf(await emsp.call(method, `${base}/CARD%201${query}`, body)), done, method);
      });
      t.equal(`${came?.method} ${came?.path}`, `${method} /ocpi${base}/CARD%201?type=${type}`);
      t.equal(came?.body, body, `${method}: bytes`);
      t.same(
        ['from-country-code', 'from-party-id', 'to-country-code', 'to-party-id'].map((n) => came?.headers[`ocpi-${n}`]),
        ['NL', 'EMS', 'NL', 'CPO'],
        `${method}: routing headers`,
      );
      t.same(more, [], `${method}: once`);
      t.equal(secondCpo.received.at(-1)?.body, body, `${method}: the other routed CPO has it too`);
      t.same(
        [secondCpo, stranger].map(({ received }, index) => received.length - (before[index] ?? 0)),
        [1, 0],
        `${method}: a CPO without a rule does not`,
      );
    }
  },
);

t.test('the type is part of the key: RFID unless the query or the body says otherwise [D24, D48]', async (t) => {
  const contractOf = async (query: string) => {
    const answer = await emsp.call('GET', `${base}/KEYED${query}`);
    return answer.status === 200 ? (answer.json.data as { contract_id: string }).contract_id : statusOf(answer);
  };
  const put = (query: string, type: string | undefined, contract_id: string) =>
    emsp.call('PUT', `${base}/KEYED${query}`, tokenBody('KEYED', { type, contract_id }));
  t.equal(statusOf(await put('', 'RFID', 'C-RFID')), done);
  t.equal(statusOf(await put('', 'APP_USER', 'C-APP')), done, 'without the query the body’s counts');
  t.equal(statusOf(await put('?type=OTHER', 'OTHER', 'C-OTHER')), done);
  t.same(await Promise.all(['', '?type=RFID', '?type=APP_USER', '?type=OTHER', '?type=AD_HOC_USER'].map(contractOf)), [
    'C-RFID',
    'C-RFID',
    'C-APP',
    'C-OTHER',
    notFound,
  ]);
  const change = { contract_id: 'C-NEW', last_updated: instant(1) };
  t.equal(statusOf(await emsp.call('PATCH', `${base}/KEYED?type=APP_USER`, change)), done);
  t.same(await Promise.all(['?type=RFID', '?type=APP_USER'].map(contractOf)), ['C-RFID', 'C-NEW']);
  t.equal(
    statusOf(await emsp.call('PATCH', `${base}/KEYED?type=AD_HOC_USER`, change)),
    notFound,
    'PATCH creates nothing [D4]',
  );
  t.equal(await contractOf('?type=app_user'), 'C-NEW', 'whatever the case [D12]');
});

t.test(
  'a push that contradicts itself or lacks a required field is 200/2001 and changes nothing [D3, D18, D48]',
  async (t) => {
    await emsp.call('PUT', `${base}/REFUSE`, tokenBody('REFUSE'));
    await quiet(hub);
    const before = dataText(await emsp.call('GET', `${base}/REFUSE`));
    const cases = [
      ['PUT', '?type=APP_USER', tokenBody('REFUSE'), 'type'],
      ['PATCH', '?type=RFID', { type: 'OTHER', last_updated: instant(1) }, 'type'],
      ['PUT', '', tokenBody('OTHER'), 'uid'],
      ['PUT', '', tokenBody('REFUSE', { party_id: 'CPO' }), 'party_id'],
      ['PUT', '', tokenBody('REFUSE', { last_updated: undefined }), 'last_updated'],
      ['PATCH', '', { valid: false }, 'last_updated'],
      ['PUT', '', tokenBody('REFUSE', { valid: 'no' }), 'valid'],
      ['PUT', '?type=RF%20ID', tokenBody('REFUSE'), 'type'],
    ] as const;
    const came = await arrivals(hub, cpo, async () => {
      for (const [method, query, body, field] of cases) {
        const answer = await emsp.call(method, `${base}/REFUSE${query}`, body);
        t.equal(statusOf(answer), '200/2001', `${method} ${query} ${field}`);
        t.equal(answer.json.status_message?.split(':')[0], field, `${method} ${query}: names ${field}`);
      }
    });
    t.same(came, [], 'nothing was forwarded');
    t.equal(dataText(await emsp.call('GET', `${base}/REFUSE`)), before, 'nothing was stored');
  },
);

t.test('a token is read by its owner and by routed CPOs, and pushed by its owner alone [D7, D20]', async (t) => {
  await emsp.call('PUT', `${base}/READ`, tokenBody('READ'));
  const readers = [
    [emsp, done],
    [cpo, done],
    [secondCpo, done],
    [stranger, notFound],
    [otherEmsp, notFound],
  ] as const;
  for (const [reader, expected] of readers) {
    t.equal(statusOf(await reader.call('GET', `${base}/read?type=rfid`)), expected, `GET by ${reader.id}`);
  }
  t.equal(statusOf(await otherEmsp.call('PUT', `${base}/READ`, tokenBody('READ'))), notFound, 'PUT by another eMSP');
  t.equal(statusOf(await cpo.call('PUT', `${base}/READ`, tokenBody('READ'))), '403/2000', 'PUT by a CPO');
  const answer = await emsp.call('DELETE', `${base}/READ`);
  t.equal(statusOf(answer), '405/2000', 'there is no DELETE');
  t.same((answer.headers.get('allow') ?? '').split(', ').sort(), ['GET', 'HEAD', 'PATCH', 'PUT']);
});

t.test('a CPO pulls the tokens of routed eMSPs alone [D24]', async (t) => {
  const ofOther = { country_code: 'BE', party_id: 'EMS' };
  const came = await arrivals(hub, stranger, () =>
    otherEmsp.call('PUT', '/2.2.1/tokens/BE/EMS/ELSEWHERE', tokenBody('ELSEWHERE', ofOther)),
  );
  t.same(lines(came), ['PUT /ocpi/2.2.1/tokens/BE/EMS/ELSEWHERE?type=RFID']);
  const pulled = async (reader: typeof cpo) => idsOf(await reader.call('GET', '/2.2.1/tokens'));
  const ofRouted = ['CARD 1', 'CARD 1', 'KEYED', 'KEYED', 'KEYED', 'READ', 'REFUSE'];
  t.same((await pulled(cpo)).sort(), ofRouted, 'each type is a token of its own');
  t.same((await pulled(secondCpo)).sort(), ofRouted);
  t.same(await pulled(stranger), ['ELSEWHERE']);
  t.equal(statusOf(await emsp.call('GET', '/2.2.1/tokens')), '403/2000', 'the list is for CPOs [D7]');
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CP2', { active: false });
  const late = await arrivals(hub, secondCpo, () => emsp.call('PUT', `${base}/LATE`, tokenBody('LATE')));
  t.same([late, await pulled(secondCpo)], [[], []], 'without the rule nothing');
  t.equal(statusOf(await secondCpo.call('GET', `${base}/READ`)), notFound);
});

t.test('a PATCH of a token replaces the fields it carries and keeps the rest [D19]', async (t) => {
  const body = tokenBody('MERGE', { energy_contract: { supplier_name: 'A', contract_id: '1' }, x_own: [1.5] });
  await emsp.call('PUT', `${base}/MERGE`, body);
  const change = { energy_contract: { supplier_name: 'B' }, group_id: 'G1', last_updated: instant(2) };
  t.equal(statusOf(await emsp.call('PATCH', `${base}/MERGE`, change)), done);
  t.same((await cpo.call('GET', `${base}/MERGE`)).json.data, { ...body, ...change });
});

t.test('tokens of an eMSP that left are absent for CPOs, until it is back [D7]', async (t) => {
  const leaver = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'FR', partyId: 'LEA' });
  await admin(hub, 'PUT', '/routes/FR-LEA/NL-CPO', { active: true });
  const token = tokenBody('LEFT1', { country_code: 'FR', party_id: 'LEA' });
  await leaver.push('PUT', '/2.2.1/tokens/FR/LEA/LEFT1', token);
  const seen = async () => [
    idsOf(await cpo.call('GET', '/2.2.1/tokens')).includes('LEFT1'),
    statusOf(await cpo.call('GET', '/2.2.1/tokens/FR/LEA/LEFT1')),
  ];
  t.strictSame(await seen(), [true, done]);
  await admin(hub, 'POST', '/parties/FR-LEA/suspend');
  t.strictSame(await seen(), [false, notFound]);
  const { initial_token } = await admin(hub, 'POST', '/parties/FR-LEA/initial-token');
  await leaver.registerAgain(String(initial_token));
  t.strictSame(await seen(), [true, done]);
});
