/** What the hub's start says to the allocator of the C library, from `package.json`: each variable with its value. */
import { readFileSync } from 'node:fs';

export const allocatorIn = (text: string): Record<string, string> =>
  Object.fromEntries([...text.matchAll(/\b(MALLOC_\w+)=(\d+)/g)].map(([, name = '', value = '']) => [name, value]));

const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: { start: string } };

export const allocator = allocatorIn(scripts.start);
