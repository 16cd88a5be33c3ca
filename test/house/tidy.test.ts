/**
 * House rules that a linter cannot express, and proof that the linter enforces the rest: the import table is tried with
 * imports that each room must refuse and imports that it must allow.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { realTime } from '../support/real-time.ts';
import { t } from '../support/tap.ts';

const allFiles = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], { encoding: 'utf8' })
  .split('\n')
  .filter((path) => path !== '' && existsSync(path));
const textOf = (path: string) => readFileSync(path, 'utf8');
const sources = allFiles.filter((path) => /^(bin|src|machines|storage)\/.*\.tsx?$/.test(path));
const pure = sources.filter((path) => /^(machines|src\/domain)\//.test(path));

/** `path:line: text` of every line that a pattern matches. */
function linesWith(pattern: RegExp, paths: readonly string[]): string[] {
  return paths.flatMap((path) =>
    textOf(path)
      .split('\n')
      .flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  );
}

t.test('the test finds sources', async (t) => {
  t.ok(sources.length > 50, `${sources.length} sources`);
  t.ok(pure.length > 5, `${pure.length} of them pure`);
});

t.test('nothing is left for later', async (t) => {
  const marks = new RegExp(`\\b(${['TO' + 'DO', 'FIX' + 'ME', 'HA' + 'CK'].join('|')})\\b`);
  const written = allFiles.filter((path) => /\.(ts|json|md|html|css)$/.test(path) && path !== 'package-lock.json');
  t.strictSame(linesWith(marks, written), []);
});

t.test('no source has a path of a machine', async (t) => {
  t.strictSame(linesWith(/['"`\s(](\/work|\/tmp|\/home|\/root)\//, sources), []);
});

t.test('the lock file names no registry', async (t) => {
  t.strictSame(linesWith(/"resolved":|\bregistry\./, ['package-lock.json']), []);
});

t.test('every property runs with the seed of npm test', async (t) => {
  const tests = allFiles.filter((path) => /^test\/.*\.ts$/.test(path));
  const importing = linesWith(/^import .*'fast-check'/, tests).map((line) => line.split(':', 1)[0]);
  t.strictSame(importing, ['test/support/property.ts']);
});

t.test('every source begins with why it exists', async (t) => {
  const without = sources.filter((path) => !/^(#!.*\n)?\/\*\*\s+(\* )?[^\s*]/.test(textOf(path)));
  t.strictSame(without, []);
});

t.test('invariants are numbered from 1 under the name of their file, and every cited one exists', async (t) => {
  const files = allFiles.filter((path) => /^(bin|src|machines|storage|test)\/.*\.tsx?$/.test(path));
  const defined = new Map<string, string>();
  const wrong: string[] = [];
  for (const path of files) {
    const tags = [...textOf(path).matchAll(/^ \* ([A-Z][A-Z0-9-]*)-(\d+) {1,2}\S/gm)];
    for (const [index, [, prefix = '', number]] of tags.entries()) {
      const tag = `${prefix}-${number}`;
      const name = path
        .replace(/(\.test)?\.tsx?$/, '')
        .replaceAll('/', '-')
        .toUpperCase();
      if (!name.endsWith(prefix.replace(/^TEST-/, ''))) wrong.push(`${tag} does not bear the name of ${path}`);
      if (Number(number) !== index + 1) wrong.push(`${tag} is number ${index + 1} of ${path}`);
      if (defined.has(tag)) wrong.push(`${tag} is defined twice`);
      defined.set(tag, path);
    }
  }
  t.strictSame(wrong, []);
  t.ok(defined.size > 300, `${defined.size} invariants`);
  const prefixes = new Set([...defined.keys()].map((tag) => tag.replace(/-\d+$/, '')));
  const docs = allFiles.filter((path) => path.endsWith('.md'));
  const isOurs = (tag: string) => prefixes.has(tag.replace(/-\d+$/, ''));
  const cited = [...files, ...docs].flatMap((path) =>
    [...textOf(path).matchAll(/\b[A-Z][A-Z0-9-]*-\d+\b/g)].map(([tag]) => ({ path, tag })),
  );
  t.strictSame(
    cited.filter(({ tag }) => isOurs(tag) && !defined.has(tag)),
    [],
  );
  const bracketed = [...files, ...docs].flatMap((path) =>
    [...textOf(path).matchAll(/\[([A-Z]{2}[A-Z0-9-]*-\d+)[\],]/g)].map(([, tag = '']) => ({ path, tag })),
  );
  t.strictSame(
    bracketed.filter(({ tag }) => !defined.has(tag)),
    [],
    'whatever its prefix',
  );
  // Beside the name of a file in backticks, a document cites a tag of that file.
  const beside = docs.flatMap((path) =>
    [...textOf(path).matchAll(/`([\w./-]+\.tsx?)` ((?:[A-Z][A-Z0-9-]*-\d+(?:–|, | and )?)+)/g)].flatMap(
      ([, file = '', tags = '']) => (tags.match(/[A-Z][A-Z0-9-]*-\d+/g) ?? []).map((tag) => ({ path, file, tag })),
    ),
  );
  t.ok(beside.length > 50, `${beside.length} tags beside a file`);
  t.strictSame(
    beside.filter(({ file, tag }) => !defined.get(tag)?.endsWith(file)),
    [],
  );
  // Decisions on the interface are cited by their number alone.
  t.strictSame(linesWith(/^\s*(\/\*\*|\*|\/\/).*\[[A-CE-Z]\d+[\],]/, files), []);
});

t.test('no source is longer than 400 lines', async (t) => {
  const long = sources.map((path) => ({ path, lines: textOf(path).split('\n').length - 1 }));
  t.strictSame(
    long.filter(({ lines }) => lines > 400),
    [],
  );
});

t.test('machines and domain get time and randomness from outside', async (t) => {
  // A method of a clock may be declared and called; the global may not.
  const impure =
    /\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bMath\.random\(|(?<!\.)\bset(Timeout|Interval)\((?!\w+:)|\brandom(UUID|Bytes)\(/;
  t.strictSame(linesWith(impure, pure), []);
  t.match('setTimeout(() => {}, 1)', impure, 'the pattern sees the global');
  t.notMatch('clock.setTimeout(wake, 1)', impure, 'and lets a clock be');
});

t.test('only one file of a hub reads the platform’s clock for the time of day', async (t) => {
  const reads = /\bDate\.now\b|\bnew Date\(\)/;
  // Not in the hub's process, or its actors: stamps of files, of the command line, of simulated partners, of a browser.
  const others = /^(src\/(sandbox|cli|console\/page)\/|storage\/level\/|src\/kit\/system-clock\.ts$)/;
  t.strictSame(
    linesWith(
      reads,
      sources.filter((path) => !others.test(path)),
    ),
    [],
  );
  t.match('const at = Date.now();', reads, 'the pattern sees it');
  t.notMatch('new Date(at).toISOString()', reads, 'and lets a conversion be');
});

t.test('URLs are parsed by the kit alone, without canParse', async (t) => {
  const asks = /\bURL\.canParse\(/;
  t.strictSame(linesWith(asks, sources), []);
  t.match("URL.canParse('x')", asks, 'the pattern sees it');
});

t.test('only one file sets timers of the platform; all others use the clock port', async (t) => {
  // A clock's methods of these names may be declared and called. `AbortSignal.timeout` bounds a request of the sandbox.
  const timers = /(?<!\.)\bset(Timeout|Interval|Immediate)\b(?!<|\(\w+:)|\bglobalThis\.set|['"](node:)?timers\b/;
  // These files run in a browser; the second one holds its script as text.
  const browser = /^src\/(console\/page\/|admin\/docs-look\.ts$)/;
  const here = sources.filter((path) => path !== 'src/kit/system-clock.ts' && !browser.test(path));
  t.strictSame(linesWith(timers, here), []);
  for (const line of [
    'setTimeout(() => {}, 1)',
    'await new Promise((resolve) => setImmediate(resolve));',
    'const looking = setInterval(look, 100).unref();',
    'const { setTimeout: wait } = globalThis;',
    'globalThis.setTimeout(wake, 1)',
    'const clock = { now, setTimeout, clearTimeout };',
    "import { setTimeout as sleep } from 'node:timers/promises';",
    "import { setImmediate } from 'timers';",
  ]) {
    t.match(line, timers, line);
  }
  for (const line of [
    'const timer = clock.setTimeout(wake, 1);',
    '  setTimeout(fn: () => void, timeoutMs: number): unknown;',
    '  setTimeout<A extends unknown[]>(fn: (...args: A) => void): unknown;',
    'server.setTimeout(options.silenceMaxMs ?? silenceMaxMs);',
  ]) {
    t.notMatch(line, timers, line);
  }
});

t.test('a test waits in real time only where that is listed, with a reason', async (t) => {
  const files = allFiles.filter((path) => /^test\/(?!support\/|bench\/|house\/tidy).*\.ts$/.test(path));
  // A clock may be declared and called; the global may not.
  const waits = /(?<![\w.])set(Timeout|Interval)\((?!fn)|['"](node:)?timers\/promises['"]/;
  const waiting = files.filter((path) => waits.test(textOf(path).replace(/^.*setImmediate as .*$/m, '')));
  t.strictSame(
    waiting.filter((path) => realTime[path] === undefined),
    [],
    'none waits unlisted',
  );
  t.strictSame(
    Object.keys(realTime).filter((path) => !waiting.includes(path)),
    [],
    'none is listed that does not wait',
  );
});

t.test('the top level has exactly the given entries', async (t) => {
  const given = [
    'CHANGELOG.md',
    'Dockerfile',
    'LICENSE',
    'README.md',
    'SECURITY.md',
    'biome.json',
    'knip.json',
    'package.json',
    'package-lock.json',
  ];
  const rooms = ['bin', 'docs', 'machines', 'src', 'storage', 'test'];
  const allowed = new Set([...given, 'tsconfig.json', ...rooms]);
  const top = new Set(allFiles.map((path) => path.split('/')[0] ?? ''));
  t.strictSame(
    [...top].filter((name) => !name.startsWith('.') && !allowed.has(name)),
    [],
  );
});

t.test('files are named in kebab-case', async (t) => {
  const code = allFiles.filter((path) => /^(bin|src|machines|storage|test)\//.test(path));
  t.strictSame(
    code.filter((path) => !/^[a-z0-9-]+(\/[a-z0-9-]+)*(\.[a-z0-9]+)+$/.test(path)),
    [],
  );
});

t.test('no test is skipped for good or runs alone', async (t) => {
  const tests = allFiles.filter((path) => path.startsWith('test/') && path.endsWith('.ts'));
  t.strictSame(linesWith(/\b\w+\.(only|todo)\(\w|\b(skip|todo|only): true/, tests), []);
});

t.test('there is no import cycle', async (t) => {
  t.strictSame(cycles(new Map(sources.map((path) => [path, importsOf(path, textOf(path))]))), []);
  t.strictSame(
    cycles(
      new Map([
        ['a', ['b']],
        ['b', ['c']],
        ['c', ['b']],
      ]),
    ),
    ['b → c → b'],
    'a cycle would be seen',
  );
});

t.test('the linter refuses every import that a room may not have, and no other', async (t) => {
  const directory = t.testdir({});
  copyFileSync('biome.json', join(directory, 'biome.json'));
  const probes = Object.entries(importTable).flatMap(([room, { allowed, refused }]) => [
    ...allowed.map((source) => ({ room, source, isRefused: false })),
    ...refused.map((source) => ({ room, source, isRefused: true })),
  ]);
  for (const { room, path } of Object.entries(importTable).map(([room, { file }]) => ({
    room,
    path: join(directory, room, file),
  }))) {
    mkdirSync(dirname(path), { recursive: true });
    const own = probes.filter((probe) => probe.room === room);
    writeFileSync(path, own.map(({ source }) => `import '${source}';\n`).join(''));
  }
  const biome = resolve('node_modules/.bin/biome');
  const options = [
    'lint',
    '--only=style/noRestrictedImports',
    '--vcs-enabled=false',
    '--reporter=json',
    '--max-diagnostics=none',
  ];
  const { stdout } = spawnSync(biome, [...options, '.'], { cwd: directory, encoding: 'utf8' });
  const { diagnostics } = JSON.parse(stdout) as {
    diagnostics: { location: { path: string; start: { line: number } } }[];
  };
  const seen = new Set(diagnostics.map(({ location }) => `${location.path}:${location.start.line}`));
  const wrong: string[] = [];
  for (const [room, { file }] of Object.entries(importTable)) {
    for (const [index, { source, isRefused }] of probes.filter((probe) => probe.room === room).entries()) {
      const at = `${join(room, file)}:${index + 1}`;
      if (seen.has(at) !== isRefused) wrong.push(`${room} ${isRefused ? 'allows' : 'refuses'} ${source}`);
    }
  }
  t.strictSame(wrong, []);
});

t.test('no object literal spreads another literal [docs/STYLE.md, Object literals]', (t) => {
  const grouped = /\.\.\.\{/;
  t.match('{ ...{ a, b }, c }', grouped, 'the pattern sees one');
  t.strictSame(linesWith(grouped, sources), []);
  t.end();
});

interface Room {
  /** Name of the probe in the room. */
  readonly file: string;
  readonly allowed: readonly string[];
  readonly refused: readonly string[];
}

/** `up`: relative path from the room to `src`. */
const doorRefuses = (up: string) => [
  `${up}../storage/contract.ts`,
  `${up}../machines/partner.ts`,
  `${up}partners/client.ts`,
  `${up}hub/kernel/directory.ts`,
  `${up}main.ts`,
];
const doorAllows = (up: string) => [
  'fastify',
  'zod',
  `${up}transport/envelope.ts`,
  `${up}domain/party.ts`,
  `${up}hub/ports/hub.ts`,
];
const hubRefuses = (up: string) => [
  'fastify',
  'zod',
  'undici',
  `${up}transport/envelope.ts`,
  `${up}ocpi/server.ts`,
  `${up}admin/server.ts`,
  `${up}../storage/level/store.ts`,
  `${up}partners/client.ts`,
];

/** Rooms of the hub from the lowest to the highest; each may import the ones below it. */
const roomsOfHub = [
  ...['ports', 'kernel', 'partners', 'exchange', 'delivery', 'notify', 'pull', 'maintain', 'onboarding', 'views'],
];

function hubRooms(): Record<string, Room> {
  const rooms = roomsOfHub.map((name, index): [string, Room] => {
    const known = (others: readonly string[]) => others.map((other) => `../${other}/any.ts`);
    const allowed = ['./any.ts', '../../domain/party.ts', '../../kit/clock.ts', ...known(roomsOfHub.slice(0, index))];
    const refused = [...hubRefuses('../../'), '../create-hub.ts', ...known(roomsOfHub.slice(index + 1))];
    return [`src/hub/${name}`, { file: 'probe.ts', allowed, refused }];
  });
  return Object.fromEntries(rooms);
}

const importTable: Readonly<Record<string, Room>> = {
  'src/domain': {
    file: 'probe.ts',
    allowed: ['./party.ts'],
    refused: [
      'node:fs',
      'zod',
      'xstate',
      '../hub/ports/ports.ts',
      '../transport/envelope.ts',
      '../../machines/partner.ts',
      '../main.ts',
    ],
  },
  machines: {
    file: 'probe.ts',
    allowed: ['xstate', './partner.ts', '../src/domain/retry.ts'],
    refused: [
      'node:timers',
      'node:fs/promises',
      'undici',
      '../storage/contract.ts',
      '../src/hub/ports/ports.ts',
      '../src/config/config.ts',
    ],
  },
  'src/kit': {
    file: 'probe.ts',
    allowed: ['./clock.ts'],
    refused: [
      'node:timers/promises',
      'xstate',
      '../domain/party.ts',
      '../hub/ports/ports.ts',
      '../../storage/contract.ts',
    ],
  },
  storage: {
    file: 'probe.ts',
    allowed: ['level', 'node:fs/promises', './contract.ts', './level/store.ts', '../src/kit/clock.ts'],
    refused: ['xstate', 'fastify', '../src/domain/party.ts', '../machines/partner.ts', '../src/log.ts'],
  },
  'storage/level': {
    file: 'probe.ts',
    allowed: ['level', 'node:fs/promises', '../contract.ts', './leveldb.ts', '../../src/kit/clock.ts'],
    refused: ['pg', '../postgres/store.ts', '../migrate.ts', '../../src/domain/party.ts'],
  },
  'storage/postgres': {
    file: 'probe.ts',
    allowed: ['pg', '../contract.ts', '../level/backup.ts', './connect.ts'],
    refused: ['level', '../migrate.ts', '../../src/domain/party.ts'],
  },
  'src/api': {
    file: 'probe.ts',
    allowed: ['zod', './common.ts', '../domain/events.ts'],
    refused: ['node:fs', 'fastify', '../hub/ports/operator.ts', '../admin/server.ts', '../kit/clock.ts'],
  },
  'src/transport': {
    file: 'probe.ts',
    allowed: ['zod', '../domain/errors.ts', '../kit/url.ts', './envelope.ts'],
    refused: [
      'fastify',
      'undici',
      '../hub/ports/hub.ts',
      '../hub/ports/ports.ts',
      '../ocpi/server.ts',
      '../../storage/contract.ts',
    ],
  },
  'src/hub': {
    file: 'probe.ts',
    allowed: ['./kernel/context.ts', './views/trace.ts', '../domain/party.ts', '../../storage/contract.ts', 'xstate'],
    refused: [...hubRefuses('../'), 'node:fs'],
  },
  ...hubRooms(),
  'src/partners': {
    file: 'probe.ts',
    allowed: [
      'undici',
      './wire/exchange.ts',
      '../transport/envelope.ts',
      '../domain/errors.ts',
      '../kit/clock.ts',
      '../hub/ports/ports.ts',
    ],
    refused: [
      'fastify',
      '../hub/ports/hub.ts',
      '../../storage/contract.ts',
      '../../machines/partner.ts',
      '../ocpi/server.ts',
    ],
  },
  'src/partners/wire': {
    file: 'probe.ts',
    allowed: ['undici', './exchange.ts', '../../domain/quirks.ts', '../../kit/clock.ts', 'node:net'],
    refused: ['fastify', 'zod', '../outcome.ts', '../../transport/envelope.ts', '../../hub/ports/ports.ts'],
  },
  'src/ocpi': {
    file: 'server.ts',
    allowed: [...doorAllows('../'), './modules/sessions.ts'],
    refused: [...doorRefuses('../'), '../admin/server.ts'],
  },
  'src/ocpi/modules': {
    file: 'sessions.ts',
    allowed: [...doorAllows('../../'), '../route.ts'],
    refused: [...doorRefuses('../../'), './tariffs.ts', '../server.ts', '../../admin/server.ts'],
  },
  'src/admin': {
    file: 'server.ts',
    allowed: [...doorAllows('../'), './nouns/parties.ts'],
    refused: [...doorRefuses('../'), '../ocpi/server.ts'],
  },
  'src/admin/nouns': {
    file: 'parties.ts',
    allowed: [...doorAllows('../../'), '../fields.ts'],
    refused: [...doorRefuses('../../'), './routes.ts', '../server.ts', '../../ocpi/server.ts'],
  },
  'src/console': {
    file: 'probe.ts',
    allowed: ['ws', '../kit/clock.ts', '../hub/ports/hub.ts'],
    refused: [
      '../../storage/contract.ts',
      '../../machines/partner.ts',
      '../admin/server.ts',
      '../hub/kernel/directory.ts',
    ],
  },
  'src/console/page': {
    file: 'probe.ts',
    allowed: ['preact', 'preact/hooks', '@preact/signals', './data/api.ts'],
    refused: [
      'node:fs',
      'fastify',
      'ws',
      '../../hub/ports/hub.ts',
      '../../hub/ports/operator.ts',
      '../assets.ts',
      '../../admin/server.ts',
    ],
  },
  'src/sandbox': {
    file: 'probe.ts',
    allowed: ['undici', 'node:http', '../kit/clock.ts', './server.ts'],
    refused: [
      '../hub/ports/hub.ts',
      '../domain/party.ts',
      '../transport/envelope.ts',
      '../../storage/contract.ts',
      '../main.ts',
    ],
  },
  'src/cli': {
    file: 'probe.ts',
    allowed: ['commander', '../main.ts', '../config/config.ts', '../sandbox/partner.ts', './serve.ts'],
    refused: [
      '../hub/ports/hub.ts',
      '../ocpi/server.ts',
      '../admin/server.ts',
      '../partners/client.ts',
      '../../machines/partner.ts',
      'fastify',
    ],
  },
  bin: {
    file: 'probe.ts',
    allowed: ['commander', '../src/cli/serve.ts', '../src/version.ts'],
    refused: ['../src/main.ts', '../src/hub/ports/hub.ts', '../storage/level/store.ts', 'fastify'],
  },
  'src/config': {
    file: 'probe.ts',
    allowed: ['node:fs', 'zod', './settings.ts', '../hub/ports/ports.ts', '../kit/url.ts'],
    refused: ['../main.ts', '../hub/ports/hub.ts', '../ocpi/server.ts', '../../storage/contract.ts', 'fastify'],
  },
  src: {
    file: 'secrets.ts',
    allowed: ['node:crypto', './config/config.ts', './hub/ports/ports.ts', './kit/url.ts'],
    refused: ['./main.ts', './hub/ports/hub.ts', './ocpi/server.ts', '../storage/contract.ts', 'fastify'],
  },
};

/** Sources that a file imports, statically or dynamically, as paths from the root of the repository. */
function importsOf(path: string, text: string): string[] {
  const found = text.matchAll(/(?:\bfrom\s+|\bimport\s*\(?\s*)'(\.{1,2}\/[^']+)'/g);
  return [...found].map(([, source = '']) => join(dirname(path), source));
}

/** Each import cycle once, starting at the file that the walk reaches first. */
function cycles(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [];
  const done = new Set<string>();
  const walk = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path);
    if (start >= 0) found.push([...trail.slice(start), path].join(' → '));
    if (start >= 0 || done.has(path)) return;
    for (const next of graph.get(path) ?? []) walk(next, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) walk(path, []);
  return found;
}
