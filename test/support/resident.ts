/**
 * A process that runs the built command again and again, with the words and the environment of each message: modules are loaded once, not for
 * each of a hundred commands.
 */
export interface Asked {
  readonly words: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
}

const program = new URL('../../run/program.js', import.meta.url).href;
let ran = 0;
let printed = { out: '', err: '' };

/** Keeps what the command writes; a stream that is full does not come up. */
function keep(stream: NodeJS.WriteStream, name: keyof typeof printed): void {
  stream.write = ((chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
    printed[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    const done = rest.at(-1);
    if (typeof done === 'function') process.nextTick(done as () => void);
    return true;
  }) as NodeJS.WriteStream['write'];
}

keep(process.stdout, 'out');
keep(process.stderr, 'err');

async function run({ words, env }: Asked): Promise<void> {
  printed = { out: '', err: '' };
  process.exitCode = undefined;
  process.argv = [process.argv[0] ?? '', program, ...words];
  for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
  for (const [name, value] of Object.entries(env)) process.env[name] = value;
  // Every query makes another module of the few lines that run a command; what it imports is there.
  await import(`${program}?${ran++}`);
  const { exitCode: code = 0 } = process;
  process.exitCode = undefined;
  for (const stream of [process.stdout, process.stderr]) stream.removeAllListeners('error');
  process.send?.({ code, ...printed });
}

let last = Promise.resolve();
process.on('message', (asked: Asked) => {
  last = last.then(() => run(asked));
});
