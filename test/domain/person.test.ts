/** Names of a person in texts of every form, and texts that only look like them. */
import { replacerOf, tokensIn } from '../../src/domain/person.ts';
import { growthMax, growthOf } from '../support/growth.ts';
import { t } from '../support/tap.ts';

const digestOf = (name: string) => `<${name}>`;

t.test('[PERSON-2, PERSON-3] a name is replaced in any notation, and nothing else is', async (t) => {
  const long = replacerOf(['04A1B2C3', 'NL-EMS-C1', 'NL-EMS-C1-9'], digestOf);
  const short = replacerOf(['CARD1', 'a.b*'], digestOf);
  const cases: [string, typeof long, string, string][] = [
    ['a name alone', long, 'tokens/NL-EMS/04a1b2c3/RFID', 'tokens/NL-EMS/<04a1b2c3>/RFID'],
    ['either case', long, '{"uid":"04a1B2c3"}', '{"uid":"<04a1b2c3>"}'],
    ['a JSON escape', long, '{"uid":"\\u00304A1B2\\u00433"}', '{"uid":"<04a1b2c3>"}'],
    ['percent-encoded', long, '{"path":"/x%3004A1/%304A1B2C3"}', '{"path":"/x%3004A1/<04a1b2c3>"}'],
    ['JSON inside JSON', long, '{"body":"{\\"uid\\":\\"04A1B2C3\\"}"}', '{"body":"{\\"uid\\":\\"<04a1b2c3>\\"}"}'],
    [
      'escaped twice',
      long,
      '{"body":"{\\"uid\\":\\"\\\\u003004A1B2C3\\"}"}',
      '{"body":"{\\"uid\\":\\"\\\\u0030<04a1b2c3>\\"}"}',
    ],
    ['the longest first', long, '{"v":"NL-EMS-C1-9 NL-EMS-C1"}', '{"v":"<nl-ems-c1-9> <nl-ems-c1>"}'],
    ['inside a word', long, '{"id":"X04A1B2C3X"}', '{"id":"X<04a1b2c3>X"}'],
    [
      'a short one is a whole word',
      short,
      '{"id":"XCARD1","uid":"CARD1","e":"/CARD1?"}',
      '{"id":"XCARD1","uid":"<card1>","e":"/<card1>?"}',
    ],
    ['a short one behind an escape', short, '{"e":"\\nCARD1 %20CARD1"}', '{"e":"\\n<card1> %20<card1>"}'],
    ['marks of patterns are text', short, '{"uid":"A.B*","x":"aXbb"}', '{"uid":"<a.b*>","x":"aXbb"}'],
    [
      'spacing and other fields stay byte for byte',
      long,
      '{ "a" : 1.50,\n"uid": "04A1B2C3" }',
      '{ "a" : 1.50,\n"uid": "<04a1b2c3>" }',
    ],
    ['text that is no JSON', long, '<html>04A1B2C3', '<html><04a1b2c3>'],
  ];
  const marked = replacerOf(['A/B"C\\D', '\\\\G'], digestOf);
  const spelled = String.raw`{"uid":"A\/B\"C\\D"}`;
  cases.push(
    ['short JSON escapes', marked, spelled, String.raw`{"uid":"<a/b\"c\\d>"}`],
    ['all short', marked, String.raw`{"uid":"\\\\G"}`, String.raw`{"uid":"<\\\\g>"}`],
    ['short and long', marked, String.raw`{"uid":"a/B\u0022C\u005cd"}`, String.raw`{"uid":"<a/b\"c\\d>"}`],
    ['short within JSON', marked, JSON.stringify({ spelled }), JSON.stringify({ spelled: '{"uid":"<a/b"c\\d>"}' })],
    ['escaped twice within a name', long, String.raw`{"body":"04A1\\u0042\\u0032C3"}`, '{"body":"<04a1b2c3>"}'],
  );
  for (const [what, replacer, text, expected] of cases) {
    t.equal(text.startsWith('tokens/') ? replacer.inName(text) : replacer.inText(text), expected, what);
    t.ok(replacer.finds(text), what);
  }
  const numbers = replacerOf(['2026', '1234'], digestOf);
  const body = '{"n":1234,"at":"2026-01-02T03:04:05Z","uid":"1234"}';
  t.equal(numbers.inText(body), '{"n":1234,"at":"2026-01-02T03:04:05Z","uid":"<1234>"}', 'no number and no date');
  const written = '{"uid" : 1234,"kwh":1234,"cdr_token":1234, "contract_id":12345,"text":"\\"uid\\":1234,"}';
  t.equal(
    numbers.inText(written),
    '{"uid" : "<1234>","kwh":1234,"cdr_token":"<1234>", "contract_id":12345,"text":"\\"uid\\":<1234>,"}',
    'a name that was written as a number',
  );
  t.notOk(replacerOf([], digestOf).finds('anything'));
  for (const mark of ['\\', '\\"', '\\/', '"', 'a', '\\a', 'ſ'])
    for (const text of [mark, `${'\\'.repeat(9)}${mark}`])
      t.notOk(replacerOf([`${mark.repeat(36)}X`], digestOf).finds(text.repeat(5000)), 'it ends');
});

t.test('[PERSON-2, PERSON-5] each of many names is found in every notation', async (t) => {
  const bytes = (name: string, of = name) => [...name].map((one) => (of.includes(one) ? encoded(one) : one)).join('');
  const encoded = (one: string) => [...new TextEncoder().encode(one)].map((byte) => `%${byte.toString(16)}`).join('');
  const escaped = (name: string) => name.replace(/[A-Z]/g, (one) => `\\u00${one.charCodeAt(0).toString(16)}`);
  const names = [
    ...Array.from({ length: 300 }, (_, i) => `04AB${(0xa1b2c3 + i * 7919).toString(16).toUpperCase()}`),
    ...['NL-EMS-C1', 'NL-EMS-C1-9', 'CARD', 'CARD-7', 'ЖЁЛТАЯ-КАРТА', 'KARTE ſ1234', `LONG ${'X'.repeat(60)}`],
  ];
  const replacer = replacerOf(names, digestOf);
  const found: string[] = [];
  const missed: string[] = [];
  for (const name of names) {
    for (const form of [name, name.toLowerCase(), name.toUpperCase(), escaped(name), bytes(name), bytes(name, 'A4-1')])
      for (const text of [`{"uid":"${form}"}`, JSON.stringify({ text: `{"uid":"${form}"}` }), `/tokens/${form}/x`])
        (replacer.inText(text).includes(digestOf(name.toLowerCase())) ? found : missed).push(text);
  }
  t.strictSame(missed, []);
  t.equal(found.length, names.length * 18);
  for (const name of names) t.notOk(replacer.finds(`{"uid":"${name.slice(0, 3)}/${name.slice(3)}"}`), name);
});

t.test('a run of backslashes is scanned once', async (t) => {
  for (const names of [[], ['04A1B2C3']]) {
    const { inText } = replacerOf(names, digestOf);
    const growth = growthOf((length) => `{"remark":"${'\\'.repeat(length)}"}`, inText);
    t.ok(growth < growthMax, `${growth} times`);
  }
});

t.test('[PERSON-1] a token is found in every field where OCPI has one', async (t) => {
  const token = { uid: 'U', contract_id: 'C', visual_number: 'V' };
  t.strictSame(tokensIn(true, { id: 'U' }, JSON.stringify({ contract_id: 'C' })), [{ contract: 'C', uid: 'U' }]);
  t.strictSame(
    tokensIn(false, { id: 'U', facts: { cdrToken: { uid: 'U' } } }, JSON.stringify({ uid: 'X', cdr_token: token })),
    [{ uid: 'U' }, { uid: 'U', contract: 'C', visual: 'V' }],
  );
  for (const [cdr_token, names] of [
    [
      { uid: 12345678, contract_id: 'C' },
      { uid: '12345678', contract: 'C' },
    ],
    [JSON.stringify({ country_code: 'nl', party_id: 'ems', uid: 'U' }), { uid: 'U', party: 'NL-EMS' }],
    ['04A1B2C3', { uid: '04A1B2C3' }],
    [12345678, { uid: '12345678' }],
  ] as const)
    t.strictSame(tokensIn(false, {}, JSON.stringify({ cdr_token })), [names]);
  for (const body of [null, 'no JSON', '[]', '{"uid":"U"}', '{"evses":[{"uid":"U"}]}'])
    t.strictSame(tokensIn(false, {}, body), [], String(body));
});
