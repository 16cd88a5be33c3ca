/**
 * `ocpi-hub serve` whose stderr takes nothing: a log on a full disk, and a pipe that nobody reads. A process that does not end fails its
 * test.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readSync, writeSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { nextTurn } from '../../src/kit/system-clock.ts';
import { StderrLines } from '../../src/stderr-lines.ts';
import { command } from '../support/command.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

/** Only so that a process that does not end fails its test. */
const limitMs = 60_000;

const dataDirOf = (t: Test) => join(t.testdirName, 'data');

function serve(t: Test, stderr: number, env: Record<string, string>): ChildProcess {
  const child = spawn(process.execPath, [command, 'serve'], {
    env: { PATH: process.env.PATH, HUB_PORT: '0', HUB_DATA_DIR: dataDirOf(t), ...env },
    stdio: ['ignore', 'pipe', stderr],
  });
  t.teardown(() => child.kill('SIGKILL'));
  return child;
}

/** Exit code and signal. */
const ended = (child: ChildProcess) => once(child, 'exit', { signal: AbortSignal.timeout(limitMs) });

async function listening({ stdout }: ChildProcess): Promise<void> {
  const [line] = stdout ? await once(stdout, 'data') : [];
  if (!String(line).startsWith('ocpi-hub listening on ')) throw new Error(`it printed ${line}`);
}

function opened(t: Test, path: string, flags: string | number): number {
  const file = openSync(path, flags);
  t.teardown(() => closeSync(file));
  return file;
}

/** A pipe that is full; `stderr` opens its end anew, `read` empties it and returns what it held. */
function fullPipe(t: Test): { stderr(flags?: number): number; read(): string } {
  const path = join(t.testdirName, 'stderr');
  execFileSync('mkfifo', ['-m', '600', path]);
  const here = opened(t, path, constants.O_RDWR | constants.O_NONBLOCK);
  const spaces = Buffer.alloc(4096, ' ');
  untilBusy(() => writeSync(here, spaces));
  const read = () => {
    const [buffer, parts] = [Buffer.alloc(65_536), [] as Buffer[]];
    untilBusy(() => parts.push(Buffer.from(buffer.subarray(0, readSync(here, buffer)))));
    return Buffer.concat(parts).toString().trim();
  };
  return { stderr: (flags = constants.O_WRONLY) => opened(t, path, flags), read };
}

function untilBusy(work: () => void): void {
  try {
    for (;;) work();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
  }
}

async function listeningServer(t: Test): Promise<AddressInfo> {
  const server = createServer().listen(0, '127.0.0.1');
  t.teardown(() => server.close());
  await once(server, 'listening');
  return server.address() as AddressInfo;
}

/** Each opens it anew for each process: one that ends makes what it shares with others blocking again, as it found it. */
const kinds: Readonly<Record<string, (t: Test) => () => number>> = {
  'on a full disk': (t) => () => opened(t, '/dev/full', 'w'),
  'a pipe that nobody reads': (t) => fullPipe(t).stderr,
};

for (const [kind, stderrOf] of Object.entries(kinds)) {
  const title = `with stderr ${kind}, a start that fails ends with its exit code, and SIGTERM ends serve with 0`;
  // The test below has a pipe that nobody reads until the hub has ended.
  t.test(title, kind === 'on a full disk' ? {} : atLength, async (t) => {
    t.testdir({});
    const stderr = stderrOf(t);
    const child = serve(t, stderr(), {});
    await listening(child);
    const unusable = serve(t, stderr(), { HUB_PORT: 'x' });
    t.strictSame(await ended(unusable), [2, null], 'a setting is not usable');
    // Starts that fail late, after lines of the log: both at length.
    const { port } = await listeningServer(t);
    const portInUse = serve(t, stderr(), { HUB_PORT: String(port), HUB_DATA_DIR: join(t.testdirName, 'other') });
    t.strictSame(await ended(portInUse), [1, null], 'the port is in use');
    if (isAtLength) {
      const directoryInUse = serve(t, stderr(), {});
      t.strictSame(await ended(directoryInUse), [1, null], 'the data directory is in use');
    }
    child.kill('SIGTERM');
    t.strictSame(await ended(child), [0, null]);
  });
}

t.test('a paused pipe loses no line of the log', atLength, async (t) => {
  t.testdir({});
  const { stderr, read } = fullPipe(t);
  const child = serve(t, stderr(), {});
  await listening(child);
  t.equal(read(), '', 'nothing was written to the full pipe');
  child.kill('SIGTERM');
  t.strictSame(await ended(child), [0, null]);
  const lines = read().split('\n');
  for (const line of lines) t.match(JSON.parse(line), { level: String, time: String, msg: String });
  t.match(lines[0], 'private networks that URLs of partners may lead to');
  t.match(lines.at(-1), '"state":"closed"');
});

t.test('a full pipe is tried again after 10 ms, and takes all lines in order [STDERR-LINES-1]', async (t) => {
  t.testdir({});
  const { stderr, read } = fullPipe(t);
  let refused = 0;
  const clock = new SimulatedClock();
  const setTimeout: typeof clock.setTimeout = (work, ms, ...args) => {
    if (ms === 10) refused++;
    return SimulatedClock.prototype.setTimeout.call(clock, () => work(...args), ms);
  };
  const end = stderr(constants.O_WRONLY | constants.O_NONBLOCK);
  const lines = new StderrLines(Object.assign(clock, { setTimeout }), () => end);
  const sent = Array.from({ length: 40_000 }, (_, n) => `line-${n}.`);
  for (const line of sent) lines.write(`${line}\n`);
  while (refused === 0) await nextTurn();
  t.equal(read(), '', 'nothing was written to the full pipe');
  const text = sent.join('');
  let [got, answered] = ['', 0];
  while (got.length < text.length) {
    if (answered < refused) clock.advance(10);
    answered = refused;
    await nextTurn();
    got += read().replaceAll('\n', '');
  }
  t.ok(got === text, 'every line arrived, in order');
});
