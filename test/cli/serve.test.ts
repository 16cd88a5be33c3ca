/**
 * `ocpi-hub serve` as a process: what it prints, how it stops, and how it ends when it cannot run.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join, resolve } from 'node:path';
import t, { type Test } from 'tap';

const command = resolve('dist/bin/ocpi-hub.js');

interface Served {
  readonly child: ChildProcess;
  readonly output: { stdout: string; stderr: string };
  /** Exit code and signal. */
  readonly ended: Promise<unknown[]>;
}

function serve(t: Test, env: Record<string, string>): Served {
  const child = spawn(process.execPath, [command, 'serve'], { env: { PATH: process.env.PATH, HUB_PORT: '0', ...env } });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  t.teardown(() => child.kill('SIGKILL'));
  return { child, output, ended: once(child, 'close') };
}

async function listening({ child, output, ended }: Served): Promise<string> {
  while (!output.stdout.includes('\n')) {
    await Promise.race([child.stdout && once(child.stdout, 'data'), ended]);
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}: ${output.stderr}`);
  }
  return /^ocpi-hub listening on (http:\/\/127\.0\.0\.1:\d+)\n$/.exec(output.stdout)?.[1] ?? output.stdout;
}

const dataDirOf = (t: Test) => join(t.testdir({}), 'data');

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  t.test(`serve says once where it listens, logs JSON on stderr, and ends with 0 on ${signal} (V1, V2)`, async (t) => {
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
  });
}

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
  const dataDir = dataDirOf(t);
  await listening(serve(t, { HUB_DATA_DIR: dataDir }));
  const { output, ended } = serve(t, { HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' });
  t.strictSame(await ended, [1, null]);
  t.equal(output.stdout, '');
  t.match(output.stderr, /^ocpi-hub: .+\n$/);
});
