/**
 * The version in `package.json`, found from the sources as well as from `dist/`.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

function packageText(): string {
  let directory = import.meta.dirname;
  while (!existsSync(join(directory, 'package.json'))) {
    const parent = dirname(directory);
    if (parent === directory) throw new Error('package.json is missing');
    directory = parent;
  }
  return readFileSync(join(directory, 'package.json'), 'utf8');
}

export const version: string = (JSON.parse(packageText()) as { version: string }).version;
