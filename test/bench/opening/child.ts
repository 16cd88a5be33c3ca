/**
 * What opening a store costs, by the way that is named second. `store`: as the hub opens it, and nothing else; prints seconds of CPU.
 * `bare`: its database is opened, and what memory is made of is taken, key and value as text: rows, open deliveries, floors, timers, the
 * store's own records and the last 65,536 events; nothing is checked, parsed or kept.
 */
import { join } from 'node:path';
import { Level } from 'level';
import * as keys from '../../../storage/keys.ts';
import { openLevelStore } from '../../../storage/level/store.ts';

const recentEvents = 65_536;
const [directory = '', way] = process.argv.slice(2);
if (way === 'store') {
  const store = await openLevelStore({ directory, node: 'bench' });
  if (store.health().verifying === undefined) throw new Error('it was verified whole');
  await store.close();
  const { user, system } = process.cpuUsage();
  process.stdout.write(`${(user + system) / 1e6}`);
  process.exit();
}
const begun = performance.now();
const db = new Level<string, string>(join(directory, 'db'), { writeBufferSize: 16 << 20, cacheSize: 32 << 20 });
await db.open({ createIfMissing: false });
const engineS = (performance.now() - begun) / 1000;
const [last = ''] = await db.keys({ ...keys.under('e/'), reverse: true, limit: 1 }).all();
const end = keys.between(keys.eventKey, keys.seqOf(last) - recentEvents + 1, keys.seqOf(last));
for (const range of [end, ...['f/', 'm/', 'o/', 'p/', 't/'].map(keys.under)]) {
  const iterator = db.iterator({ ...range, highWaterMarkBytes: 1 << 20 });
  while ((await iterator.nextv(1000)).length > 0);
  await iterator.close();
}
const memoryS = (performance.now() - begun) / 1000 - engineS;
await db.close();
process.stdout.write(JSON.stringify({ engineS, memoryS }));
