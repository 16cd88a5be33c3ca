/**
 * The container file, as far as it can be tried without an engine: what it takes in, as whom it runs, and that its health check
 * tells a hub that serves from one that does not.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { loadConfig } from '../../src/config/config.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { parsePostgresUrl } from '../../storage/postgres/options.ts';
import { allocator, allocatorIn } from '../support/allocator.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { t } from '../support/tap.ts';

const lines = readFileSync('Dockerfile', 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));
const after = (instruction: string) =>
  lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1));

t.test('the image is built from the official one by its digest, and runs as an ordinary user', async (t) => {
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

t.test('the build context has what the build reads, and neither data nor secrets', async (t) => {
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

t.test('its health check distinguishes a hub that serves from one that does not', async (t) => {
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

interface Compose {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly configs: Readonly<Record<string, { readonly content: string }>>;
  readonly volumes: Readonly<Record<string, null>>;
}

interface ComposeService {
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports: readonly string[];
  readonly volumes: readonly string[];
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
}

/** Values of the variables that the file asks for. */
const given: Readonly<Record<string, string>> = {
  HUB_PUBLIC_URL: 'https://hub.example',
  HUB_VIEWER_TOKEN: 'v'.repeat(48),
  GRAFANA_PASSWORD: 'password',
};
const filled = (text: string) =>
  text.replace(/\$\{(\w+)(?::([-?])([^}]*))?\}/g, (_, name: string, how: string, rest: string) => {
    const value = given[name] ?? (how === '-' ? rest : undefined);
    if (value === undefined) throw new Error(`nobody gives ${name}`);
    return value;
  });

t.test('one hub with Prometheus and Grafana: settings, paths and names match the product', async (t) => {
  const directory = 'docs/deploy';
  const compose = parse(filled(readFileSync(join(directory, 'compose-one.yaml'), 'utf8'))) as Compose;
  const { hub, prometheus, grafana } = compose.services;
  if (!hub || !prometheus || !grafana) throw new Error('three services');
  const [image = {}] = after('ENV').map((line) => Object.fromEntries(line.split(' ').map((pair) => pair.split('='))));
  const { NODE_ENV: _, ...ofImage } = image as Record<string, string>;
  const config = loadConfig({ env: { ...ofImage, ...hub.environment }, flags: {} });
  t.match(config, { host: '0.0.0.0', port: 8080, operators: { host: '0.0.0.0', port: 8081 } });
  for (const { ports } of Object.values(compose.services))
    for (const port of ports) t.match(port, /^127\.0\.0\.1:(\d+):\1$/, 'published to this machine alone');
  for (const { volumes, configs = [] } of Object.values(compose.services)) {
    for (const volume of volumes) {
      const [source = ''] = volume.split(':');
      t.ok(source.startsWith('..') ? existsSync(join(directory, source)) : source in compose.volumes, volume);
    }
    for (const { source } of configs) t.ok(compose.configs[source], source);
  }
  const scraped = parse(compose.configs.prometheus?.content ?? '');
  t.match(scraped.scrape_configs, [
    {
      job_name: 'ocpi-hub',
      authorization: { credentials: given.HUB_VIEWER_TOKEN },
      static_configs: [{ targets: ['hub:8081'] }],
    },
  ]);
  t.ok(prometheus.volumes.some((volume) => volume.endsWith(`:${scraped.rule_files[0]}:ro`)));
  const [{ options }] = parse(compose.configs.dashboards?.content ?? '').providers;
  t.ok(grafana.volumes.includes(`../grafana:${options.path}:ro`));
  t.ok(grafana.environment?.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH?.startsWith(`${options.path}/`));
});

t.test('a hub in a container and under systemd returns the memory of large bodies, as `npm start` does', async (t) => {
  t.match(allocator, { MALLOC_ARENA_MAX: '2', MALLOC_MMAP_THRESHOLD_: '131072' });
  for (const file of ['Dockerfile', 'docs/deploy/ocpi-hub.service'])
    t.strictSame(allocatorIn(readFileSync(file, 'utf8')), allocator, file);
});

t.test('systemd restarts a hub as often as it ends, and only with its volume', async (t) => {
  const [unit = '', service = ''] = readFileSync('docs/deploy/ocpi-hub.service', 'utf8').split('[Service]');
  t.match(unit, /^StartLimitIntervalSec=0$/m, 'five starts in 10 s would be the last');
  t.match(unit, /^RequiresMountsFor=\/var\/lib\/ocpi-hub$/m);
  t.match(service, /^Restart=always\nRestartSec=2$/m);
});

interface Patroni {
  readonly postgresql: { readonly connect_address: string; readonly parameters: Readonly<Record<string, string>> };
}

t.test('a server under Patroni speaks TLS, which its HUB_STORE requires', async (t) => {
  const [, address = ''] = /`HUB_STORE=(postgres:[^`]+)`/.exec(readFileSync('docs/CLUSTER.md', 'utf8')) ?? [];
  const { hosts, ssl } = parsePostgresUrl(address.replace(/sslrootcert=[^&]*/, ''));
  t.match(ssl, { rejectUnauthorized: true }, 'and its name is verified');
  const { postgresql } = parse(readFileSync('docs/deploy/patroni.yml', 'utf8')) as Patroni;
  t.ok(hosts.map(({ host, port }) => `${host}:${port}`).includes(postgresql.connect_address));
  t.match(postgresql.parameters, { ssl: 'on', ssl_cert_file: /^\//, ssl_key_file: /^\// });
});

t.test('a backup of the running hub has a directory that the hub may write, outside its data directory', async (t) => {
  const settingIn = (file: string, name: string) =>
    new RegExp(`^${name}=(.*)$`, 'm').exec(readFileSync(join('docs/deploy', file), 'utf8'))?.[1] ?? '';
  t.equal(settingIn('ocpi-hub.service', 'ProtectSystem'), 'strict');
  const writable = settingIn('ocpi-hub.service', 'StateDirectory').split(' ');
  t.strictSame(
    writable.map((name) => join('/var/lib', name)),
    [settingIn('ocpi-hub.env', 'HUB_DATA_DIR'), '/var/lib/ocpi-hub-backups'],
  );
  const { services } = parse(readFileSync('docs/deploy/compose-one.yaml', 'utf8')) as Compose;
  t.strictSame(services.hub?.volumes, ['hub:/data', 'backups:/backups']);
  const made = after('RUN').find((line) => line.startsWith('install ')) ?? '';
  t.match(made, /--owner=node --group=node --mode=0700 \/data \/backups$/, 'a volume is given to the user of the hub');
});
