/** Runs all tests of some folders in this process, one file after the other, in order of their names. */
import { readdirSync } from 'node:fs';
import { runFile } from './tap.ts';

const tests = new URL('../', import.meta.url);

/** `names`: folders of `test/`, or files in them without `.test.ts`. */
export async function runFolders(...names: string[]): Promise<void> {
  for (const file of names.flatMap(filesOf)) await runFile(file, () => import(new URL(file, tests).href));
}

function filesOf(name: string): string[] {
  const [folder = '', only] = name.split('/');
  const all = readdirSync(new URL(`${folder}/`, tests)).sort();
  const found = all.filter((file) => (only === undefined ? file.endsWith('.test.ts') : file === `${only}.test.ts`));
  if (found.length === 0) throw new Error(`no tests in ${name}`);
  return found.map((file) => `${folder}/${file}`);
}
