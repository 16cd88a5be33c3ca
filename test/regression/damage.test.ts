/** What the fault campaign found once, each shown to stay mended. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Level } from 'level';
import { loadConfig } from '../../src/config/config.ts';
import { startHub } from '../../src/main.ts';
import { eventKey, seqOf } from '../../storage/keys.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { sessionBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { ocpi } from '../support/ocpi-call.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

const path = '/2.2.1/sessions/NL/CPO/S1';
const configOf = (dataDir: string) =>
  loadConfig({ env: { HUB_PORT: '0', HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' }, flags: {} });

t.test(
  'a hub whose log has lost events gives partners no answer that may be outdated; operators see why',
  async (t) => {
    const dataDir = directoryFor(t);
    const hub = await hubFor(t, {}, {}, dataDir);
    const { cpo } = await routedPair(t, hub);
    await cpo.call('PUT', path, sessionBody('S1', { kwh: 1 }));
    await hub.close();
    const db = new Level<string, string>(join(dataDir, 'store', 'db'));
    const [key = ''] = await db.keys({ gt: eventKey(0), lt: 'f', reverse: true, limit: 1 }).all();
    const last = seqOf(key);
    await db.del(key);
    await db.close();

    const again = await hubFor(t, {}, {}, dataDir);
    const { store } = await admin(again, 'GET', '/status');
    t.match(store, { state: 'quarantined', reason: `the log has lost events ${last} to ${last}` });
    const answer = await ocpi(again, 'GET', path, { token: cpo.hubToken });
    t.match([answer.status, answer.json.status_code], [503, 3000]);
    t.ok(answer.headers['retry-after'], 'it says when to come again');
    const portal = await callOnce('GET', `${again.url}/portal/v1/caller`);
    t.match(
      [portal.status, portal.headers.get('retry-after')],
      [503, answer.headers['retry-after']],
      'in its portal, too',
    );
    const authorization = `Token ${cpo.hubToken}`;
    const encoded = await callOnce('GET', `${again.url}/%6fcpi${path}`, undefined, { authorization });
    t.match(
      [encoded.status, JSON.parse(encoded.text)],
      [503, { status_code: 3000 }],
      'whatever the path is written like',
    );
  },
);

t.test('a truncated or garbled secret stops the start, with the name of its file', async (t) => {
  const dataDir = directoryFor(t);
  await (await startHub(configOf(dataDir))).close();
  const file = join(dataDir, 'admin-token');
  const sound = readFileSync(file);
  for (const spoilt of [sound.subarray(0, 9), Buffer.from(sound).fill(0xff, 5, 6)]) {
    writeFileSync(file, spoilt, { mode: 0o600 });
    await t.rejects(startHub(configOf(dataDir)), { message: `${file} is damaged: expected 24 to 1024 printable` });
  }
});

t.test('a database that cannot be opened is named with the reason', async (t) => {
  const directory = directoryFor(t);
  const open = () => openLevelStore({ directory, node: 'test', ballastBytes: 0 });
  await (await open()).close();
  const current = join(directory, 'db', 'CURRENT');
  const manifest = join(directory, 'db', readFileSync(current, 'latin1').trim());
  const bytes = readFileSync(manifest);
  bytes[10] = (bytes[10] ?? 0) ^ 1;
  writeFileSync(manifest, bytes);
  await t.rejects(open(), { message: /db cannot be opened: Corruption: / });
  writeFileSync(current, Buffer.alloc(16));
  await t.rejects(open(), { message: /db has a CURRENT file that names no MANIFEST: it is damaged/ });
  rmSync(current);
  await t.rejects(open(), { message: /without its CURRENT file/ });
});

t.test('a flipped bit in the filter of a table hides nothing', atLength, async (t) => {
  const data = directoryFor(t);
  const directory = join(data, 'store');
  const ids = Array.from({ length: 300 }, (_, n) => `R${n}`);
  const filled = await openLevelStore({ directory, node: 'test', ballastBytes: 0 });
  const fence = filled.held();
  if (!fence) throw new Error('no fence');
  for (const id of ids) {
    const put = { kind: 'things', owner: 'NL-CPO', id, shelf: 'NL-CPO', upd: '2026-01-02', data: { id }, body: null };
    const event = { stream: id, type: 'thing.put', at: '2026-01-02T00:00:00.000Z', party: null, correlationId: null };
    await filled.append({ fence, idem: id, events: [{ ...event, to: [], data: {}, body: null }], puts: [put] });
  }
  await filled.close();
  // Opening makes tables of the log; the filter of a table stands behind its blocks, unguarded by any checksum that is read.
  await (await openLevelStore({ directory, node: 'test', ballastBytes: 0 })).close();
  const tables = readdirSync(join(directory, 'db')).filter((name) => name.endsWith('.ldb'));
  t.not(tables.length, 0, 'there are tables');
  for (const table of tables) emptyFilter(join(directory, 'db', table));

  const store = await openLevelStore({ directory, node: 'test', ballastBytes: 0 });
  t.teardown(() => store.close());
  t.equal(store.health().state, 'open', store.health().reason ?? 'sound');
  for (const id of ids) {
    const row = await store.get({ kind: 'things', owner: 'NL-CPO', id });
    if (row?.id !== id) t.fail(`${id} is hidden`);
  }
  const listed = await store.list({ kind: 'things', shelves: ['NL-CPO'], offset: 0, limit: 1000 });
  t.equal(listed.rows.length, ids.length, 'nor on a list');
  t.same((await store.event(1))?.stream, 'R0', 'nor in the log');
});

/** Clears every bit of a table's filter: by it, nothing stands in the table. */
function emptyFilter(path: string): void {
  const bytes = readFileSync(path);
  const name = Buffer.from('filter.leveldb.BuiltinBloomFilter2');
  const at = bytes.lastIndexOf(name);
  if (at < 0) throw new Error(`${path} has no filter`);
  // The entry of the metaindex: the name, then the handle of the filter block as two varints.
  let cursor = at + name.length;
  const varint = () => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[cursor++] ?? 0;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const [offset, size] = [varint(), varint()];
  // The last bytes are offsets of the single filters, each of which ends with its number of probes.
  const arrayAt = bytes.readUInt32LE(offset + size - 5);
  const starts = [];
  for (let entry = arrayAt; entry <= size - 5; entry += 4) starts.push(bytes.readUInt32LE(offset + entry));
  for (let one = 0; one + 1 < starts.length; one++) {
    const [from = 0, to = 0] = [starts[one], starts[one + 1]];
    if (to - from > 1) bytes.fill(0, offset + from, offset + to - 1);
  }
  writeFileSync(path, bytes);
}
