/**
 * docs/CONFORMANCE.md against the code: every rule has one row, every row names sources and tests that exist, and the tag stands in
 * the title of a test there that `npm test` runs.
 */
import { existsSync, readFileSync } from 'node:fs';
import { t } from '../support/tap.ts';

/** Numbered rules of each section of the interface. */
const numbered: Readonly<Record<string, number>> = {
  'What the service does': 8,
  Credentials: 8,
  Commands: 6,
  Sessions: 6,
  Authentication: 9,
  'Delivery rules': 8,
  Versioning: 5,
};
const decisions = 94;

/** Rows that must be there, each of them proved by a test that carries its name as a tag. */
const demanded: readonly string[] = [
  ...Object.entries(numbered).flatMap(([section, count]) => upTo(count).map((rule) => `${section} ${rule}`)),
  ...upTo(decisions).map((decision) => `D${decision}`),
];

const columns = ['rule', 'says', 'obeyed in', 'proved by'] as const;

interface Row {
  readonly line: number;
  /** By column; undefined where the row has no such cell. */
  readonly cells: readonly (string | undefined)[];
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

/** The rows of all tables, without their heads. */
function rowsOf(document: string): Row[] {
  return document.split('\n').flatMap((text, index) => {
    if (!text.startsWith('|') || /^\|[\s|:-]+$/.test(text)) return [];
    const cells = text
      .replace(/^\|/, '')
      .replace(/\|\s*$/, '')
      .split('|');
    const trimmed = cells.map((cell) => cell.trim());
    return trimmed.join() === columns.join() ? [] : [{ line: index + 1, cells: trimmed }];
  });
}

/** What stands in back quotes: a path, and what goes with it. */
function citations(cell: string): { path: string; rest: string }[] {
  return [...cell.matchAll(/`([^`\s]+)\s*([^`]*)`/g)].map(([, path = '', rest = '']) => ({ path, rest: rest.trim() }));
}

/**
 * Each tag of a title by itself: `[interface, Sessions 1 and 6; D15]` is `interface, Sessions 1`, `interface, Sessions 6` and `D15`;
 * `D31–D33` and `Versioning 1–3` are three each.
 */
function tagsIn(title: string): string[] {
  return [...title.matchAll(/\[([^\]]+)\]/g)].flatMap(([, list = '']) => list.split(';').flatMap(tagsOfPart));
}

function tagsOfPart(part: string): string[] {
  const [, prefix = '', list = ''] = /^(interface, )?(.*)$/.exec(part.trim()) ?? [];
  let section = '';
  return list.split(/, | and /).flatMap((item) => {
    const range = /^(.*?)(\d+)(?:–\D*(\d+))?$/.exec(item);
    if (!range) return [`${prefix}${item}`];
    const [, named = '', from = '', to = from] = range;
    section = named || section;
    return upTo(Number(to))
      .slice(Number(from) - 1)
      .map((number) => `${prefix}${section}${number}`);
  });
}

/** Titles of the tests in a source that are not left to the campaign, also those of templates and those on a line of their own. */
function titlesOf(source: string): string[] {
  const code = source.replace(/^\s*\/\/.*$/gm, '');
  const found = [...code.matchAll(/\b(?:\w+\.test|eachList|browserTest)\(\s*(['"`])((?:\\.|(?!\1)[\s\S])*)\1/g)];
  return found.flatMap(({ 0: { length }, 2: title = '', index }, nth) =>
    isLeft(code.slice(index + length, found[nth + 1]?.index)) ? [] : [title],
  );
}

/** By what follows the title of a test, up to the next one. */
const isLeft = (rest: string) => /^,\s*(?:atLength|longer),/.test(rest);

type Read = (path: string) => string | null;

const onDisk: Read = (path) => (existsSync(path) ? readFileSync(path, 'utf8') : null);

/** Everything that is wrong with a document, one sentence each. */
function faultsOf(document: string, read: Read, wanted: readonly string[] = []): string[] {
  const rows = rowsOf(document);
  const ids = rows.map(({ cells }) => cells[0] ?? '');
  return [
    ...rows.flatMap((row) => faultsOfRow(row, read)),
    ...ids.filter((id, index) => ids.indexOf(id) < index).map((id) => `${id} stands twice`),
    ...wanted.filter((id) => !ids.includes(id)).map((id) => `${id} has no row`),
    ...rows.filter(({ cells }) => wanted.includes(cells[0] ?? '')).flatMap(withoutOwnTag),
  ];
}

function faultsOfRow({ line, cells }: Row, read: Read): string[] {
  const missing = columns.filter((_, column) => !cells[column]);
  if (missing.length > 0) return missing.map((column) => `line ${line} has no ${column}`);
  if (cells.length > columns.length) return [`line ${line} has a cell too many`];
  const [id = '', , obeyed = '', proved = ''] = cells;
  const [sources, tests] = [citations(obeyed), citations(proved)];
  return [
    ...(sources.length === 0 ? [`${id} names no source`] : []),
    ...(tests.length === 0 ? [`${id} names no test`] : []),
    ...sources.flatMap((cited) => faultsOfSource(id, cited, read(cited.path))),
    ...tests.flatMap((cited) => faultsOfTest(id, cited, read(cited.path))),
  ];
}

function faultsOfSource(id: string, { path, rest }: { path: string; rest: string }, text: string | null): string[] {
  if (!/^(src|machines|storage)\//.test(path)) return [`${id}: ${path} is no source`];
  if (text === null) return [`${id}: ${path} does not exist`];
  const names = rest.split(/\s+/).filter((name) => name !== '');
  return names.filter((name) => !new RegExp(`\\b${name}\\b`).test(text)).map((name) => `${id}: ${path} has no ${name}`);
}

function faultsOfTest(id: string, { path, rest }: { path: string; rest: string }, text: string | null): string[] {
  if (!/^test\/.*\.test\.ts$/.test(path)) return [`${id}: ${path} is no test`];
  if (text === null) return [`${id}: ${path} does not exist`];
  const tag = /^\[(.+)\]$/.exec(rest)?.[1];
  if (tag === undefined) return [`${id}: ${path} is named without a tag`];
  return titlesOf(text).flatMap(tagsIn).includes(tag) ? [] : [`${id}: no title in ${path} has [${tag}]`];
}

/** A rule's own name is what leads from it to its test and back. */
function withoutOwnTag({ cells }: Row): string[] {
  const [id = '', , , proved = ''] = cells;
  const own = /^D\d+$/.test(id) ? `[${id}]` : `[interface, ${id}]`;
  return citations(proved).some(({ rest }) => rest === own) ? [] : [`${id} is not proved by a test of its own name`];
}

t.test('every rule has a row, and every row leads to code and to a test', async (t) => {
  const document = readFileSync('docs/CONFORMANCE.md', 'utf8');
  t.ok(rowsOf(document).length > demanded.length, `${rowsOf(document).length} rows`);
  t.strictSame(faultsOf(document, onDisk, demanded), []);
});

t.test('the list of required rules is complete', async (t) => {
  t.equal(demanded.length, 8 + 8 + 6 + 6 + 9 + 8 + 5 + 94);
  t.equal(new Set(demanded).size, demanded.length);
  t.ok(['What the service does 8', 'Sessions 1', 'D1', 'D94'].every((id) => demanded.includes(id)));
});

// The checks themselves, on small documents

const files: Readonly<Record<string, string>> = {
  'src/a.ts': 'export function push() {}',
  'test/a.test.ts': "t.test('it is so [D1]', async () => {});",
};
const small: Read = (path) => files[path] ?? null;
const head = '| rule | says | obeyed in | proved by |\n| --- | --- | --- | --- |\n';
const good = '| D1 | It is so. | `src/a.ts push` | `test/a.test.ts [D1]` |';

t.test('a correct document has no fault', async (t) => {
  t.strictSame(faultsOf(`# Title\n\nText with a | in it.\n\n${head}${good}\n`, small, ['D1']), []);
});

const broken: [what: string, row: string, faults: string[]][] = [
  ['an empty rule', good.replace(' D1 ', '  '), ['line 3 has no rule']],
  ['an empty sentence', good.replace('It is so.', ''), ['line 3 has no says']],
  ['an empty source', good.replace('`src/a.ts push`', ''), ['line 3 has no obeyed in']],
  ['an empty test', good.replace('`test/a.test.ts [D1]`', ''), ['line 3 has no proved by']],
  ['a row that ends early', '| D1 | It is so. |', ['line 3 has no obeyed in', 'line 3 has no proved by']],
  ['a cell too many', `${good} more |`, ['line 3 has a cell too many']],
  ['a source in words', good.replace('`src/a.ts push`', 'somewhere'), ['D1 names no source']],
  ['a test in words', good.replace('`test/a.test.ts [D1]`', 'somehow'), ['D1 names no test']],
  ['a source that is gone', good.replace('src/a.ts', 'src/b.ts'), ['D1: src/b.ts does not exist']],
  ['a source that is a test', good.replace('src/a.ts push', 'test/a.test.ts'), ['D1: test/a.test.ts is no source']],
  ['a name that is gone', good.replace('push', 'pull'), ['D1: src/a.ts has no pull']],
  ['a part of a name', good.replace('push', 'pus'), ['D1: src/a.ts has no pus']],
  ['a test that is gone', good.replace('test/a.', 'test/b.'), ['D1: test/b.test.ts does not exist']],
  ['a test that is a source', good.replace('test/a.test.ts', 'src/a.ts'), ['D1: src/a.ts is no test']],
  ['no tag', good.replace(' [D1]`', '`'), ['D1: test/a.test.ts is named without a tag']],
  ['a tag that is gone', good.replace('[D1]', '[D2]'), ['D1: no title in test/a.test.ts has [D2]']],
  ['a row that stands twice', `${good}\n${good}`, ['D1 stands twice']],
];
for (const [what, row, faults] of broken) {
  t.test(`${what} is a fault`, async (t) => t.strictSame(faultsOf(`${head}${row}\n`, small), faults));
}

t.test('a rule without a row is a fault, named', async (t) => {
  const document = readFileSync('docs/CONFORMANCE.md', 'utf8');
  for (const id of demanded) {
    const without = document.split('\n').filter((line) => !line.startsWith(`| ${id} |`));
    t.equal(without.length, document.split('\n').length - 1, `${id} stands once`);
    const found = faultsOf(without.join('\n'), () => null, demanded);
    t.ok(found.includes(`${id} has no row`), `${id} would be missed`);
  }
});

t.test('a rule that only tests of other rules prove is a fault', async (t) => {
  const row = '| D2 | It is so, too. | `src/a.ts` | `test/a.test.ts [D1]` |';
  t.strictSame(faultsOf(`${head}${row}\n`, small, ['D2']), ['D2 is not proved by a test of its own name']);
});

t.test('titles are found wherever they are written, and nothing else is', async (t) => {
  const source = [
    "t.test('one [D1]', async (t) => {",
    '  t.test(\n    `a template: two [D2]`,\n  );',
    '  await t.test("three isn\'t [D3]", fn);',
    "eachList('four \\'quoted\\' [D4]', check);",
    "browserTest('nine [D9]', async (t, browser) => {",
    "// t.test('five [D5]', fn);",
    "const text = 'six [D6]'; // t.equal(x, 'seven [D7]')",
    '/** [D8] */',
    "t.test('left [L1]', atLength, async (t) => {});",
    "t.test(\n  'left [L2]',\n  longer,\n  async (t) => {},\n);",
    "browserTest('left [L3]', atLength, async (t, browser) => {\n  await go();\n});",
    "browserTest(\n  'left [L4]',\n  atLength,\n  async (t, browser) => {},\n);",
  ];
  t.strictSame(titlesOf(source.join('\n')).flatMap(tagsIn), ['D1', 'D2', 'D3', 'D4', 'D9']);
});

t.test('lists of tags are split', async (t) => {
  const rows: [title: string, tags: string[]][] = [
    ['x [D1]', ['D1']],
    ['x [D1] [D2, D3]', ['D1', 'D2', 'D3']],
    ['x [D31–D33]', ['D31', 'D32', 'D33']],
    ['x [interface, Commands 2]', ['interface, Commands 2']],
    ['x [interface, Sessions 1 and 6; D15]', ['interface, Sessions 1', 'interface, Sessions 6', 'D15']],
    [
      'x [interface, Credentials 1, 3, 7]',
      ['interface, Credentials 1', 'interface, Credentials 3', 'interface, Credentials 7'],
    ],
    [
      'x [interface, Versioning 1–3]',
      ['interface, Versioning 1', 'interface, Versioning 2', 'interface, Versioning 3'],
    ],
    ['x [interface, Commands 6, Errors]', ['interface, Commands 6', 'interface, Errors']],
    ['x [interface, Sessions (eMSP pulls), CDRs]', ['interface, Sessions (eMSP pulls)', 'interface, CDRs']],
  ];
  for (const [title, tags] of rows) t.strictSame(tagsIn(title), tags, title);
});
