/**
 * The least that reading a store can cost: opens its database and takes every record, key and value as text, in bulk, in order of key.
 * Nothing is checked, parsed or kept. Prints seconds and seconds of CPU from opening to the last record, records and characters.
 */
import { join } from 'node:path';
import { Level } from 'level';

const [directory = ''] = process.argv.slice(2);
const begun = performance.now();
const cpuBefore = process.cpuUsage();
const db = new Level<string, string>(join(directory, 'db'));
await db.open({ createIfMissing: false });
const iterator = db.iterator({ highWaterMarkBytes: 1 << 20 });
let records = 0;
let characters = 0;
for (let chunk = await iterator.nextv(1000); chunk.length > 0; chunk = await iterator.nextv(1000)) {
  records += chunk.length;
  for (const [key, value] of chunk) characters += key.length + value.length;
}
await iterator.close();
const seconds = (performance.now() - begun) / 1000;
const { user, system } = process.cpuUsage(cpuBefore);
await db.close();
process.stdout.write(`${JSON.stringify({ seconds, cpuSeconds: (user + system) / 1e6, records, characters })}\n`);
