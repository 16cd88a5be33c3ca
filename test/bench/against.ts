/**
 * `--against DIR`: another build of the hub, in a checkout that was built, takes turns with this one.
 */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';

const [, given] = /(?:^|\0)--against(?:=|\0)([^\0]+)/.exec(process.argv.slice(2).join('\0')) ?? [];

/** The arguments without it and its directory. */
export const otherArguments = process.argv
  .slice(2)
  .filter((argument, place, all) => !argument.startsWith('--against') && all[place - 1] !== '--against');

/** What runs the other build; null when there is none. */
export const otherBuild: readonly string[] | null = given === undefined ? null : commandIn(resolve(given));

function commandIn(directory: string): readonly string[] {
  const command = resolve(directory, 'dist/bin/ocpi-hub.js');
  if (!existsSync(command)) throw new Error(`--against: there is no ${command}; build it first`);
  return [process.execPath, command, 'serve'];
}
