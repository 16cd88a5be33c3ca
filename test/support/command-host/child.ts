/**
 * Child process of `hosted-command.ts`: runs built commands one after the other, as if each had a process of its own. What takes a command
 * most of its time is to load Node and the program; here both are loaded once.
 *
 * CHILD-1  Each command has its own arguments, environment, exit code and output; it reads nothing.
 */
import { Console } from 'node:console';
import type { Asked, Told } from '../hosted-command.ts';

const program = new URL('../../../run/program.js', import.meta.url);
let count = 0;
let turn = Promise.resolve();

async function run({ words, env }: Asked): Promise<Told> {
  let [out, err] = ['', ''];
  process.argv = [process.execPath, 'ocpi-hub', ...words];
  process.env = { ...env };
  process.exitCode = undefined;
  process.stdout.write = (text: Uint8Array | string) => {
    out += text;
    return true;
  };
  process.stderr.write = (text: Uint8Array | string) => {
    err += text;
    return true;
  };
  // The entry alone is loaded anew: what it imports is not.
  await import(`${program}?${++count}`);
  const code = Number(process.exitCode ?? 0);
  process.exitCode = undefined;
  return { code, out, err };
}

for (const stream of [process.stdout, process.stderr]) stream.setMaxListeners(0);
globalThis.console = new Console(process.stdout, process.stderr);
process.on('message', (asked: Asked) => {
  turn = turn.then(async () => void process.send?.(await run(asked)));
});
