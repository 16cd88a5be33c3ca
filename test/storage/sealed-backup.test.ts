/**
 * Sealed backups: nobody reads one without the private key, and one that was changed anywhere is refused.
 */
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { newDataKey, privateKeyIn, publicKeyIn, unwrappedKey } from '../../storage/level/backup-keys.ts';
import { restoreBackup, verifyStore } from '../../storage/level/restore.ts';
import { filesBelow, openedFile, sealFile } from '../../storage/level/sealed-backup.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { backupKeysIn } from '../support/backup-keys.ts';
import { directoryFor } from '../support/directory.ts';
import { isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { append, event, row } from './support.ts';

const chunk = 256 * 1024;
const sealedChunk = chunk + 16;
const rest = async (): Promise<void> => {};

/** A file of that length, sealed as `name`. */
async function sealedFile(t: Test, length: number, name = 'store/db/1.ldb') {
  const directory = directoryFor(t);
  const [from, to] = [join(directory, 'plain'), join(directory, 'sealed')];
  const [content, dataKey] = [randomBytes(length), randomBytes(32)];
  writeFileSync(from, content);
  const digest = await sealFile(from, to, { name, dataKey, rest });
  return { to, name, content, dataKey, digest, sealed: readFileSync(to) };
}

async function contentOf(path: string, name: string, dataKey: Buffer): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const content of openedFile(path, name, dataKey)) chunks.push(content);
  return Buffer.concat(chunks);
}

t.test('a sealed file is unsealed to its content, of any length', async (t) => {
  for (const length of [0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk]) {
    const { to, name, content, dataKey, digest, sealed } = await sealedFile(t, length);
    t.ok((await contentOf(to, name, dataKey)).equals(content), `${length} bytes`);
    t.equal(digest, createHash('sha256').update(content).digest('hex'));
    t.equal(sealed.length, length + 16 * Math.max(1, Math.ceil(length / chunk)));
  }
});

t.test('[SEALED-BACKUP-4] a file that was changed, cut, lengthened, renamed or recombined does not open', async (t) => {
  const { to, name, dataKey, sealed } = await sealedFile(t, 2 * chunk + 100);
  const flipped = (at: number) => {
    const changed = Buffer.from(sealed);
    changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
    return changed;
  };
  const [first, second, last] = [0, 1, 2].map((n) => sealed.subarray(n * sealedChunk, (n + 1) * sealedChunk));
  const parts = (...of: (Buffer | undefined)[]) => Buffer.concat(of.flatMap((one) => one ?? []));
  const wrong: Record<string, Buffer> = {
    'the first bit': flipped(0),
    'a bit of a tag': flipped(sealedChunk - 1),
    'a bit in the middle': flipped(sealedChunk + 1000),
    'the last bit': flipped(sealed.length - 1),
    'its last chunk is gone': parts(first, second),
    'its first chunk is gone': parts(second, last),
    'two chunks changed places': parts(second, first, last),
    'a chunk is there twice': parts(first, first, second, last),
    'a byte less': sealed.subarray(0, -1),
    'a byte more': parts(sealed, Buffer.from([0])),
    'nothing is left': Buffer.alloc(0),
  };
  for (const [what, bytes] of Object.entries(wrong)) {
    writeFileSync(to, bytes);
    await t.rejects(contentOf(to, name, dataKey), { name: 'NotOpened', message: /damaged, or was changed/ }, what);
  }
  writeFileSync(to, sealed);
  await t.rejects(contentOf(to, 'store/db/2.ldb', dataKey), { name: 'NotOpened' }, 'another name');
  await t.rejects(contentOf(to, name, randomBytes(32)), { name: 'NotOpened' }, 'the data key of another backup');
});

t.test('[BACKUP-KEYS-2] the data key is recovered with the private key and the manifest only', async (t) => {
  const [keys, others] = ['keys', 'others'].map((name) => backupKeysIn(join(t.testdir({}), name)));
  if (!keys || !others) throw new Error('no keys');
  t.equal(keys.publicKey.fingerprint, keys.privateKey.fingerprint, 'both halves have one fingerprint');
  t.not(keys.publicKey.fingerprint, others.publicKey.fingerprint);
  const { dataKey, wrapped } = newDataKey(keys.publicKey, 'said');
  t.not(newDataKey(keys.publicKey, 'said').dataKey.toString('hex'), dataKey.toString('hex'), 'one a backup');
  t.ok(unwrappedKey(keys.privateKey, wrapped, 'said')?.equals(dataKey));
  t.equal(unwrappedKey(others.privateKey, wrapped, 'said'), null, 'another private key');
  t.equal(unwrappedKey(keys.privateKey, wrapped, 'Said'), null, 'another manifest');
  for (const field of ['ephemeral', 'wrapped'] as const) {
    const bytes = Buffer.from(wrapped[field], 'base64url');
    bytes.writeUInt8(bytes.readUInt8(3) ^ 1, 3);
    const changed = { ...wrapped, [field]: bytes.toString('base64url') };
    t.equal(unwrappedKey(keys.privateKey, changed, 'said'), null, field);
  }
  const zero = { ...wrapped, ephemeral: Buffer.alloc(32).toString('base64url') };
  t.equal(unwrappedKey(keys.privateKey, zero, 'said'), null, 'a point that has one shared secret for all');
});

t.test('an unusable key file is refused without showing its content', async (t) => {
  const rsa = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'secret' },
  });
  const { privatePath } = backupKeysIn(t.testdir({}));
  t.throws(() => publicKeyIn(readFileSync(privatePath, 'utf8')), { message: /must not be where the hub is/ });
  for (const text of ['', 'garbage', rsa.publicKey]) {
    t.throws(() => publicKeyIn(text), { message: 'expected an X25519 key in PEM form' });
  }
  t.throws(() => privateKeyIn('garbage'), { message: 'expected an X25519 key in PEM form' });
  t.throws(() => privateKeyIn(rsa.privateKey), { message: /it is encrypted/ });
});

const word = 'a-uid-that-nobody-may-read';

/** A store with something to hide, closed, and its sealed backup. */
async function sealedBackup(t: Test) {
  const place = directoryFor(t);
  const store = join(place, 'data', 'store');
  mkdirSync(store, { recursive: true });
  const keys = backupKeysIn(join(place, 'keys'));
  const [backup, staging] = [join(place, 'backup'), join(place, 'data', 'store.unsealed')];
  const sealing = { ...keys.publicKey, staging };
  const open = await openLevelStore({ directory: store, node: 'test', ballastBytes: 0, sealing });
  for (let i = 0; i < 20; i += 1) await append(open, { events: [event({ body: word })], puts: [row(`${word} ${i}`)] });
  const manifest = await open.backup(backup);
  await open.close();
  return { place, store, backup, staging, keys, manifest };
}

t.test(
  '[SEALED-BACKUP-1] a sealed backup reveals nothing, and is restored and verified with its key alone',
  async (t) => {
    const { place, store, backup, staging, keys, manifest } = await sealedBackup(t);
    t.notOk(existsSync(staging), 'the readable copy is gone');
    t.equal(manifest.sealed_for, keys.publicKey.fingerprint);
    const readable = (directory: string) =>
      readdirSync(directory, { recursive: true, withFileTypes: true })
        .filter((file) => file.isFile())
        .filter((file) => readFileSync(join(file.parentPath, file.name)).includes(word));
    t.not(readable(store).length, 0, 'the store itself has it');
    t.strictSame(readable(backup), []);
    const shown = JSON.parse(readFileSync(join(backup, 'manifest.json'), 'utf8')) as object;
    t.strictSame(Object.keys(shown), ['format', 'made_at', 'sealed_for', 'ephemeral', 'wrapped', 'checksum']);

    const target = join(place, 'restored', 'store');
    const how = { replace: false, now: new Date() };
    const { fingerprint } = keys.publicKey;
    await t.rejects(restoreBackup(backup, target, how), {
      message: new RegExp(`sealed for the key ${fingerprint}: --priv`),
    });
    const other = backupKeysIn(join(place, 'others')).privateKey;
    const isOther = {
      message: new RegExp(`sealed for the key ${fingerprint}, and the private key given is ${other.fingerprint}`),
    };
    await t.rejects(restoreBackup(backup, target, { ...how, key: other }), isOther);
    await t.rejects(verifyStore(backup), { message: /is sealed for the key/ });
    await t.rejects(
      verifyStore(backup, () => {}, other),
      isOther,
    );
    t.notOk(existsSync(join(place, 'restored')), 'a refusal leaves nothing');

    const { faults, manifest: verified, head } = await verifyStore(backup, () => {}, keys.privateKey);
    t.strictSame([faults, head, verified], [[], 20, manifest]);
    const restored = await restoreBackup(backup, target, { ...how, key: keys.privateKey });
    t.strictSame(restored.manifest, manifest);
    const again = await openLevelStore({ directory: target, node: 'test', ballastBytes: 0 });
    t.match(again.health(), { state: 'open', head: 20 });
    t.equal((await again.read({ after: 19, limit: 1 }))[0]?.body, word);
    await again.close();
  },
);

t.test('a sealed backup with a changed, missing or exchanged file is refused', async (t) => {
  const { place, backup, keys } = await sealedBackup(t);
  const names = await filesBelow(backup);
  t.ok(names.length >= 5, names.join(' '));
  const target = join(place, 'restored');
  const harmed = join(place, 'harmed');
  const isRefused = async (what: string, harm: () => void, message = /is damaged/) => {
    cpSync(backup, harmed, { recursive: true });
    harm();
    const how = { replace: false, now: new Date(), key: keys.privateKey };
    await t.rejects(restoreBackup(harmed, target, how), { message }, what);
    t.notOk(existsSync(target), `${what}: nothing is put in place`);
    rmSync(harmed, { recursive: true });
  };
  for (const name of names) {
    const bytes = readFileSync(join(backup, name));
    for (const at of isAtLength
      ? [0, 1, 2, 3, 4].map((n) => Math.floor((n * (bytes.length - 1)) / 4))
      : [bytes.length - 2]) {
      await isRefused(`${name}, byte ${at}`, () => {
        const changed = Buffer.from(bytes);
        changed.writeUInt8(changed.readUInt8(at) ^ 1, at);
        writeFileSync(join(harmed, name), changed);
      });
    }
  }
  for (const name of isAtLength ? names : names.filter((_, nth) => nth % 4 === 0)) {
    await isRefused(`${name} is gone`, () => rmSync(join(harmed, name)), /is damaged|is no backup/);
  }
  await isRefused('a file was added', () => writeFileSync(join(harmed, 'sealed', 'store', 'db', '000009.ldb'), ''));
  const [one = '', two = ''] = names.filter((name) => name.startsWith('sealed/store/db/'));
  await isRefused('two files changed places', () => {
    renameSync(join(harmed, one), join(harmed, 'aside'));
    renameSync(join(harmed, two), join(harmed, one));
    renameSync(join(harmed, 'aside'), join(harmed, two));
  });
  await isRefused('the manifest names another time', () => {
    const path = join(harmed, 'manifest.json');
    const { checksum: _, ...manifest } = JSON.parse(readFileSync(path, 'utf8')) as { checksum: string };
    const changed = { ...manifest, made_at: '2020-01-01T00:00:00.000Z' };
    const checksum = createHash('sha256').update(JSON.stringify(changed)).digest('hex');
    writeFileSync(path, JSON.stringify({ ...changed, checksum }));
  });
});

t.test('a sealed backup that fails leaves neither a readable copy nor a partial one', async (t) => {
  const place = directoryFor(t);
  const keys = backupKeysIn(join(place, 'keys'));
  const staging = join(place, 'data', 'store.unsealed');
  const seen: string[] = [];
  const onPoint = (name: string) => {
    if (!name.startsWith('backup')) return;
    seen.push(`${name} ${existsSync(staging) ? 'staged' : ''}`);
    if (name === 'backup.sealed' && seen.length < 3) throw new Error('the disk is full');
  };
  const sealing = { ...keys.publicKey, staging };
  const store = await openLevelStore({
    directory: join(place, 'data', 'store'),
    node: 'test',
    ballastBytes: 0,
    onPoint,
    sealing,
  });
  t.teardown(() => store.close());
  await append(store);
  await t.rejects(store.backup(join(place, 'backup')), { message: 'the disk is full' });
  t.strictSame(readdirSync(place).sort(), ['data', 'keys']);
  t.strictSame(readdirSync(join(place, 'data')), ['store']);
  mkdirSync(join(staging, 'store'), { recursive: true });
  writeFileSync(join(staging, 'store', 'of-a-kill'), word);
  t.equal(
    (await store.backup(join(place, 'backup'))).sealed_for,
    keys.publicKey.fingerprint,
    'what a kill left is removed',
  );
  t.notOk(existsSync(staging));
  t.strictSame(seen, [
    'backup.copied staged',
    'backup.sealed staged',
    'backup.copied staged',
    'backup.sealed staged',
    'backup.synced staged',
    'backup.named staged',
  ]);
});
