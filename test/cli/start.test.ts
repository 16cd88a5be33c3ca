/**
 * The hub as it is started by hand: by `npm start` and `npm run demo`, and on a terminal. Scripts that go before them are left out: they
 * would build what other tests run.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { whereNext } from '../../src/cli/serve.ts';
import { loadConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { builtHub } from '../support/child-hub.ts';
import { command, runProcess } from '../support/command.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { eventually } from '../support/plain-partner.ts';
import { atLength, someOf } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

interface Run {
  readonly child: ChildProcess;
  readonly output: { text: string };
  readonly dataDir: string;
  /** Exit code and signal, once nobody writes to its output any more. */
  readonly ended: Promise<unknown[]>;
}

/** In a process group of its own, which ends with the test. */
function run(t: Test, words: readonly string[], env: Record<string, string> = {}): Run {
  const [program = '', ...args] = words;
  const directory = directoryFor(t);
  const dataDir = join(directory, 'data');
  const own = { HOME: directory, npm_config_update_notifier: 'false', TERM: 'dumb', HUB_PORT: '0' };
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, ...own, HUB_DATA_DIR: dataDir, ...env },
    detached: true,
  });
  t.teardown(() => killGroup(child));
  const output = { text: '' };
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output.text += text));
  }
  return { child, output, dataDir, ended: once(child, 'close') };
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function printed({ child, output }: Run, text: RegExp): Promise<void> {
  await eventually(`it prints ${text}`, () => {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`it ended: ${output.text}`);
    return text.test(output.text);
  });
}

const npm = (...words: string[]) => ['npm', ...words, '--ignore-scripts'];
/** On a terminal of its own; its exit code is the command's. */
const onTerminal = (command: readonly string[]) => ['script', '-qefc', `exec ${command.join(' ')}`, '/dev/null'];
const ctrlC = '\u0003';
const own = 'a-token-that-nobody-guesses-0123456789';

for (const [signal, tier] of [
  ['SIGTERM', {}],
  // The test of Ctrl-C at npm start sends it too.
  ['SIGINT', atLength],
] as const) {
  t.test(`npm start passes ${signal} on: the hub closes its store, and npm ends with 0 after it`, tier, async (t) => {
    const started = run(t, npm('start'));
    await printed(started, /^ocpi-hub listening on /m);
    started.child.kill(signal);
    // What it left behind would hold its output.
    if (!t.strictSame(await once(started.child, 'exit'), [0, null])) return;
    await started.ended;
    t.match(started.output.text, /"state":"closed"/, 'the hub is gone, and its store was closed');
    const verified = await runProcess(['store', 'verify', '--data-dir', started.dataDir]);
    t.equal(verified.code, 0, verified.err);
  });
}

t.test('SIGTERM to npm run demo ends hub and partners, and then npm with 0', atLength, async (t) => {
  // Its partners and its operator use one address.
  const started = run(t, npm('run', 'demo'), { HUB_ADMIN_HOST: '127.0.0.1', HUB_ADMIN_PORT: '0' });
  await printed(started, /The CPO registers/);
  started.child.kill('SIGTERM');
  if (t.strictSame(await once(started.child, 'exit'), [0, null])) await started.ended;
});

t.test(
  'on a terminal serve prints the address of the console and where the admin token is, and Ctrl-C exits with 0',
  atLength,
  async (t) => {
    for (const [env, token] of someOf([
      [{}, /^ {2}admin token {2}in \/.*\/data\/admin-token$/m],
      [{ HUB_ADMIN_TOKEN: own }, /^ {2}admin token {2}the one in HUB_ADMIN_TOKEN$/m],
    ] as const)) {
      const started = run(t, onTerminal(builtHub), env);
      await printed(started, /admin token [^\n]*\n/);
      const said = started.output.text.replaceAll('\r', '');
      const [, url] = /^ocpi-hub listening on (\S+)$/m.exec(said) ?? [];
      t.match(said, `\n  console      ${url}/console/\n`);
      t.match(said, token);
      started.child.stdin?.write(ctrlC);
      t.strictSame(await started.ended, [0, null]);
    }
  },
);

t.test('on a terminal an erasure lists what it will replace, and needs a confirmation', async (t) => {
  const hub = await hubFor(t);
  const erase = [process.execPath, command, 'erase', '--uid', '04A1B2C3D4E5F6'];
  const asking = run(t, onTerminal(erase), { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken });
  await printed(asking, /Erase the person from 0 events, 0 rows and 0 tokens\? .* \[y\/N\]/);
  asking.child.stdin?.write('n\r');
  t.strictSame(await asking.ended, [1, null]);
  t.match(asking.output.text, 'canceled: nothing was erased');
  t.same(await itemsOf(hub, '/events?type=person.erased'), []);
});

// What serve says on a terminal, which the test above shows.
t.test('the printed console address of a hub that listens on all addresses works in a browser', async (t) => {
  for (const [host, shown] of [
    ['::', '[::1]'],
    ['0.0.0.0', '127.0.0.1'],
  ] as const) {
    const env = { HUB_PORT: '0', HUB_HOST: host, HUB_INSECURE_HTTP: 'true', HUB_ADMIN_TOKEN: own };
    const { adminUrl } = await hubFor(t, env);
    const said = whereNext(adminUrl, loadConfig({ env, flags: {} }), process.versions.node, systemClock);
    t.match(said, `  console      http://${shown}:${new URL(adminUrl).port}/console/\n`);
    t.match(said, /^ {2}admin token {2}the one in HUB_ADMIN_TOKEN$/m);
    t.notMatch(said, own, 'the token itself stays unsaid');
  }
});

t.test('Ctrl-C at npm start, which reaches the hub twice, is one request to stop', atLength, async (t) => {
  const started = run(t, onTerminal(npm('start')));
  await printed(started, /admin token [^\n]*\n/);
  started.child.stdin?.write(ctrlC);
  t.strictSame(await started.ended, [0, null]);
  t.match(started.output.text, 'the store changed its state', 'the store was closed');
});
