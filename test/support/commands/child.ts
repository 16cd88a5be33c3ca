/**
 * One process for many commands, one after the other: what loads long is loaded once. Each command is begun as its own process would
 * begin it, with its words and its environment; told back are its output and its exit code.
 *
 * C1  A command that ends its process has ended here: what it would write afterwards is nobody's.
 */
import type { Asked, Ended } from '../command.ts';

class Exit extends Error {}

const [node = '', command = ''] = [process.execPath, process.argv[2]];
const usual = { ...process.env };
let count = 0;

async function run({ words, env }: Asked): Promise<Ended> {
  const ended = { code: 0 as number | null, out: '', err: '' };
  let isOver = false;
  const take = (stream: 'out' | 'err') =>
    ((text: string | Uint8Array) => {
      if (!isOver) ended[stream] += typeof text === 'string' ? text : Buffer.from(text).toString();
      return true;
    }) as typeof process.stdout.write;
  process.stdout.write = take('out');
  process.stderr.write = take('err');
  process.exit = ((code?: number) => {
    if (!isOver) ended.code = code ?? 0;
    isOver = true;
    throw new Exit();
  }) as typeof process.exit;
  process.env = { ...usual, ...env };
  process.argv = [node, command, ...words];
  process.exitCode = undefined;
  count += 1;
  // Under another name it is another module, which runs when it is loaded.
  await import(`../../../src/cli/program.js?${count}`);
  if (!isOver) ended.code = Number(process.exitCode ?? 0);
  isOver = true;
  for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners('error');
  for (const signal of ['SIGINT', 'SIGTERM']) process.removeAllListeners(signal);
  process.exitCode = undefined;
  return ended;
}

let last: Promise<unknown> = Promise.resolve();
process.on('message', (asked: Asked) => {
  last = last.then(async () => process.send?.(await run(asked)));
});
