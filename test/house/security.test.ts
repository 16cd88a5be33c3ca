/** What SECURITY.md promises has a test that is there, and the documents name no file that is not. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { t } from '../support/tap.ts';

const documents = execFileSync('git', ['ls-files', '-co', '--exclude-standard', '*.md'], { encoding: 'utf8' })
  .split('\n')
  .filter((path) => path !== '' && existsSync(path));
const text = readFileSync('SECURITY.md', 'utf8');

/** Files of the repository that a text names in code. */
const named = (text: string) =>
  [...text.matchAll(/`((?:test|src|storage|machines|bin|docs)\/[\w./-]*\w)`/g)].map(([, path = '']) => path);

t.test('every promise names what the operator does for it, and its test', async (t) => {
  const [, promises = ''] = /^## Promises\n(.*?)^## /ms.exec(text) ?? [];
  const rows = [...promises.matchAll(/^\| \*\*([^*]+)\*\* (.+) \| (.+) \| (.+) \|$/gm)].map(([, number, ...cells]) => ({
    number: number as string,
    cells,
  }));
  const numbers = rows.map(({ number }) => number);
  t.strictSame(
    numbers.filter((number) => /^I\d+$/.test(number)),
    Array.from({ length: 16 }, (_, index) => `I${index + 1}`),
  );
  t.ok(numbers.filter((number) => number.startsWith('Data: ')).length >= 5, 'and what is promised of data');
  const isShown = (cell = '') => named(cell).some((path) => path.endsWith('.test.ts')) || cell.includes('not shown by');
  t.strictSame(
    rows.filter(({ cells }) => !isShown(cells[2])),
    [],
  );
});

/** They name files that would be made, or were. */
const ofExamples: readonly string[] = ['docs/HOW-TO-ADD.md', 'docs/STYLE.md'];

t.test('every file that a document names or links to exists', async (t) => {
  const missing: string[] = [];
  for (const document of documents) {
    const written = readFileSync(document, 'utf8');
    const links = [...written.matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)(?:#[^)]*)?\)/g)].map(([, path = '']) =>
      join(dirname(document), path),
    );
    const inCode = ofExamples.includes(document) ? [] : named(written);
    for (const path of [...links, ...inCode]) if (!existsSync(path)) missing.push(`${document}: ${path}`);
  }
  t.strictSame(missing, []);
  t.ok(named(text).filter((path) => path.startsWith('test/')).length > 60, 'the pattern sees them');
});
