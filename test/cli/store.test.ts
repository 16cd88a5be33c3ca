/**
 * `ocpi-hub store` as operators use it, and the drill: a hub under load is backed up, killed, and goes on elsewhere from its backup.
 * [contract, Commands]
 */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Level } from 'level';
import { freePort } from '../../src/sandbox/free-port.ts';
import { eventKey, rowKey } from '../../storage/keys.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { mounted, unmount } from '../faults/full-disk.ts';
import { append, event, row } from '../storage/support.ts';
import { backupKeysIn } from '../support/backup-keys.ts';
import { sessionBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, secretKey } from '../support/hub-in-process.ts';
import { itemsOf, quiet } from '../support/observed.ts';
import { admin, eventually, plainPartner } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength, someOf } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

const run = (words: readonly string[], env: Record<string, string> = {}) => runCommand(['store', ...words], env);

/** A data directory with 50 events, a row and a dead letter, closed. */
async function dataDir(t: Test): Promise<string> {
  const directory = join(directoryFor(t), 'data');
  const store = await openLevelStore({ directory: join(directory, 'store'), node: 'test', ballastBytes: 0 });
  for (let i = 0; i < 50; i += 1) await append(store, { events: [event({ to: ['A'] })], puts: [row(`${i % 7}`)] });
  const fence = store.held();
  if (fence === null) throw new Error('no fence');
  await store.settle(fence, [{ dest: 'A', seq: 3, state: 'DEAD', data: null }], []);
  await store.close();
  return directory;
}

async function damage(directory: string, key: string): Promise<void> {
  const db = new Level<string, string>(join(directory, 'store', 'db'));
  await db.open();
  const value = (await db.get(key)) ?? '';
  await db.put(key, `${value.slice(0, -1)}${value.endsWith('0') ? '1' : '0'}`);
  await db.close();
}

t.test('store verify prints what it read, lost and repaired, and exits with 0 only for a sound store', async (t) => {
  const directory = await dataDir(t);
  const sound = await run(['verify', '--data-dir', directory]);
  t.equal(sound.code, 0, sound.err);
  t.match(sound.out, /events {7}50 read, the last is 50\nrows {9}7\ndeliveries {3}1 open, 0 delivered.*\n.*\nsound/);

  await damage(directory, rowKey({ kind: 'sessions', owner: 'NL-TNM', id: '3' }));
  const repairable = await run(['verify', '--data-dir', directory]);
  t.equal(repairable.code, 1);
  t.match(
    repairable.out,
    /to repair {4}the row sessions NL-TNM\/3 is damaged or missing: it is made again from the log/,
  );
  t.match(repairable.err, /is repaired when the hub starts/);

  for (const seq of [20, 21, 40]) await damage(directory, eventKey(seq));
  const lost = await run(['verify', '--data-dir', directory, '--json']);
  t.equal(lost.code, 1);
  const report = JSON.parse(lost.out) as { faults: string[]; events: number };
  t.strictSame(report.faults, ['the log has lost events 20 to 21, event 40'], 'with exact ranges');
  t.match(lost.err, /only a backup has what it lost/);
  t.match((await run(['verify', '--data-dir', directory])).out, /lost {9}the log has lost events 20 to 21, event 40/);
  const refused = await run(['backup', join(directory, '..', 'backup'), '--data-dir', directory]);
  t.equal(refused.code, 1);
  t.match(refused.err, /a damaged store is not backed up: the log has lost/);
  t.notOk(readdirSync(join(directory, '..')).some((name) => name.startsWith('backup')));
});

t.test('store verify, backup and restore refuse wrong usage, missing directories and those in use', async (t) => {
  const directory = await dataDir(t);
  t.equal((await run(['backup'])).code, 2, 'no directory is named');
  t.equal((await run(['verfy'])).code, 2);
  const none = await run(['verify', join(directory, 'nowhere')]);
  t.match([none.code, none.err], [1, /^ocpi-hub: .* has no store\n$/]);
  t.match(await run(['restore', join(directory, 'nowhere')]), { code: 1, err: /is no backup/ });
  const store = await openLevelStore({ directory: join(directory, 'store'), node: 'test', ballastBytes: 0 });
  t.match(await run(['verify', '--data-dir', directory]), { code: 1, err: /is in use by another process/ });
  await store.close();
  const backup = join(directory, '..', 'backup');
  t.match(await run(['backup', backup, '--data-dir', directory]), {
    code: 0,
    out: /up to event 50: \d+ records, \d+ bytes, verified/,
  });
  const again = await openLevelStore({ directory: join(directory, 'store'), node: 'test', ballastBytes: 0 });
  t.match(await run(['restore', backup, '--data-dir', directory, '--replace']), { code: 1, err: /in use/ });
  await again.close();
  t.match(await run(['restore', backup, '--data-dir', directory]), { code: 1, err: /is not empty/ });
});

t.test('store backup refuses a hub that does not use the directory of --data-dir', async (t) => {
  const place = directoryFor(t);
  const data = join(place, 'data');
  const [hub, other] = [await hubFor(t, {}, {}, data), await hubFor(t)];
  const backup = (name: string, words: readonly string[], env: Record<string, string>) =>
    run(['backup', join(place, name), '--data-dir', data, ...words], env);
  const elsewhere = { HUB_URL: other.url, HUB_ADMIN_TOKEN: other.adminToken };
  const refused = await backup('a', [], elsewhere);
  t.match(refused, { code: 2, err: `the one at ${other.url} does not take the admin-token there: --url names` });
  t.notOk(existsSync(join(place, 'a')), 'and nothing is written');
  t.match(await backup('b', ['--url', other.url], elsewhere), { code: 0 }, 'which is done where it is said');
  t.match(await backup('c', [], { HUB_URL: hub.url }), { code: 0, out: /the running hub's store/ });
  rmSync(join(data, 'admin-token'));
  const unknown = await backup('d', [], { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken });
  t.match(unknown, { code: 2, err: `no admin-token there tells whether the one at ${hub.url} does: --url names` });
});

t.test('store backup refuses a target inside the data directory, also behind a symbolic link', async (t) => {
  const directory = await dataDir(t);
  const root = join(directory, '..');
  const [link, inner] = [join(root, 'link'), join(root, 'inner')];
  symlinkSync(directory, link);
  mkdirSync(join(directory, 'place'));
  symlinkSync(join(directory, 'place'), inner);
  for (const [place, from] of someOf([
    [join(link, 'backup'), directory],
    [join(directory, 'backup'), directory],
    [join(directory, 'backup'), link],
    [inner, directory],
  ] as const)) {
    t.match(await run(['backup', place, '--data-dir', from]), { code: 1, err: /is inside the data directory/ }, place);
  }
  t.strictSame(readdirSync(directory).sort(), ['place', 'store']);
  symlinkSync(root, join(directory, 'out'));
  const outside = await run(['backup', join(directory, 'out', 'backup'), '--data-dir', directory]);
  t.equal(outside.code, 0, outside.err);
});

t.test(
  'store verify says that a directory without a manifest, such as an interrupted copy, is no backup',
  async (t) => {
    const directory = await dataDir(t);
    const copy = join(directory, '..', 'backup.partial');
    cpSync(directory, copy, { recursive: true });
    t.match(await run(['verify', copy]), { code: 0, out: /sound/, err: /no manifest\.json: .*store restore/ });
    t.match(await run(['verify', '--data-dir', copy]), { code: 0, err: '' }, 'a data directory needs none');
  },
);

t.test(
  '[CLI-STORE-1] root is refused a store of another user, and leaves no file there',
  { skip: process.getuid?.() !== 0 && 'only for root' },
  async (t) => {
    const directory = await dataDir(t);
    const place = join(directory, '..');
    const backup = join(place, 'backup');
    t.match(await run(['backup', backup, '--data-dir', directory]), { code: 0 }, 'its own one is opened');
    const paths = () =>
      [directory, backup].flatMap((at) => [
        at,
        ...readdirSync(at, { recursive: true, encoding: 'utf8' }).map((name) => join(at, name)),
      ]);
    for (const path of paths()) chownSync(path, 1234, 4321);
    const before = paths();
    for (const words of [
      ['verify', '--data-dir', directory],
      ['verify', backup],
      ['backup', join(place, 'second'), '--data-dir', directory],
      ['restore', backup, '--data-dir', directory, '--replace'],
      ['restore', backup, '--data-dir', join(directory, 'new')],
      ['copy', '--to', 'postgres://127.0.0.1:9/none', '--data-dir', directory],
    ]) {
      t.match(await run(words), { code: 2, err: /belongs to user 1234, .*sudo -u '#1234' ocpi-hub/ }, words.join(' '));
    }
    t.strictSame(paths(), before);
    t.strictSame(new Set(paths().map((path) => statSync(path).uid)), new Set([1234]));
    t.notOk(existsSync(join(place, 'second')));
  },
);

t.test('a store on a file system that cannot hold it is not called damaged', async (t) => {
  const directory = await dataDir(t);
  const refused = refusing(t, directory);
  if (refused === null) {
    t.pass('root can mount nothing here');
    return;
  }
  const backup = join(directory, '..', 'backup');
  for (const words of [['verify'], ['backup', backup]]) {
    const told = await run([...words, '--data-dir', refused]);
    t.match(
      told,
      { code: 1, out: '', err: /could not be opened: .*; nothing is known about its soundness\n$/ },
      told.err,
    );
    t.notMatch(told.err, /damaged|restore/);
  }
});

/** A data directory that this user cannot open: without permission, or, for root, on a read-only file system. */
function refusing(t: Test, directory: string): string | null {
  if (process.getuid?.() !== 0) {
    chmodSync(join(directory, 'store', 'db'), 0o500);
    t.teardown(() => chmodSync(join(directory, 'store', 'db'), 0o700));
    return directory;
  }
  const disk = mounted();
  if (disk === null) return null;
  t.teardown(() => unmount(disk));
  cpSync(directory, join(disk, 'data'), { recursive: true });
  const { status } = spawnSync('mount', ['-o', 'remount,ro', disk]);
  return status === 0 ? join(disk, 'data') : null;
}

t.test('store restore creates the store from a complete backup, and moves the former one aside', async (t) => {
  const directory = await dataDir(t);
  const backup = join(directory, '..', 'backup');
  // The hub that other verbs of the shell speak to is not the one whose store is named.
  const elsewhere = { HUB_URL: 'http://127.0.0.1:9' };
  t.equal((await run(['backup', backup, '--data-dir', directory], elsewhere)).code, 0);
  t.match(await run(['verify', backup]), { code: 0, out: /^backup of 2/ });
  const fresh = join(directory, '..', 'fresh');
  const restored = await run(['restore', backup, '--data-dir', fresh]);
  t.match([restored.code, restored.out], [0, /up to event 50: .*verified\n.*has no secret-key/]);
  t.equal((await run(['verify', '--data-dir', fresh])).code, 0);
  writeFileSync(join(directory, 'secret-key'), 'kept');
  const replaced = await run(['restore', backup, '--data-dir', directory, '--replace']);
  t.match([replaced.code, replaced.out], [0, /what was there is now .*store\.before-/]);
  t.notMatch(replaced.out, /secret-key/);
  t.match(readdirSync(directory).sort(), ['secret-key', 'store', /^store\.before-/]);

  for (const harm of ['manifest', 'database'] as const) {
    const harmed = join(directory, '..', `harmed-${harm}`);
    cpSync(backup, harmed, { recursive: true });
    if (harm === 'manifest') {
      const text = readFileSync(join(harmed, 'manifest.json'), 'utf8');
      writeFileSync(join(harmed, 'manifest.json'), text.replace('"events": 50', '"events": 49'));
    } else await damage(harmed, eventKey(7));
    const target = join(directory, '..', `from-${harm}`);
    t.match(await run(['restore', harmed, '--data-dir', target]), { code: 1, err: /damaged|lost event 7/ });
    t.notOk(existsSync(join(target, 'store')), 'nothing is put in place');
  }
});

t.test('a sealed backup is made with a public key, and restored with the private key alone', async (t) => {
  const directory = await dataDir(t);
  const [backup, fresh] = [join(directory, '..', 'backup'), join(directory, '..', 'fresh')];
  const { publicPath, privatePath, publicKey } = backupKeysIn(join(directory, '..', 'keys'));
  const made = await run(['backup', backup, '--data-dir', directory, '--backup-public-key', publicPath]);
  t.equal(made.code, 0, made.err);
  t.match(made.out, `verified\nsealed for the key ${publicKey.fingerprint}\n`);
  t.strictSame(readdirSync(backup).sort(), ['manifest.json', 'sealed']);
  const closed = await run(['restore', backup, '--data-dir', fresh]);
  t.match(closed, {
    code: 1,
    err: /is sealed for the key [0-9a-f]{64}: --private-key names a file with its private key/,
  });
  const opened = await run(['restore', backup, '--data-dir', fresh, '--private-key', privatePath]);
  t.match(opened, { code: 0, out: /up to event 50: .*verified/ }, opened.err);
});

t.test('a wrong key of a sealed backup is refused in one sentence that says what is wrong', atLength, async (t) => {
  const directory = await dataDir(t);
  const backup = join(directory, '..', 'backup');
  const keys = backupKeysIn(join(directory, '..', 'keys'));
  const others = backupKeysIn(join(directory, '..', 'others'));
  const from = ['--data-dir', directory];
  const swapped = await run(['backup', backup, ...from], { HUB_BACKUP_PUBLIC_KEY: keys.privatePath });
  t.match(swapped, { code: 1, err: /HUB_BACKUP_PUBLIC_KEY .* is not usable: it holds a private key/ });
  t.equal((await run(['backup', backup, ...from], { HUB_BACKUP_PUBLIC_KEY: keys.publicPath })).code, 0);
  t.match(await run(['verify', backup]), { code: 1, err: /--private-key names/ });
  const wrong = await run(['verify', backup, '--private-key', others.privatePath]);
  t.match(wrong, { code: 1, err: /is sealed for the key .*, and the private key given is/ });
  const none = await run(['verify', backup, '--private-key', join(directory, 'none.pem')]);
  t.match(none, { code: 1, err: /--private-key is .* not usable: ENOENT/ });
  const right = await run(['verify', backup, '--private-key', keys.privatePath]);
  t.match(right, { code: 0, out: /\nsealed {7}for the key [0-9a-f]{64}\n(.|\n)*sound/ }, right.err);
});

t.test('a hub with a public key seals its backups, says so, and refuses to start with an unusable key', async (t) => {
  const place = directoryFor(t);
  const [data, backup, unsealed] = [join(place, 'data'), join(place, 'backup'), join(place, 'data', 'store.unsealed')];
  const keys = backupKeysIn(join(place, 'keys'));
  const refusal = { name: 'ConfigError', message: /HUB_BACKUP_PUBLIC_KEY .* must not be where the hub is/ };
  await t.rejects(hubFor(t, { HUB_BACKUP_PUBLIC_KEY: keys.privatePath }, {}, data), refusal);
  mkdirSync(join(unsealed, 'store'), { recursive: true, mode: 0o700 });
  const hub = await hubFor(t, { HUB_BACKUP_PUBLIC_KEY: keys.publicPath }, {}, data);
  t.notOk(existsSync(unsealed), 'what a kill left readable is removed at the start');
  const { id } = await admin(hub, 'POST', '/backup', { directory: backup });
  const view = () => admin(hub, 'GET', `/backups/${String(id)}`);
  await eventually('it is made', async () => (await view()).state === 'DONE');
  t.match(await view(), { sealed_for: keys.publicKey.fingerprint, error: null });
  t.strictSame(readdirSync(backup).sort(), ['manifest.json', 'sealed']);
  t.notOk(existsSync(unsealed));
});

t.test('POST /backup refuses impossible requests at once, in a sentence, and its end is in the log', async (t) => {
  const place = directoryFor(t);
  mkdirSync(join(place, 'full', 'of something'), { recursive: true });
  const data = join(place, 'data');
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: 'viewer-token-of-the-store' }, {}, data);
  for (const [directory, why] of [
    ['relative', /not an absolute path/],
    [join(place, 'full'), /is not empty/],
    [join(data, 'backup'), /inside the data directory/],
    [join(place, 'no', 'parent'), /no is no directory/],
    ['/proc/backup', /./],
  ] as const) {
    await t.rejects(admin(hub, 'POST', '/backup', { directory }), { message: why });
  }
  t.strictSame(await itemsOf(hub, '/events?type=backup'), []);
  await t.rejects(
    admin({ ...hub, adminToken: 'viewer-token-of-the-store' }, 'POST', '/backup', { directory: join(place, 'b') }),
    {
      message: /403/,
    },
  );
  const begun = await admin(hub, 'POST', '/backup', { directory: join(place, 'b') });
  t.match(begun, { state: /RUNNING|DONE/, directory: join(place, 'b') });
  await eventually(
    'it is done',
    async () => (await admin(hub, 'GET', `/backups/${String(begun.id)}`)).state === 'DONE',
  );
  await eventually('its end is recorded', async () => (await itemsOf(hub, '/events?type=backup.ended')).length === 1);
  t.match(await itemsOf(hub, '/events?type=backup'), [
    { type: 'backup.started', data: { state: 'RUNNING' } },
    { type: 'backup.ended', data: { state: 'DONE' } },
  ]);
  t.match(await run(['verify', join(place, 'b')]), { code: 0 });
  const secrets = [secretKey, readFileSync(join(data, 'admin-token'), 'utf8').trim()];
  const files = readdirSync(join(place, 'b'), { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
  for (const file of files) {
    const text = readFileSync(join(file.parentPath, file.name), 'latin1');
    t.notOk(
      secrets.some((secret) => text.includes(secret)),
      `no secret is in ${file.name}`,
    );
  }
});

t.test(
  'drill: backup under load, kill, restore elsewhere: everything acknowledged is there, everything owed is sent',
  atLength,
  async (t) => {
    const place = directoryFor(t);
    const [data, elsewhere, backup] = [join(place, 'data'), join(place, 'elsewhere'), join(place, 'backup')];
    const port = await freePort();
    const env = {
      HUB_LOG_LEVEL: 'fatal',
      HUB_RATE_OTHER_PER_MIN: '1000000',
      HUB_RETRY_SCHEDULE_S: '0.2',
      HUB_CIRCUIT_OPEN_MS: '200',
    };
    const hub = await startChildHub({ dataDir: data, port, env });
    t.teardown(() => hub.kill());
    let isUp = false;
    const delivered = new Set<string>();
    const emsp = await plainPartner({
      ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
      answer: ({ path }) => {
        if (!isUp) return { status: 503, text: '' };
        delivered.add(path.split('/').at(-1) ?? '');
        return {};
      },
    });
    const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    for (const partner of [emsp, cpo]) {
      t.teardown(() => partner.close());
      await partner.register(hub);
    }
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });

    const acknowledged: string[] = [];
    let isLoaded = true;
    const load = async (lane: number) => {
      for (let i = 0; isLoaded; i += 1) {
        const id = `L${lane}N${i}`;
        const answer = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id)).catch(() => null);
        if (answer?.json.status_code === 1000) acknowledged.push(id);
      }
    };
    const loading = Promise.all([0, 1, 2, 3, 4, 5].map(load));
    await eventually('there is something to back up', () => acknowledged.length > 100);
    const before = [...acknowledged];
    const made = await run(['backup', backup, '--data-dir', data], {
      HUB_URL: hub.url,
      HUB_ADMIN_TOKEN: hub.adminToken,
    });
    t.equal(made.code, 0, made.err);
    t.match(made.out, /holds the running hub's store up to event \d+/);
    const during = acknowledged.length - before.length;
    t.ok(during > 0, `${during} pushes were acknowledged while it was made`);
    await hub.kill();
    isLoaded = false;
    await loading;

    mkdirSync(elsewhere, { mode: 0o700 });
    const restored = await run(['restore', backup, '--data-dir', elsewhere]);
    t.equal(restored.code, 0, restored.err);
    for (const name of ['secret-key', 'admin-token']) copyFileSync(join(data, name), join(elsewhere, name));
    rmSync(data, { recursive: true });
    const second = await startChildHub({ dataDir: elsewhere, port, env });
    t.teardown(() => second.kill());
    t.match(await admin(second, 'GET', '/status'), { store: { state: 'open', reason: null } });
    const there = await Promise.all(before.map((id) => cpo.call('GET', `/2.2.1/sessions/NL/CPO/${id}`)));
    t.strictSame(
      before.filter((_, i) => there[i]?.json.status_code !== 1000),
      [],
      `all ${before.length} are there`,
    );
    isUp = true;
    await quiet(second);
    t.strictSame(
      before.filter((id) => !delivered.has(id)),
      [],
      'and all were delivered',
    );
    t.equal((await run(['verify', backup])).code, 0, 'the backup is as good as before');
  },
);
