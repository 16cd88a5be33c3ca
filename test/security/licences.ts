/**
 * What the product is made of besides its own code, from the lock file: every package that runs in production or is bundled into
 * the console's page, with version and licence. `docs/LICENSES.md` is written by it:
 *
 *     node dist/test/security/licences.js
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** What may be in the product: each lets it be used and passed on under its own licence. */
export const allowedLicences: ReadonlySet<string> = new Set([
  ...['Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'BlueOak-1.0.0', 'ISC', 'MIT', 'MIT-0', '0BSD', 'Unlicense'],
]);

/** Packages that run code when they are installed, and why they may. */
export const knownInstallScripts: Readonly<Record<string, string>> = {
  'classic-level':
    'takes the prebuilt LevelDB of the platform, which is in the package, or compiles it from the source beside it',
  esbuild: 'for development alone: checks the binary of the platform',
  'msgpackr-extract':
    'for one bench alone, by way of BullMQ: takes the prebuilt module of the platform, if there is one',
};

interface Locked {
  readonly version: string;
  readonly license?: string;
  readonly integrity?: string;
  readonly dev?: boolean;
  readonly devOptional?: boolean;
  readonly optional?: boolean;
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
}

export interface Package extends Locked {
  readonly name: string;
  readonly path: string;
}

const prefix = 'node_modules/';
const page = 'src/console/page';

export function lockedPackages(): Package[] {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Locked> };
  return Object.entries(packages)
    .filter(([path]) => path !== '')
    .map(([path, locked]) => ({ ...locked, path, name: path.slice(path.lastIndexOf(prefix) + prefix.length) }));
}

/** What `npm ci --omit=dev` installs. */
export function production(): Package[] {
  return lockedPackages().filter(({ dev, devOptional }) => !dev && !devOptional);
}

/** Development packages that the console's page imports, and what they need in turn: they are passed on inside it. */
export function bundled(): Package[] {
  const all = lockedPackages();
  const files = readdirSync(page, { encoding: 'utf8', recursive: true }).filter((path) => /\.tsx?$/.test(path));
  const sources = files.map((path) => readFileSync(`${page}/${path}`, 'utf8'));
  const imports = sources.flatMap((text) => [
    ...text.matchAll(/^(?:import|export) (?!type\b)[^;]*?from '([^.'][^']*)'/gm),
    ...text.matchAll(/\bimport\('([^.'][^']*)'\)/g),
  ]);
  const wanted = new Set(imports.map(([, source = '']) => packageOf(source)));
  for (const name of wanted) {
    for (const needed of Object.keys(all.find((one) => one.path === prefix + name)?.dependencies ?? {}))
      wanted.add(needed);
  }
  return all.filter(({ name, path, dev }) => dev === true && path === prefix + name && wanted.has(name));
}

/** `@preact/signals/utils` → `@preact/signals`. */
function packageOf(source: string): string {
  return source
    .split('/')
    .slice(0, source.startsWith('@') ? 2 : 1)
    .join('/');
}

/** The whole of `docs/LICENSES.md`. */
export function licencesText(): string {
  return `# Licences

ocpi-hub is under the Apache License 2.0 (\`LICENSE\`). It uses the packages below, each under its own licence; the text of each is in
the package. This page is written from the lock file by \`test/security/licences.ts\`, and a test fails when it is out of date.

## What runs in production (\`npm ci --omit=dev\`)

${table(production())}

## What is bundled into the console's page

${table(bundled())}
`;
}

function table(packages: readonly Package[]): string {
  const rows = packages.map(({ name, version, license }) => `| ${name} | ${version} | ${license ?? 'unknown'} |`);
  return ['| package | version | licence |', '|---|---|---|', ...new Set(rows.sort())].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync('docs/LICENSES.md', licencesText());
