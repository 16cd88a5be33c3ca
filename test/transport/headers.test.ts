/** What the hub reads from OCPI's headers, and what it writes. */
import { HubError } from '../../src/domain/errors.ts';
import {
  authorizationTokens,
  readId,
  readRouting,
  writeAuthorization,
  writeHeaders,
} from '../../src/transport/headers.ts';
import { t } from '../support/tap.ts';

const base64 = (text: string) => Buffer.from(text, 'utf8').toString('base64');

t.test('an Authorization header yields its candidate tokens, decoded ones first [D8]', async (t) => {
  const hubToken = 'Gk3v9Qw0yT7rX2mLZc5nB8sJhUfDpAeKi1oVbNlWx4E';
  const rows: [header: string | undefined, tokens: string[]][] = [
    [undefined, []],
    ['', []],
    ['Token', []],
    ['Token ', []],
    ['Bearer abc', []],
    ['Token two words', []],
    [`Token ${hubToken}`, [hubToken]],
    ['token abc-1', ['abc-1']],
    [`Token   ${base64('abc-1')}  `, ['abc-1', base64('abc-1')]],
    // The specification's own sample decodes to a token and a line feed.
    ['Token ZXhhbXBsZS10b2tlbgo=', ['example-token', 'ZXhhbXBsZS10b2tlbgo=']],
    [`Token ${base64('with space inside')}`, [base64('with space inside')]],
    [`Token ${base64('x'.repeat(64))}`, ['x'.repeat(64)]],
    [`Token ${base64('x'.repeat(65))}`, []],
    [`Token ${'y-'.repeat(33)}`, []],
    ['Token tökén', []],
  ];
  for (const [header, tokens] of rows) t.same(authorizationTokens(header ?? ''), tokens, String(header));
});

t.test('a token is written in the partner’s encoding, and read back [D8]', async (t) => {
  t.equal(writeAuthorization('abc-1', 'plain'), 'Token abc-1');
  t.equal(writeAuthorization('abc-1', 'base64'), 'Token YWJjLTE=');
  t.equal(authorizationTokens(writeAuthorization('abc-1', 'base64'))[0], 'abc-1');
});

t.test('routing headers name a party or none; half a name is refused [D5]', async (t) => {
  t.same(readRouting({ 'ocpi-to-country-code': 'nl', 'ocpi-to-party-id': ' TNM ' }, 'to'), {
    country_code: 'nl',
    party_id: 'TNM',
  });
  const repeated = readRouting({ 'ocpi-to-country-code': 'NL, NL', 'ocpi-to-party-id': 'TNM,TNM, TNM' }, 'to');
  t.same(repeated, { country_code: 'NL', party_id: 'TNM' }, 'fields that a proxy has repeated');
  const two = readRouting({ 'ocpi-to-country-code': 'NL, NL', 'ocpi-to-party-id': 'TNM, EMS' }, 'to');
  t.same(two, { country_code: 'NL', party_id: 'TNM, EMS' }, 'two parties are none');
  t.equal(readRouting({ 'ocpi-from-country-code': 'NL', 'ocpi-from-party-id': 'TNM' }, 'to'), null);
  t.equal(readRouting({ 'ocpi-to-country-code': '', 'ocpi-to-party-id': '' }, 'to'), null);
  t.throws(
    () => readRouting({ 'ocpi-to-country-code': 'NL' }, 'to'),
    new HubError('invalid', { message: 'OCPI-to-party-id: expected string' }),
  );
});

t.test('a usable id is kept, any other is replaced by a new one [D14]', async (t) => {
  for (const id of ['a', 'b'.repeat(128), 'with space', '~!@']) t.equal(readId(id), id);
  for (const id of [undefined, '', ' ', 'c'.repeat(129), 'ü', 'tab\there']) {
    const minted = readId(id);
    t.match(minted, /^[0-9a-f-]{36}$/, String(id));
    t.not(minted, readId(id), 'each one is new');
  }
});

t.test('a forward carries token, ids and both parties [D14, D15]', async (t) => {
  const call = { token: 'abc', encoding: 'plain', requestId: 'r', correlationId: 'c' } as const;
  const from = { country_code: 'NL', party_id: 'CPO' };
  t.same(writeHeaders({ ...call, from, to: null }), {
    Authorization: 'Token abc',
    'X-Request-ID': 'r',
    'X-Correlation-ID': 'c',
    'OCPI-from-country-code': 'NL',
    'OCPI-from-party-id': 'CPO',
  });
});
