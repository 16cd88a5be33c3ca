/**
 * Whether depth costs: the first page and a page at offset 900,000 of a million objects, by turns, in one store, count included.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLevelStore } from '../../storage/level-store.ts';
import type { Bench } from './run.ts';
import { median, rounded } from './statistics.ts';

const objects = 1_000_000;
const perCommit = 500;
const deep = 900_000;
const limit = 100;
const turns = 200;

export const pages: Bench = {
  name: 'pages',
  says: 'a page of 100 at offset 900,000 of a million objects against the first page, total counted',
  async run(progress) {
    const directory = mkdtempSync(join(tmpdir(), 'ocpi-hub-pages-'));
    const store = await openLevelStore({ directory, node: 'bench' });
    const fence = store.held(0);
    if (!fence) throw new Error('the store is not ours');
    const event = { type: 'bench.filled', at: '2026-01-01T00:00:00.000Z', party: null, correlationId: null };
    for (let n = 0; n < objects; n += perCommit) {
      const puts = Array.from({ length: perCommit }, (_, i) => {
        const id = `tariff-${String((n + i) * 7919).padStart(12, '0')}`;
        const upd = new Date(1_700_000_000_000 + (((n + i) * 7919) % objects) * 1000).toISOString();
        return { kind: 'tariffs', owner: 'NL-CPO', id, shelf: 'NL-CPO', upd, data: { id }, body: `{"id":"${id}"}` };
      });
      const events = [{ ...event, stream: `fill/${n}`, to: [], data: null, body: null }];
      await store.append({ fence, idem: `fill-${n}`, events, puts });
      if ((n + perCommit) % 200_000 === 0) progress(`${n + perCommit} objects stored`);
    }
    const page = async (offset: number): Promise<number> => {
      const startedAt = performance.now();
      const { rows, total } = await store.list({ kind: 'tariffs', shelves: ['NL-CPO'], offset, limit });
      if (rows.length !== limit || total !== objects) throw new Error(`a page of ${rows.length} of ${total}`);
      return performance.now() - startedAt;
    };
    const first: number[] = [];
    const far: number[] = [];
    for (let turn = 0; turn < turns; turn++) {
      // Pages near each other, not one page again and again out of the cache.
      first.push(await page(turn * limit));
      far.push(await page(deep + turn * limit));
    }
    await store.close();
    rmSync(directory, { recursive: true, force: true });
    return {
      'objects on one shelf': objects,
      turns: turns,
      'first pages, median ms': rounded(median(first), 3),
      'pages from offset 900,000 on, median ms': rounded(median(far), 3),
      'ratio, deep to first': rounded(median(far) / median(first)),
    };
  },
};
