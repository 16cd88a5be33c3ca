/**
 * A process of a bench: the first argument says which part it plays, the second with which options (JSON). It is asked over the channel
 * to its parent and ends with it.
 */
import type { Part } from './part.ts';

const parts: Readonly<Record<string, () => Promise<{ start: (options: never) => Promise<Part> }>>> = {
  load: () => import('./load.ts'),
  receiver: () => import('./receiver.ts'),
  readers: () => import('./readers.ts'),
  'bare-parts': () => import('./baselines/bare-parts.ts'),
  'bare-proxy': () => import('./baselines/bare-proxy.ts'),
  'bare-puts': () => import('./baselines/bare-puts.ts'),
  'same-bytes': () => import('./baselines/same-bytes.ts'),
  bullmq: () => import('./baselines/bullmq.ts'),
};

interface Asked {
  readonly id: number;
  readonly verb: string;
  readonly args: never;
}

process.on('disconnect', () => process.exit(0));
const [name = '', options = '{}'] = process.argv.slice(2);
const found = parts[name];
if (!found) throw new Error(`no part is called ${name}`);
const { start } = await found();
const { ready, verbs } = await start(JSON.parse(options) as never);
process.on('message', async ({ id, verb, args }: Asked) => {
  try {
    process.send?.({ id, result: await verbs[verb]?.(args) });
  } catch (error) {
    process.send?.({ id, error: String(error instanceof Error ? error.stack : error) });
  }
});
process.send?.({ id: 0, result: ready });
