/**
 * Tokens, sealed (encrypted) texts, and the files in which the hub keeps its own secrets.
 */
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLog } from '../../src/log.ts';
import { createSecrets, derivedAhead, hubKeys, SealError } from '../../src/secrets.ts';
import { t } from '../support/tap.ts';

const secrets = createSecrets('a key of the tests, long enough');
const cpo = 'NL-CPO';

t.test('a token has 256 random bits in base64url, which every OCPI partner accepts [D8]', async (t) => {
  const tokens = Array.from({ length: 100 }, secrets.newToken);
  for (const token of tokens) t.match(token, /^[A-Za-z0-9_-]{43}$/);
  t.equal(new Set(tokens).size, tokens.length, 'no two are the same');
});

t.test('a digest is SHA-256 in base64url', async (t) => {
  t.equal(secrets.digest('abc'), 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0');
});

t.test('an id is a new UUID each time', async (t) => {
  const ids = Array.from({ length: 100 }, secrets.newId);
  for (const id of ids) t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  t.equal(new Set(ids).size, ids.length);
});

t.test('a sealed text opens with the same key, also after a restart', async (t) => {
  for (const text of ['', 'token', 'ä€😀', 'x'.repeat(10_000)]) {
    const sealed = secrets.seal(text, cpo);
    t.equal(createSecrets('a key of the tests, long enough').open(sealed, cpo), text);
    t.not(sealed, secrets.seal(text, cpo), 'the same text is never sealed alike');
    if (text) t.notMatch(sealed, text);
  }
});

t.test('another key, or a single changed character, is refused without showing the content', async (t) => {
  const sealed = secrets.seal('partner token', cpo);
  const refuses = (what: string, open: () => string) => {
    try {
      t.fail(`${what} opened as ${open()}`);
    } catch (error) {
      t.type(error, SealError, what);
      t.notMatch((error as Error).message, /partner token/, what);
      t.notMatch((error as Error).message, sealed.slice(3, 20), what);
    }
  };
  refuses('another key', () => createSecrets('another key of the tests').open(sealed, cpo));
  const [form, content = ''] = sealed.split('.');
  for (let at = 0; at < content.length - 1; at++) {
    const changed = content.slice(0, at) + (content[at] === 'A' ? 'B' : 'A') + content.slice(at + 1);
    refuses(`character ${at}`, () => secrets.open(`${form}.${changed}`, cpo));
  }
  for (const text of [
    '',
    'v1',
    'v1.',
    'v1.AAAA',
    'v2',
    'v2.AAAA',
    'v3.AAAA',
    `v1.${content}`,
    `${sealed} `,
    `${sealed}.x`,
    'partner token',
  ]) {
    refuses(JSON.stringify(text), () => secrets.open(text, cpo));
  }
});

const quiet = createLog('silent');

t.test(
  'a sealed token that was copied to another partner does not open, and the start fails with the partner’s name',
  async (t) => {
    const sealed = secrets.seal('partner token', cpo);
    for (const other of ['NL-EMS', 'NL-CP', 'NL-CPO2', 'nl-cpo', '']) {
      t.throws(() => secrets.open(sealed, other), { name: 'SealError', message: /another partner's/ }, other);
      t.equal(secrets.isStale(sealed, other), true, `${other}: it is never taken for a good one`);
    }
    t.equal(secrets.open(sealed, cpo), 'partner token', 'it opens for its own partner, also after it was refused');
    const config = {
      dataDir: t.testdir({}),
      adminToken: null,
      secretKey: 'key-a-key-a-key-a',
      secretKeyPrevious: null,
    };
    const text = createSecrets(config.secretKey).seal('one', cpo);
    const copied = [
      { partner: cpo, text },
      { partner: 'NL-EMS', text },
    ];
    await t.rejects(hubKeys(config, quiet, copied), {
      name: 'ConfigError',
      message: /the token of NL-EMS; .*, unless the text is damaged or was another partner's/,
    });
  },
);

t.test('a sealed text of the format without a partner opens, and counts as stale', async (t) => {
  const before = 'v1.Sc6TUQiLuxWSZ_1ITEC-oZ0xyOXIGAVFf9GkXPQ13mgu-5_lv-Zk6fULZQ';
  t.equal(secrets.open(before, cpo), 'token of before');
  t.equal(secrets.isStale(before, cpo), true);
  t.equal(secrets.isStale(secrets.seal(secrets.open(before, cpo), cpo), cpo), false, 'sealed anew it is not');
  t.throws(() => secrets.open(before.replace('v1.', 'v2.'), cpo), SealError, 'it does not pass as the present format');
});

t.test('a text sealed with a previous key opens, and counts as stale', async (t) => {
  const [old, older] = ['an old key of the tests', 'a still older key'].map((key) => createSecrets(key));
  const rotated = createSecrets('a key of the tests, long enough', ['an old key of the tests', 'a still older key']);
  for (const sealed of [old?.seal('token', cpo), older?.seal('token', cpo)].map(String)) {
    t.equal(rotated.open(sealed, cpo), 'token');
    t.equal(rotated.isStale(sealed, cpo), true);
    t.throws(() => secrets.open(sealed, cpo), SealError, 'without the previous keys it stays closed');
  }
  t.equal(rotated.isStale(rotated.seal('token', cpo), cpo), false);
  t.equal(secrets.open(rotated.seal('token', cpo), cpo), 'token', 'it seals under the newest key');
});

t.test('keys that were derived ahead, of the settings or of the file, open what was sealed before', async (t) => {
  const inFile = t.testdir({ 'secret-key': 'the key of a file, derived ahead\n' });
  const [secretKey, previous] = ['a key that is derived ahead', 'a previous one, derived ahead'];
  await derivedAhead({ dataDir: inFile, secretKey: null, secretKeyPrevious: null });
  await derivedAhead({ dataDir: t.testdirName, secretKey, secretKeyPrevious: [previous] });
  await derivedAhead({ dataDir: join(inFile, 'missing'), secretKey: null, secretKeyPrevious: null });
  const sealed = {
    [secretKey]: 'v2.HZo1Q_YBefVX0RW1f4Q-r71BktoN2P1RBqnxw2pDYVjj_Tn3a1zuQBd5nw',
    [previous]: 'v2.E0dyMcayfc_-QKkEZfZOCalJvhVT54iYiLg-S_ePtEb6lLOk7BaMlPuK0Q',
    'the key of a file, derived ahead': 'v2.iUS8AvrU2hOAzjhX0ndeRba0-Jb31lW7J5jnhuzxJW-9OZA1KfFzFfFGKw',
  };
  for (const [key, text] of Object.entries(sealed)) t.equal(createSecrets(key).open(text, cpo), 'token of before', key);
});

t.test('the admin token and the secret key are generated once, readable by their owner alone', async (t) => {
  const dataDir = join(t.testdir({}), 'deep', 'data');
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => lines.push(line) });
  const config = { dataDir, adminToken: null, secretKey: null, secretKeyPrevious: null };
  const made = await hubKeys(config, log);
  t.strictSame(readdirSync(dataDir).sort(), ['admin-token', 'secret-key'], 'nothing is left beside them');
  const kept = (name: string) => readFileSync(join(dataDir, name), 'utf8').trim();
  for (const name of ['admin-token', 'secret-key']) {
    t.equal(statSync(join(dataDir, name)).mode & 0o777, 0o600, `mode of ${name}`);
    t.ok(
      lines.some((line) => line.includes(join(dataDir, name))),
      `the path of ${name} is logged`,
    );
    t.notOk(lines.join('').includes(kept(name)), 'its value is not');
  }
  t.equal(kept('admin-token'), made.adminToken);
  const again = await hubKeys(config, quiet);
  t.equal(again.adminToken, made.adminToken, 'the next start finds them');
  t.equal(again.secrets.open(made.secrets.seal('token', cpo), cpo), 'token');
  t.equal(createSecrets(kept('secret-key')).open(made.secrets.seal('token', cpo), cpo), 'token', 'the file is the key');
});

t.test('configured secrets are used, and no file is written', async (t) => {
  const dataDir = t.testdir({});
  const config = { dataDir, adminToken: 'given-admin', secretKey: 'given-secret-key', secretKeyPrevious: null };
  const { adminToken, secrets: given } = await hubKeys(config, quiet);
  t.equal(adminToken, 'given-admin');
  t.equal(createSecrets('given-secret-key').open(given.seal('token', cpo), cpo), 'token');
  t.strictSame(readdirSync(dataDir), []);
});

t.test('keys that do not open the stored tokens are refused by name, before anything is written', async (t) => {
  const dataDir = t.testdir({});
  const [a, b, c] = ['key-a-key-a-key-a', 'key-b-key-b-key-b', 'key-c-key-c-key-c'] as const;
  const sealed = [
    { partner: 'NL-CPO', text: createSecrets(a).seal('one', cpo) },
    { partner: 'NL-EMS', text: createSecrets(b).seal('two', 'NL-EMS') },
  ];
  const keys = (secretKey: string | null, ...previous: string[]) =>
    hubKeys({ dataDir, adminToken: null, secretKey, secretKeyPrevious: previous }, quiet, sealed);
  const refused = (message: RegExp) => ({ name: 'ConfigError', message });
  await t.rejects(keys(null), refused(/^HUB_SECRET_KEY .* is not set, and there is no .*secret-key: .* 2 partners/));
  await t.rejects(keys(c), refused(/^HUB_SECRET_KEY .* is another than it was: .* 2 partners, NL-CPO first/));
  await t.rejects(keys(a), refused(/the token of NL-EMS; .*HUB_SECRET_KEY_PREVIOUS/), 'half of a rotation');
  await t.rejects(keys(null, a), refused(/the token of NL-EMS/));
  t.strictSame(readdirSync(dataDir), [], 'neither a key nor an admin token was made');
  for (const [secretKey, ...previous] of [
    [b, a],
    [c, a, b],
  ] as const) {
    const { secrets: both } = await keys(secretKey, ...previous);
    t.strictSame(
      sealed.map(({ text, partner }) => both.open(text, partner)),
      ['one', 'two'],
    );
  }
  t.strictSame(readdirSync(dataDir), ['admin-token'], 'a configured key makes no file');
  const { secrets: made } = await keys(null, a, b);
  t.match(readdirSync(dataDir), ['admin-token', 'secret-key'], 'with all previous keys at hand a new one is made');
  t.equal(made.isStale(sealed[1]?.text ?? '', 'NL-EMS'), true);
});

t.test('a secret that others can read is used, with a warning; an empty one stops the start', async (t) => {
  const dataDir = t.testdir({});
  const path = join(dataDir, 'admin-token');
  writeFileSync(path, 'made-by-hand-and-kept-safe\n');
  chmodSync(path, 0o644);
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => lines.push(line) });
  const config = { dataDir, adminToken: null, secretKey: 'given-secret-key', secretKeyPrevious: null };
  t.equal((await hubKeys(config, log)).adminToken, 'made-by-hand-and-kept-safe');
  t.match(JSON.parse(lines.join('')), { level: 'warn', path, mode: '644' });
  writeFileSync(path, '\n');
  await t.rejects(hubKeys(config, quiet), {
    message: `${path} is empty: expected the secret that was made at first start`,
  });
});

t.test('a token in a log line is masked', async (t) => {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => lines.push(line) });
  const token = 'S3CRET';
  log.info({ token, headers: { authorization: token }, req: { headers: { authorization: token } } }, 'a line');
  log.info({ body: { token }, party: { credentials: { token } }, a: { b: { c: { hubToken: token } } } }, 'another');
  log.info({ party: 'NL-CPO', token }, 'of plain values');
  t.equal(lines.length, 3);
  t.notMatch(lines.join(''), token);
  t.match(JSON.parse(lines[0] ?? ''), {
    level: 'info',
    msg: 'a line',
    token: '[secret]',
    time: /^\d{4}-\d\d-\d\dT.*Z$/,
  });
});

t.test('a line of plain values has the text that pino gives one with an object in it [LOG-1]', async (t) => {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => lines.push(line) }, () => '2026-01-02T03:04:05.678Z');
  const values = {
    text: 'a "b" \\ \n \u0001 é 😀 \ud800',
    long: 'x'.repeat(50),
    number: -1.5,
    none: null,
    missing: undefined,
  };
  const plain = { ...values, infinite: Number.NaN, isTrue: true };
  for (const level of ['debug', 'info', 'warn', 'error'] as const) {
    log[level](plain, 'said "so"\n');
    log[level]({ ...plain, object: {} }, 'said "so"\n');
    log[level]({}, 'nothing');
    log[level]({ object: {} }, 'nothing');
  }
  t.equal(lines.length, 12, 'debug is below the level');
  t.equal(lines[2], '{"level":"info","time":"2026-01-02T03:04:05.678Z","msg":"nothing"}\n');
  for (let at = 0; at < lines.length; at += 2) t.equal(lines[at], lines[at + 1]?.replace(',"object":{}', ''));
  log.warn({ party: 'NL-CPO', bytes: 2n ** 70n }, 'of a bigint');
  t.match(lines[12], '"party":"NL-CPO","bytes":1180591620717411303424,"msg":"of a bigint"');
});
