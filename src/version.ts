/** Version and directory of the package, found both from the bundle and from the files that tests import. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

function packageDirectory(): string {
  let directory = import.meta.dirname;
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory);
    if (parent === directory) throw new Error('package.json is missing');
    directory = parent;
  }
  return directory;
}

/** The directory that contains `package.json` and `dist`. */
export const root: string = packageDirectory();

export const version: string = (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string })
  .version;
