/** A start after weeks in which a partner failed now and then. */
import { join } from 'node:path';
import { partnerHistory } from '../../src/hub/kernel/log-reads.ts';
import type { StoredEvent } from '../../storage/contract.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const stream = 'partner:NL-EMS';
const reason = 'calls failed';
const change = (
  type: 'circuit.opened' | 'circuit.closed',
  circuit: 'sync' | 'async',
  module?: 'sessions' | 'cdrs',
) => ({
  stream,
  event: { type, data: { circuit, ...(module && { module }), reason, by: 'hub' as const } },
  party: null,
});

t.test('[LOG-READS-4] a start reads the events of a partner once, in pages, and holds the latest', async (t) => {
  const dataDir = join(directoryFor(t), 'data');
  const first = await hubFor(t, {}, {}, dataDir);
  await routedPair(t, first, {});
  const { recorder, store } = first.created.context;
  const before = await store.history(stream);
  const record = (facts: ReturnType<typeof change>[]) =>
    recorder.record({ facts, puts: [], trace: null, at: recorder.instant() });
  await record([change('circuit.opened', 'async')]);
  for (let n = 0; n < 10; n++) {
    const both = [change('circuit.opened', 'async', 'cdrs'), change('circuit.closed', 'async', 'cdrs')];
    await record(Array.from({ length: 50 }, () => both).flat());
  }
  await record([change('circuit.closed', 'async', 'sessions'), change('circuit.opened', 'sync')]);
  const history = await partnerHistory(store, 'NL-EMS');
  t.strictSame(
    history.slice(before.length).map(({ type, data }) => [type, data]),
    [
      change('circuit.opened', 'async'),
      change('circuit.closed', 'async', 'cdrs'),
      change('circuit.closed', 'async', 'sessions'),
      change('circuit.opened', 'sync'),
    ].map(({ event: { type, data } }) => [type, data]),
  );
  t.strictSame(history.slice(0, before.length), before, 'what no later event says anew');
  const total = (await store.history(stream)).length;
  await first.close();

  const pages: StoredEvent[][] = [];
  let most = 0;
  const wrap = wrapStore((inner) => ({
    history: async (of, after, limit = Number.POSITIVE_INFINITY) => {
      const page = await inner.history(of, after, limit);
      if (of === stream) pages.push(page);
      if (of === stream) most = Math.max(most, limit);
      return page;
    },
  }));
  const { circuits } = (await hubFor(t, {}, { wrap }, dataDir)).created.context;
  t.ok(most <= 500, `${most} at once`);
  t.equal(pages.flat().length, total);
  const states = (['sync', 'locations', 'sessions', 'cdrs'] as const).map((name) => circuits.state('NL-EMS', name));
  t.strictSame(states, ['halfOpen', 'halfOpen', 'closed', 'closed']);
});
