/**
 * Tokens, sealed texts and the files that keep the hub's own secrets.
 */
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { createLog } from '../src/log.ts';
import { createSecrets, hubKeys, SealError } from '../src/secrets.ts';

const secrets = createSecrets('a key of the tests, long enough');

t.test('a token is 256 random bits in base64url, accepted by any OCPI partner [D8]', async (t) => {
  const tokens = Array.from({ length: 100 }, secrets.newToken);
  for (const token of tokens) t.match(token, /^[A-Za-z0-9_-]{43}$/);
  t.equal(new Set(tokens).size, tokens.length, 'no two are the same');
});

t.test('a digest is SHA-256 in base64url', async (t) => {
  t.equal(secrets.digest('abc'), 'ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0');
});

t.test('an id is a UUID of its own each time', async (t) => {
  const ids = Array.from({ length: 100 }, secrets.newId);
  for (const id of ids) t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  t.equal(new Set(ids).size, ids.length);
});

t.test('what was sealed opens under the same key, also after a restart (K1)', async (t) => {
  for (const text of ['', 'token', 'ä€😀', 'x'.repeat(10_000)]) {
    const sealed = secrets.seal(text);
    t.equal(createSecrets('a key of the tests, long enough').open(sealed), text);
    t.not(sealed, secrets.seal(text), 'the same text is never sealed alike');
    if (text) t.notMatch(sealed, text);
  }
});

t.test('another key, or a single changed character, refuses without showing the content (K3)', async (t) => {
  const sealed = secrets.seal('partner token');
  const refuses = (what: string, open: () => string) => {
    try {
      t.fail(`${what} opened as ${open()}`);
    } catch (error) {
      t.type(error, SealError, what);
      t.notMatch((error as Error).message, /partner token/, what);
      t.notMatch((error as Error).message, sealed.slice(3, 20), what);
    }
  };
  refuses('another key', () => createSecrets('another key of the tests').open(sealed));
  const [form, content = ''] = sealed.split('.');
  for (let at = 0; at < content.length - 1; at++) {
    const changed = content.slice(0, at) + (content[at] === 'A' ? 'B' : 'A') + content.slice(at + 1);
    refuses(`character ${at}`, () => secrets.open(`${form}.${changed}`));
  }
  for (const text of ['', 'v1', 'v1.', 'v1.AAAA', 'v2.AAAA', `${sealed}.x`, 'partner token']) {
    refuses(JSON.stringify(text), () => secrets.open(text));
  }
});

const quiet = createLog('silent');

t.test('the admin token and the secret key are made once and kept for their owner alone (K2)', async (t) => {
  const dataDir = join(t.testdir({}), 'deep', 'data');
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => lines.push(line) });
  const config = { dataDir, adminToken: null, secretKey: null };
  const made = await hubKeys(config, log);
  t.strictSame(readdirSync(dataDir).sort(), ['admin-token', 'secret-key'], 'nothing is left beside them');
  for (const name of ['admin-token', 'secret-key']) {
    t.equal(statSync(join(dataDir, name)).mode & 0o777, 0o600, `mode of ${name}`);
    t.ok(
      lines.some((line) => line.includes(join(dataDir, name))),
      `the path of ${name} is logged`,
    );
  }
  t.equal(readFileSync(join(dataDir, 'admin-token'), 'utf8').trim(), made.adminToken);
  for (const value of Object.values(made)) t.notOk(lines.join('').includes(value), 'no value is logged');
  t.strictSame(await hubKeys(config, quiet), made, 'the next start finds them');
});

t.test('configured secrets are used as they are, and no file is made', async (t) => {
  const dataDir = t.testdir({});
  const given = { adminToken: 'given-admin', secretKey: 'given-secret-key' };
  t.strictSame(await hubKeys({ dataDir, ...given }, quiet), given);
  t.strictSame(readdirSync(dataDir), []);
});

t.test('a secret that others can read is used, with a warning; an empty one stops the start', async (t) => {
  const dataDir = t.testdir({});
  const path = join(dataDir, 'admin-token');
  writeFileSync(path, 'by-hand\n');
  chmodSync(path, 0o644);
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => lines.push(line) });
  const config = { dataDir, adminToken: null, secretKey: 'given-secret-key' };
  t.equal((await hubKeys(config, log)).adminToken, 'by-hand');
  t.match(JSON.parse(lines.join('')), { level: 'warn', path, mode: '644' });
  writeFileSync(path, '\n');
  await t.rejects(hubKeys(config, quiet), {
    message: `${path} is empty: expected the secret that was made at first start`,
  });
});

t.test('a token that slips into a log line does not show', async (t) => {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => lines.push(line) });
  const token = 'S3CRET';
  log.info({ token, headers: { authorization: token }, req: { headers: { authorization: token } } }, 'a line');
  log.info({ body: { token }, party: { credentials: { token } }, a: { b: { c: { hubToken: token } } } }, 'another');
  t.equal(lines.length, 2);
  t.notMatch(lines.join(''), token);
  t.match(JSON.parse(lines[0] ?? ''), {
    level: 'info',
    msg: 'a line',
    token: '[secret]',
    time: /^\d{4}-\d\d-\d\dT.*Z$/,
  });
});
