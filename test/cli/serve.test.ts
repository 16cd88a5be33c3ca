/**
 * `ocpi-hub serve` as a process: what it prints, how it stops, and how it ends when it cannot run.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { command } from '../support/command.ts';
import { directoryFor } from '../support/directory.ts';
import { operatorsFile } from '../support/operators.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

interface Served {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  /** Exit code and signal. */
  readonly ended: Promise<unknown[]>;
}

function serve(t: Test, env: Record<string, string>, before: readonly string[] = []): Served {
  const [program, ...args] = [...before, process.execPath, command, 'serve'];
  const child = spawn(program ?? '', args, { env: { PATH: process.env.PATH, HUB_PORT: '0', ...env } });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  t.teardown(() => child.kill('SIGKILL'));
  return { child, output, ended: once(child, 'close') };
}

async function listening({ child, output, ended }: Served): Promise<string> {
  while (!output.stdout.includes('\n')) {
    await Promise.race([child.stdout && once(child.stdout, 'data'), ended]);
    const end = child.exitCode ?? child.signalCode;
    if (end !== null) throw new Error(`ended with ${end}: ${output.stderr}`);
  }
  return /^ocpi-hub listening on (http:\/\/127\.0\.0\.1:\d+)\n$/.exec(output.stdout)?.[1] ?? output.stdout;
}

let shared: { served: Served; dataDir: string } | undefined;
/** One as it is by default, on a directory that was there, for all tests of this file that only look at it. */
async function usual(): Promise<{ served: Served; dataDir: string }> {
  if (shared === undefined) {
    const dataDir = join(directoryFor(t), 'data');
    mkdirSync(dataDir, { mode: 0o700 });
    shared = { served: serve(t, { HUB_DATA_DIR: dataDir }), dataDir };
  }
  await listening(shared.served);
  return shared;
}

const dataDirOf = (t: Test) => join(t.testdir({}), 'data');

for (const [signal, tier] of [
  ['SIGTERM', {}],
  // Ctrl-C on a terminal sends it too: start.test.ts.
  ['SIGINT', atLength],
] as const) {
  t.test(
    `serve says once where it listens, logs JSON on stderr, and ends with 0 on ${signal} (V1, V2)`,
    tier,
    async (t) => {
      const dataDir = dataDirOf(t);
      const served = serve(t, { HUB_DATA_DIR: dataDir });
      const url = await listening(served);
      const token = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
      const status = await fetch(`${url}/admin/v1/status`, { headers: { authorization: `Bearer ${token}` } });
      t.equal(status.status, 200, 'it accepts requests, and the kept token opens the admin API');
      await status.text();
      served.child.kill(signal);
      t.strictSame(await served.ended, [0, null]);
      t.match(served.output.stdout, /^[^\n]+\n$/, 'one line on stdout');
      const lines = served.output.stderr.trimEnd().split('\n');
      t.ok(lines.length > 0);
      for (const line of lines) t.match(JSON.parse(line), { level: String, time: String, msg: String });
      t.notMatch(served.output.stderr, token, 'the token is not logged');
      t.match(served.output.stderr, join(dataDir, 'admin-token'), 'its path is');
    },
  );
}

t.test(
  '[SERVE-3] SIGHUP ends no hub: with nothing to re-read it does nothing, and during the start it waits',
  async (t) => {
    const dataDir = dataDirOf(t);
    // A start that reads a pipe waits for who writes to it.
    const file = join(t.testdirName, 'operators.json');
    execFileSync('mkfifo', ['-m', '600', file]);
    const starting = serve(t, { HUB_DATA_DIR: dataDir, HUB_OPERATORS_FILE: file });
    const pipe = await open(file, 'w');
    starting.child.kill('SIGHUP');
    renameSync(operatorsFile(`${file}.new`, [{ name: 'anna', role: 'support' }]), file);
    await pipe.writeFile('{"operators":[]}');
    await pipe.close();
    await listening(starting);
    await eventually('it was heeded', () => starting.output.stderr.includes('operators file re-read: 1 operator'));
    const { served } = await usual();
    served.child.kill('SIGHUP');
    await eventually('it says so', () => served.output.stderr.includes('neither a certificate nor an operators file'));
    t.equal((await fetch(`${await listening(served)}/healthz`)).status, 200);
  },
);

t.test('serve has 64 threads for name look-ups and files, or as many as the operator says', async (t) => {
  const threadsOf = ({ child }: Served) => readdirSync(`/proc/${child.pid}/task`).length;
  const threadsWith = async (name: string, size: string) => {
    const served = serve(t, {
      ...{ HUB_DATA_DIR: join(t.testdirName, name), HUB_LOG_LEVEL: 'silent', UV_THREADPOOL_SIZE: size },
    });
    await listening(served);
    const threads = threadsOf(served);
    served.child.kill('SIGKILL');
    await served.ended;
    return threads;
  };
  t.testdir({});
  const asUsual = threadsOf((await usual()).served);
  const [few, emptied] = await Promise.all([threadsWith('few', '5'), threadsWith('emptied', '')]);
  t.ok(asUsual >= 64, `${asUsual} threads`);
  t.ok(few < 64, `${few} threads when the operator wants 5`);
  t.ok(emptied >= 64, `${emptied} threads with an empty setting, which is none`);
});

t.test('serve ends with 1 and one clear line when its port is taken', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  t.teardown(() => other.close());
  const { port } = other.address() as { port: number };
  const { output, ended } = serve(t, { HUB_DATA_DIR: dataDirOf(t), HUB_PORT: String(port), HUB_LOG_LEVEL: 'silent' });
  t.strictSame(await ended, [1, null]);
  t.equal(output.stdout, '');
  t.match(output.stderr, new RegExp(`^ocpi-hub: .*EADDRINUSE.*127\\.0\\.0\\.1:${port}\n$`));
});

t.test('serve ends with 1 and one clear line when another hub holds the data directory', async (t) => {
  const { dataDir } = await usual();
  const { output, ended } = serve(t, { HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' });
  t.strictSame(await ended, [1, null]);
  t.equal(output.stdout, '');
  t.match(output.stderr, /^ocpi-hub: .+\n$/);
});

t.test('a token of operators that is easy to guess stops the start with 2 and one clear line', async (t) => {
  const { output, ended } = serve(t, { HUB_DATA_DIR: dataDirOf(t), HUB_ADMIN_TOKEN: 'a' });
  t.strictSame(await ended, [2, null]);
  t.match(output.stderr, /^ocpi-hub: HUB_ADMIN_TOKEN \(--admin-token\) is not usable: expected 24 to 256 [^\n]+\n$/);
});

t.test("every file of the hub and of its backups is its user's alone, whatever the umask was", async (t) => {
  const dataDir = dataDirOf(t);
  const directory = join(t.testdirName, 'backup');
  const served = serve(t, { HUB_DATA_DIR: dataDir }, ['/bin/sh', '-c', 'umask 000; exec "$@"', 'sh']);
  const url = await listening(served);
  const hub = { url, adminToken: readFileSync(join(dataDir, 'admin-token'), 'utf8').trim() };
  const { id } = await admin(hub, 'POST', '/backup', { directory });
  await eventually('it is made', async () => (await admin(hub, 'GET', `/backups/${String(id)}`)).state === 'DONE');
  served.child.kill('SIGTERM');
  t.strictSame(await served.ended, [0, null]);
  for (const root of [dataDir, directory]) {
    const names = ['', ...(readdirSync(root, { recursive: true }) as string[])];
    t.ok(names.length > 5, `${names.length} files`);
    const open = names.filter((name) => (statSync(join(root, name)).mode & 0o077) !== 0);
    t.strictSame(open, [], `open to others in ${root}`);
  }
});

t.test('a data directory that other users may read stops the start with 2 and one clear line', async (t) => {
  const dataDir = dataDirOf(t);
  for (const mode of isAtLength ? [0o755, 0o710, 0o701, 0o770] : [0o710, 0o701]) {
    mkdirSync(dataDir, { recursive: true });
    chmodSync(dataDir, mode);
    const { output, ended } = serve(t, { HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' });
    t.strictSame(await ended, [2, null]);
    const named = `HUB_DATA_DIR \\(--data-dir\\) is "${dataDir}", which other users may read or write \\(mode 0${mode.toString(8)}\\)`;
    t.match(output.stderr, new RegExp(`^ocpi-hub: ${named}: expected [^\n]+\n$`));
    t.strictSame(readdirSync(dataDir), [], 'nothing was written there');
  }
  const usable = statSync((await usual()).dataDir);
  t.equal(usable.mode & 0o777, 0o700, 'one that was there for its user alone is taken');
});

t.test('the log says that plain HTTP leaves loopback, and an http public URL is refused [D92]', async (t) => {
  const env = { HUB_DATA_DIR: dataDirOf(t), HUB_HOST: '0.0.0.0' };
  const refused = serve(t, env);
  t.strictSame(await refused.ended, [2, null]);
  t.match(refused.output.stderr, /^ocpi-hub: HUB_INSECURE_HTTP \(--insecure-http\) is "false": expected [^\n]+\n$/);
  for (const allowed of [{ HUB_INSECURE_HTTP: 'true' }, { HUB_PUBLIC_URL: 'https://hub.example' }]) {
    const served = serve(t, { ...env, ...allowed });
    await listening(served);
    served.child.kill('SIGTERM');
    t.strictSame(await served.ended, [0, null]);
    t.match(served.output.stderr, 'the hub speaks plain HTTP');
    if (allowed.HUB_PUBLIC_URL)
      t.match(served.output.stderr, 'private networks that URLs of partners may lead to: none');
  }
});

t.test('the log says at the start which private networks are open to partners', async (t) => {
  const { served: open } = await usual();
  // Of a hub with a public URL, which are none, the test above tells.
  t.match(open.output.stderr, 'private networks that URLs of partners may lead to: 127.0.0.0/8, ::1/128');
});
