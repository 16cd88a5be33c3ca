/**
 * A node on a PostgreSQL store in a process of its own, which a test may stop or kill. While it holds the log several writers append, one
 * commit after another each; says what it gains, loses and what was acknowledged, a line each. Beats when its input says
 * anything, and ends when that does.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { openPostgresStore } from '../../../storage/postgres/store.ts';
import { isAtLength } from '../../support/share.ts';
import { event } from '../support.ts';

const [url = '', node = '', ttlMs = '1500'] = process.argv.slice(2);
/** Resolves when it has left this process. */
const say = (line: string): Promise<void> =>
  new Promise((resolve) => process.stdout.write(`${line}\n`, () => resolve()));
const WRITERS = 4;
const pauseMs = isAtLength ? 10 : 40;

let ending = false;
const store = await openPostgresStore({
  ...{ url, node, sole: false, ttlMs: Number(ttlMs) },
  gained: ({ token }) => void say(`gained ${token}`),
  lost: () => void say('lost'),
});
await say('ready');

let count = 0;
const writer = async (): Promise<void> => {
  while (!ending) {
    const fence = store.held();
    const stream = `${node} ${++count}`;
    try {
      if (fence === null) await sleep(20);
      else {
        const { last } = await store.append({ fence, idem: stream, events: [event({ stream })] });
        await say(`ack ${last} ${stream}`);
        await sleep(pauseMs);
      }
    } catch (error) {
      await say(`refused ${(error as Error).name}`);
      await sleep(20);
    }
  }
};
const writers = Promise.all(Array.from({ length: WRITERS }, writer));

process.stdin.once('end', async () => {
  ending = true;
  await writers;
  await store.close();
  await say('left');
  process.exit();
});
// Whatever comes there.
process.stdin.on('data', () => void store.poke());
