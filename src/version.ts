/** What `package.json` says, and where it is: found from the bundle as well as from the files that tests import. */
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

/** The directory of `package.json`, in which `dist` is. */
export const root: string = packageDirectory();

export const version: string = (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string })
  .version;
