/** Writes the same few names over and over, as a hub does that is small; says how many times what is kept the heap has grown by. */
import { FifoCache } from '../../storage/level/caches.ts';

const names = 500;
const characters = 1000;
const used = (): number => {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
};
const kept = new FifoCache<string>(({ length }) => length);
const write = (times: number): void => {
  // Flat text of its own each time, as a body is.
  for (let n = 0; n < times; n++) kept.add(`row ${n % names}`, `${n}`.padEnd(characters, 'x').replace('x', 'y'));
};
write(10_000);
const before = used();
write(100_000);
console.log(
  `told ${JSON.stringify({ grown: (used() - before) / (names * characters), last: kept.get('row 499')?.length })}`,
);
