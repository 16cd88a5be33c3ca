/** Runs all tests of some folders in this process, one file after the other, in order of their names. */
import { readdirSync } from 'node:fs';
import { closeShared, runFile } from './tap.ts';

const tests = new URL('../', import.meta.url);

/** `names`: folders of `test/`, or files in them without `.test.js`, where `*` is any part of a name; `!` before one leaves it out. */
export async function runFolders(...names: string[]): Promise<void> {
  const isLeftOut = (name: string) => name.startsWith('!');
  const leftOut = new Set(names.filter(isLeftOut).flatMap((name) => filesOf(name.slice(1))));
  const files = names.filter((name) => !isLeftOut(name)).flatMap(filesOf);
  for (const file of files) if (!leftOut.has(file)) await runFile(file, () => import(new URL(file, tests).href));
  await closeShared();
}

function filesOf(name: string): string[] {
  const [folder = '', pattern = '*'] = name.split('/');
  const [first = '', last] = pattern.split('*');
  const isMeant = (file: string) =>
    last === undefined ? file === `${first}.test.js` : file.startsWith(first) && file.endsWith(`${last}.test.js`);
  const found = readdirSync(new URL(`${folder}/`, tests))
    .sort()
    .filter(isMeant);
  if (found.length === 0) throw new Error(`no tests in ${name}`);
  return found.map((file) => `${folder}/${file}`);
}
