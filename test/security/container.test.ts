/**
 * The container file, as far as it can be tried without an engine: what it takes in, as whom it runs, and that its health check
 * tells a hub that serves from one that does not.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { freePort } from '../../src/sandbox/free-port.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { t } from '../support/tap.ts';

const lines = readFileSync('Dockerfile', 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));
const after = (instruction: string) =>
  lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1));

t.test('it is built from the official image by its digest, and runs as an ordinary user', async (t) => {
  const [image = '', ...further] = after('ARG');
  t.match(image, /^NODE_IMAGE=node:\d+\.\d+\.\d+-slim@sha256:[0-9a-f]{64}$/, 'by its short name');
  t.strictSame(further, []);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: an argument of the build
  const from = '${NODE_IMAGE}';
  t.strictSame(after('FROM'), [`${from} AS build`, from]);
  t.strictSame(after('USER'), ['node']);
  t.ok(lines.indexOf('USER node') > lines.lastIndexOf(`FROM ${from}`), 'in the stage that runs');
  t.strictSame(after('VOLUME'), ['/data']);
  t.notMatch(lines.join('\n'), /:\/\/(?!127\.0\.0\.1|\$)|HUB_\w*(TOKEN|KEY)=/, 'it names no host and holds no secret');
});

t.test('the build is given what it reads, and neither data nor secrets', async (t) => {
  const [everything, ...taken] = readFileSync('.dockerignore', 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  t.equal(everything, '*');
  const names = taken.map((line) => line.slice(1));
  for (const name of names) t.ok(existsSync(name), `${name} is there`);
  const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: Record<string, string> };
  const read = [...(scripts.build ?? '').matchAll(/[\w./-]+\.json\b/g)].map(([name]) => name);
  for (const name of ['package.json', 'package-lock.json', '.npmrc', 'LICENSE', 'bin', 'src', ...read]) {
    t.ok(names.includes(name) || names.includes(dirname(name)), `${name} is taken in`);
  }
  for (const name of ['data', 'test', 'node_modules', '.git', '.ci']) t.notOk(names.includes(name), `${name} is not`);
});

t.test('its health check tells a hub that serves from one that does not', async (t) => {
  const [check = ''] = after('HEALTHCHECK');
  const [program, ...args] = JSON.parse(check.slice(check.indexOf('['))) as string[];
  t.equal(program, 'node');
  const port = await freePort();
  const run = () =>
    spawnSync(process.execPath, args, { env: { PATH: process.env.PATH, HUB_PORT: String(port) }, timeout: 30_000 })
      .status;
  t.equal(run(), 1, 'nobody there');
  const hub = await startChildHub({ dataDir: directoryFor(t), port });
  t.teardown(() => hub.kill());
  t.equal(run(), 0, 'a hub that serves');
});
