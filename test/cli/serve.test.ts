/**
 * `ocpi-hub serve` as a process: what it prints, how it stops, and how it ends when it cannot run.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { otherThanRoot, ownDirectory } from '../../src/data-directory.ts';
import { mounted, unmount } from '../faults/full-disk.ts';
import { command } from '../support/command.ts';
import { directoryFor } from '../support/directory.ts';
import { operatorsFile } from '../support/operators.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
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

/** Hubs that tests of this file share which only look at them. */
const settingsOf = {
  usual: {},
  insecure: { HUB_HOST: '0.0.0.0', HUB_INSECURE_HTTP: 'true', UV_THREADPOOL_SIZE: '5' },
  behindProxy: { HUB_HOST: '0.0.0.0', HUB_PUBLIC_URL: 'https://hub.example', UV_THREADPOOL_SIZE: '' },
};
const shared = new Map<string, { served: Served; dataDir: string }>();
/** Listens, on a directory that was there. */
async function hubOf(name: keyof typeof settingsOf): Promise<{ served: Served; dataDir: string }> {
  const dataDir = join(directoryFor(t), 'data');
  const hub = shared.get(name) ?? { served: serve(t, { HUB_DATA_DIR: dataDir, ...settingsOf[name] }), dataDir };
  shared.set(name, hub);
  await listening(hub.served);
  return hub;
}

const logged = ({ output }: Served, text: string) => eventually(`it logs ${text}`, () => output.stderr.includes(text));

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
  '[SERVE-3] SIGHUP ends no hub: without files to re-read it does nothing, during the start it waits',
  atLength,
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
    const { served } = await hubOf('usual');
    served.child.kill('SIGHUP');
    await eventually('it says so', () => served.output.stderr.includes('neither a certificate nor an operators file'));
    t.equal((await fetch(`${await listening(served)}/healthz`)).status, 200);
  },
);

t.test('serve has 64 threads for file access, or as many as the operator sets', atLength, async (t) => {
  const threadsOf = async (name: keyof typeof settingsOf) =>
    readdirSync(`/proc/${(await hubOf(name)).served.child.pid}/task`).length;
  const [asUsual, few, emptied] = await Promise.all((['usual', 'insecure', 'behindProxy'] as const).map(threadsOf));
  t.ok(Number(asUsual) >= 64, `${asUsual} threads`);
  t.ok(Number(few) < 64, `${few} threads when the operator wants 5`);
  t.ok(Number(emptied) >= 64, `${emptied} threads with an empty setting, which is none`);
});

/** What the launcher sets in V8. */
const v8Flags = '--no-allocation-site-pretenuring --no-wasm-tier-up --no-wasm-dynamic-tiering';

t.test('the launcher sets the flags of V8 before any module is loaded [OCPI-HUB-3, OCPI-HUB-5]', (t) => {
  const hook = join(directoryFor(t), 'hook.cjs');
  writeFileSync(
    hook,
    `const v8 = require('node:v8');
     const { setFlagsFromString } = v8;
     v8.setFlagsFromString = (flags) => {
       const isEarly = Object.keys(require.cache).every((file) => file === __filename || file.endsWith('ocpi-hub.js'));
       process.stderr.write(JSON.stringify({ flags, isEarly }));
       setFlagsFromString(flags);
     };`,
  );
  const { stderr } = spawnSync(process.execPath, ['--require', hook, command, '--version'], { encoding: 'utf8' });
  t.strictSame(JSON.parse(stderr), { flags: v8Flags, isEarly: true });
  t.end();
});

t.test('the parser of unusual answers is not optimized, which would take 25 to 38 MiB [OCPI-HUB-5]', (t) => {
  const program = join(directoryFor(t), 'program.cjs');
  writeFileSync(
    program,
    `const { createServer } = require('node:net');
     const { getHeapStatistics } = require('node:v8');
     const { Client } = require(${JSON.stringify(createRequire(import.meta.url).resolve('undici'))});
     const head = 'HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n';
     const text = head + '1\\r\\na\\r\\n'.repeat(8000) + '0\\r\\n\\r\\n';
     const server = createServer((socket) => socket.on('data', () => socket.write(text)));
     server.listen(0, '127.0.0.1', async () => {
       const client = new Client('http://127.0.0.1:' + server.address().port);
       for (let n = 0; n < 50; n++) await (await client.request({ path: '/', method: 'GET' })).body.text();
       process.stdout.write(String(getHeapStatistics().peak_malloced_memory / 2 ** 20));
       process.exit();
     });`,
  );
  const { stdout } = spawnSync(process.execPath, [...v8Flags.split(' '), program], { encoding: 'utf8' });
  t.ok(Number(stdout) > 0 && Number(stdout) < 15, `at most ${stdout} MiB of native memory beside the heap`);
  t.end();
});

t.test('a Node that is too old exits with 2 and one line that names the versions that work [OCPI-HUB-4]', (t) => {
  const old = join(directoryFor(t), 'old.cjs');
  writeFileSync(
    old,
    `delete Object.getPrototypeOf(process).getBuiltinModule; delete process.getBuiltinModule;
     Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.8' } });`,
  );
  const { status, stderr } = spawnSync(process.execPath, ['--require', old, command, 'status'], { encoding: 'utf8' });
  t.equal(stderr, 'ocpi-hub: Node 18.20.8 is too old: install Node 24; 20.18 and 22.3 are the oldest that will do\n');
  t.equal(status, 2);
  t.end();
});

t.test('serve exits with 1 and one line that names the setting when it cannot listen', async (t) => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  t.teardown(() => other.close());
  const { port } = other.address() as { port: number };
  const taken = `"?${port} on 127\\.0\\.0\\.1: expected a port on which no other process listens \\(EADDRINUSE\\)`;
  const elsewhere = 'is "192.0.2.1": expected an address of this machine \\(EADDRNOTAVAIL\\)';
  const cases: [Record<string, string>, string][] = [
    [{ HUB_PORT: String(port) }, `HUB_PORT \\(--port\\) is ${taken}`],
    [{ HUB_ADMIN_PORT: String(port) }, `HUB_ADMIN_PORT \\(--admin-port\\) is ${taken}`],
    [{ HUB_HOST: '192.0.2.1', HUB_INSECURE_HTTP: 'true' }, `HUB_HOST \\(--host\\) ${elsewhere}`],
  ];
  for (const [settings, said] of cases) {
    const { output, ended } = serve(t, { HUB_DATA_DIR: dataDirOf(t), HUB_LOG_LEVEL: 'silent', ...settings });
    t.strictSame(await ended, [1, null]);
    t.equal(output.stdout, '');
    t.match(output.stderr, new RegExp(`^ocpi-hub: ${said}\n$`));
  }
});

t.test('a data directory that cannot be made or written is named, with what is expected', async (t) => {
  const file = join(directoryFor(t), 'file');
  writeFileSync(file, '');
  const expected = 'expected a directory that the user of the hub can make and write';
  for (const [dataDir, code] of [
    [file, 'EEXIST'],
    [join(file, 'data'), 'ENOTDIR'],
    [unwritable(t), 'E(ROFS|ACCES)'],
  ] as const) {
    if (dataDir === null) continue;
    const said = new RegExp(`^HUB_DATA_DIR \\(--data-dir\\) is "${dataDir}": ${expected} \\(${code}\\)$`);
    await t.rejects(ownDirectory(dataDir), { name: 'Error', message: said });
  }
});

/** A directory without permission or, for root, on a read-only file system; null when root can mount nothing here. */
function unwritable(t: Test): string | null {
  const directory = join(directoryFor(t), 'unwritable');
  mkdirSync(directory, { mode: 0o500 });
  if (process.getuid?.() !== 0) return directory;
  const disk = mounted();
  if (disk === null) return null;
  t.teardown(() => unmount(disk));
  return spawnSync('mount', ['-o', 'remount,ro', disk]).status === 0 ? disk : null;
}

t.test(
  'root starts no hub on the store of another user [DATA-DIRECTORY-1]',
  { skip: process.getuid?.() !== 0 && 'needs root' },
  async (t) => {
    const dataDir = dataDirOf(t);
    const store = join(dataDir, 'store');
    mkdirSync(store, { recursive: true, mode: 0o700 });
    t.equal(await ownDirectory(dataDir), store, 'one of root is taken');
    chownSync(store, 1234, 4321);
    const { output, ended } = serve(t, { HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' });
    t.strictSame(await ended, [2, null]);
    const why = `${store} belongs to user 1234, who cannot open what root writes there`;
    t.equal(output.stderr, `ocpi-hub: ${why}: run the hub as that user (sudo -u '#1234')\n`);
    t.strictSame(readdirSync(store), []);
    t.equal(otherThanRoot(store)?.uid, 1234);
    t.equal(
      otherThanRoot(store, () => 1234),
      null,
      'unless its files are given to that user, as by NFS with root_squash',
    );
  },
);

t.test('serve ends with 1 and one clear line when another hub holds the data directory', atLength, async (t) => {
  const { dataDir } = await hubOf('usual');
  const { output, ended } = serve(t, { HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' });
  t.strictSame(await ended, [1, null]);
  t.equal(output.stdout, '');
  t.match(output.stderr, /^ocpi-hub: .+\n$/);
});

t.test('an operators’ token that is easy to guess stops the start with 2 and one clear line', atLength, async (t) => {
  const { output, ended } = serve(t, { HUB_DATA_DIR: dataDirOf(t), HUB_ADMIN_TOKEN: 'a' });
  t.strictSame(await ended, [2, null]);
  t.match(output.stderr, /^ocpi-hub: HUB_ADMIN_TOKEN \(--admin-token\) is not usable: expected 24 to 256 [^\n]+\n$/);
});

t.test(
  'every file of the hub and of its backups is readable by its user alone, whatever the umask',
  atLength,
  async (t) => {
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
  },
);

t.test('a data directory that other users may read stops the start with 2 and one clear line', async (t) => {
  const dataDir = dataDirOf(t);
  mkdirSync(dataDir);
  for (const mode of [0o755, 0o710, 0o701, 0o770]) {
    chmodSync(dataDir, mode);
    const refusal = `which other users may read or write (mode 0${mode.toString(8)})`;
    await t.rejects(ownDirectory(dataDir), { name: 'ConfigError', message: refusal });
  }
  const { output, ended } = serve(t, { HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' });
  t.strictSame(await ended, [2, null]);
  const named = `HUB_DATA_DIR \\(--data-dir\\) is "${dataDir}", which other users may read or write \\(mode 0770\\)`;
  t.match(output.stderr, new RegExp(`^ocpi-hub: ${named}: expected [^\n]+\n$`));
  t.strictSame(readdirSync(dataDir), [], 'nothing was written there');
  const usable = statSync((await hubOf('usual')).dataDir);
  t.equal(usable.mode & 0o777, 0o700, 'one that was there for its user alone is taken');
});

t.test('the log warns of plain HTTP beyond loopback, and an http public URL is refused [D92]', async (t) => {
  const refused = serve(t, { HUB_DATA_DIR: dataDirOf(t), HUB_HOST: '0.0.0.0' });
  t.strictSame(await refused.ended, [2, null]);
  t.match(refused.output.stderr, /^ocpi-hub: HUB_INSECURE_HTTP \(--insecure-http\) is "false": expected [^\n]+\n$/);
  for (const name of ['insecure', 'behindProxy'] as const) {
    const { served } = await hubOf(name);
    await logged(served, 'the hub speaks plain HTTP');
  }
});

t.test('the log says at the start which private networks are open to partners', async () => {
  await logged(
    (await hubOf('usual')).served,
    'private networks that URLs of partners may lead to: 127.0.0.0/8, ::1/128',
  );
  await logged((await hubOf('behindProxy')).served, 'private networks that URLs of partners may lead to: none');
});
