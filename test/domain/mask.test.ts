/** What a viewer sees of a value: names of persons down to their last characters, wherever and however they are written. */
import { masked, masking } from '../../src/domain/mask.ts';
import { t } from '../support/tap.ts';

const uid = '04C0FFEE123456';
const many = (count: number) => Array.from({ length: count }, (_, at) => ({ uid: `04AB${(at * 7919).toString(36)}F` }));

t.test('the name in a field is hidden in every text, in any notation', async (t) => {
  const encoded = [...uid].map((each) => `%${each.charCodeAt(0).toString(16)}`).join('');
  const escaped = [...uid].map((each) => `\\u00${each.charCodeAt(0).toString(16)}`).join('');
  const forms = {
    path: `/tokens/NL/EMS/${uid}?type=RFID`,
    lower: uid.toLowerCase(),
    encoded: `/x/${encoded}/y`,
    twice: encoded.replaceAll('%', '%25'),
    escaped: `{"x":"${escaped}"}`,
    within: `REF-${uid}-1`,
    nested: JSON.stringify({ text: JSON.stringify({ text: `a ${uid}` }) }),
  };
  const shown = masked({ uid, ...forms }) as Record<string, string>;
  t.equal(shown.uid, '…3456');
  t.equal(shown.path, '/tokens/NL/EMS/…3456?type=RFID');
  t.equal(shown.encoded, '/x/…3456/y');
  t.equal(shown.escaped, '{"x":"…3456"}');
  t.equal(shown.within, 'REF-…3456-1');
  for (const [form, text] of Object.entries(shown)) t.ok(text.length < 40 && text.includes('…'), `${form}: ${text}`);
  const letters = masked({ uid: 'Zoë Müller', path: '/x/Zo%C3%AB%20M%C3%BCller/y', cut: 'Zo%C3', odd: '%FF%' });
  t.strictSame(letters, { uid: '…ler', path: '/x/…ler/y', cut: 'Zo%C3', odd: '%FF%' });
});

t.test('names that overlap or contain each other are hidden completely', async (t) => {
  const names = ['abcdef', 'cdefghij', 'defg', 'bcd!'].map((name) => ({ uid: name }));
  t.equal((masked({ names, x: 'abcdefghij defg bcd cdefg.' }) as { x: string }).x, '…hij …g bcd c…g.');
});

t.test(
  'addresses of saved views: values that look like names, and values of token filters, are hidden [MASK-1, MASK-3]',
  async (t) => {
    const path = (text: string) =>
      (masked({ items: [{ id: 'a1b2c3d4e5', path: text }] }) as { items: { path: string }[] }).items[0]?.path;
    t.equal(path(`/trace?key=NL-EMS%2F${uid}`), '/trace?key=NL-EMS%2F…3456');
    t.equal(path(`/trace?key=${uid}`), '/trace?key=…3456');
    t.equal(path('/deliveries?module=tokens&object=NL-EMS%2FCARD1'), '/deliveries?module=tokens&object=NL-EMS%2F…1');
    for (const kept of [
      '/deliveries?state=DEAD&partner=NL-EMS&class=not_found&from=2026-01-02T03%3A04%3A05Z',
      '/deliveries?module=sessions&object=NL-CPO%2FS1',
      '/trace?key=NL-CPO%2FS-LOST',
      '/?show=attention',
      `/ocpi/2.2.1/sessions/NL/CPO/${uid}?x=1`,
    ])
      t.equal(path(kept), kept);
  },
);

t.test('fields that hold a name are found in any case and type', async (t) => {
  for (const field of ['uid', 'UID', 'tokenUid', 'contractID', 'auth_id', 'cdr_token']) {
    const body = JSON.stringify({ [field]: uid });
    t.strictSame(masked({ body }), { body: `{"${field}":"…3456"}` }, field);
  }
  const number = '{"uid": 98765432109876543210, "x": 98765432109876543210}';
  t.notMatch((masked({ body: number }) as { body: string }).body, /9876543210/);
  t.strictSame(masked({ uid: 9876543210123 }), { uid: '…0123' });
  const evse = { evses: [{ uid: 'EVSE123456' }], x: 'EVSE123456' };
  t.strictSame(masked({ ...evse, body: JSON.stringify(evse) }), { ...evse, body: JSON.stringify(evse) });
});

t.test('free text of a partner: everything that looks like a uid or a contract id is hidden [MASK-3]', async (t) => {
  for (const name of [
    uid,
    '1234567',
    'NL-TNM-C12345-6',
    'DE*8AA*012345*6',
    '04:a2:b3:c4:d5',
    '9988-7766-5544',
    '%30%34C0FFEE',
  ]) {
    const { reason } = masked({ reason: `Unknown Token ${name}: no` }) as { reason: string };
    t.match(reason, /^Unknown Token ….{2,4}: no$/, `${name}: ${reason}`);
  }
  const kept = [
    'HTTP 400: status_code 2001 at 2026-11-28T20:04:44.123Z and 2026-11-28',
    'connect ECONNREFUSED 127.0.0.1:45678 for evses[0].connectors[1] of NL*CPO*E1234567*1',
    'charging_periods.dimensions: expected IEC_62196_T2, the answer was in Windows-1252',
  ];
  for (const excerpt of kept) t.strictSame(masked({ excerpt }), { excerpt });
  const own = {
    object: 'NL-CPO/S12345678',
    correlation_id: 'c-12345678',
    reason: 'no S12345678 of c-12345678, S12345679',
  };
  t.strictSame(masked(own), { ...own, reason: 'no S12345678 of c-12345678, …679' });
  t.strictSame(masked({ warnings: [`uid: ${uid}`] }), { warnings: ['uid: …3456'] });
});

t.test('a body that is not JSON counts as free text; in JSON only names are hidden', async (t) => {
  for (const body of [`{'uid':'${uid}'}`, `{"cdr_token":{uid:"${uid}"},}`, `<uid>${uid}</uid>`, `{"uid":"${uid}`]) {
    t.notMatch((masked({ body }) as { body: string }).body, uid.slice(0, -4), body);
  }
  const body = JSON.stringify({ id: 'SESSION1234567', location_id: 'LOC1234567' });
  t.strictSame(masked({ body }), { body });
});

t.test('a text with too many names, or nested too deeply, is omitted [MASK-4]', async (t) => {
  const body = JSON.stringify(many(3000));
  const other = JSON.stringify({ uid: '04DEADBEEF99', id: 'SESSION1234567' });
  const path = '/sessions/NL/CPO/04AB65DF';
  const shown = masked({ items: [{ body, path }, { body: other }] });
  const left = { body: 'left out: too many names', path: '/sessions/NL/CPO/…DF' };
  t.strictSame(shown, { items: [left, { body: other.replace('04DEADBEEF99', '…EF99') }] });
  for (const deep of ['['.repeat(32_000) + ']'.repeat(32_000), `${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}`]) {
    t.strictSame(masked({ body: deep, reason: 'no' }), { body: 'left out: nested too deeply', reason: 'no' });
  }
  let nested: unknown = uid;
  for (let level = 0; level < 20_000; level++) nested = [nested];
  t.match(JSON.stringify(masked(nested)), /^\[+"left out: nested too deeply"\]+$/);
});

t.test('more names than a value may have are hidden in their own fields and in free text', async (t) => {
  const items = Array.from({ length: 40 }, (_, at) => ({
    uid: `04FEED${at}`,
    body: JSON.stringify(many(500).map(({ uid: one }) => ({ uid: `${at}x${one}` }))),
    object: `NL-EMS/04FEED${at}`,
    module: 'tokens',
    path: `/x/04FEED${at}-04ABCDEF`,
  }));
  const shown = JSON.stringify(masked(items));
  t.notMatch(shown, /04FEED|04ABCDEF|x04AB/i);
  t.match(shown, /left out/);
});

t.test('a large value is masked in several steps [MASK-4]', async (t) => {
  const items = Array.from({ length: 30 }, (_, at) => ({ body: JSON.stringify({ at, x: 'word '.repeat(10_000) }) }));
  t.ok([...masking({ uid, items })].length > 30);
});
