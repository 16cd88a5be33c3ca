/** What a start loads: the files of the bundle that `ocpi-hub serve` imports before it opens its store, and what they were made of. */
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { buildConnector, Client, errors, util } from 'undici';
import { t } from '../support/tap.ts';

const directory = 'dist/run';
const textOf = (file: string) => readFileSync(join(directory, file), 'utf8');

/** This file and those that it imports, which are loaded with it. */
function loadedWith(file: string, loaded = new Set<string>()): ReadonlySet<string> {
  if (loaded.has(file)) return loaded;
  loaded.add(file);
  for (const [, imported = ''] of textOf(file).matchAll(/^(?:import|\} from) ?"\.\/([^"]+)";$/gm))
    loadedWith(imported, loaded);
  return loaded;
}

t.test('a start loads nothing of its packages that only other work needs', async (t) => {
  const begins = readdirSync(directory).filter((file) => /^(program|serve-\w+|main-\w+)\.js$/.test(file));
  t.equal(begins.length, 3);
  const sources = begins
    .flatMap((file) => [...loadedWith(file)])
    .flatMap((file) => (JSON.parse(textOf(`${file}.map`)) as { sources: string[] }).sources);
  for (const used of [/fastify\/fastify\.js$/, /zod\/v4\/core\/core\.js$/, /undici\/lib\/core\/connect\.js$/])
    t.ok(
      sources.some((source) => used.test(source)),
      `${used}: the list is that of the bundle`,
    );
  const unused = {
    'compilers of JSON schemas': /\/(ajv\/|light-my-request\/|fast-json-stringify\/index\.js)/,
    'messages of zod in other languages': /\/zod\/v4\/locales\/(?!en\.js)/,
    'fetch, caches and WebSockets of undici':
      /\/undici\/(index\.js|lib\/(web\/(?!fetch|webidl|infra)|cache|mock|api|interceptor))/,
    'what makes the log readable on a terminal': /\/pino-pretty\//,
    'sign-in, mail, the other store': /\/(openid-client|nodemailer|pg)\//,
  };
  for (const [what, unwanted] of Object.entries(unused))
    t.strictSame(
      sources.filter((source) => unwanted.test(source)),
      [],
      what,
    );
});

/** By its path: a part of undici that the hub loads, as the public interface gives it. The public interface loads all of undici. */
const partsOfUndici = {
  'core/connect.js': (part: unknown) => part === buildConnector,
  'core/errors.js': (part: unknown) => part === errors,
  'core/util.js': (part: typeof util) => part.parseHeaders === util.parseHeaders,
  'dispatcher/client.js': (part: unknown) => part === Client,
};

t.test('what is loaded of undici by its path is the same as by its public interface', async (t) => {
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  const loaded = files.flatMap((file) =>
    [...readFileSync(join('src', file), 'utf8').matchAll(/^import .* from 'undici\/lib\/(.+)';$/gm)].map(
      ([, path]) => path,
    ),
  );
  t.strictSame([...new Set(loaded)].sort(), Object.keys(partsOfUndici));
  const load = createRequire(import.meta.url);
  for (const [path, isSame] of Object.entries(partsOfUndici)) t.ok(isSame(load(`undici/lib/${path}`)), path);
});
