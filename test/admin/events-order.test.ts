/**
 * Reading the log from its end: the newest first, and what came since.
 */
import type { EventPage } from '../../src/api/events.ts';
import { tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { t } from '../support/tap.ts';

t.test('events are read from the end back to any event, and forward from there', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const push = async (id: string) => void (await cpo.call('PUT', `/2.2.1/tariffs/NL/CPO/${id}`, tariffBody(id)));
  const page = async (query: string) => (await admin(hub, 'GET', `/events?${query}`)) as unknown as EventPage;
  const seqs = ({ items }: EventPage) => items.map(({ seq }) => seq);
  for (let index = 0; index < 7; index++) await push(`T${index}`);
  await quiet(hub);

  const forwards = await page('limit=1000');
  const all = seqs(forwards);
  t.equal(forwards.last_seq, all.at(-1), 'the log was looked at to its end');
  const newest = await page('order=newest&limit=3');
  t.strictSame(seqs(newest), all.slice(-3).reverse());
  t.equal(newest.last_seq, all.at(-1));

  const found = [...seqs(newest)];
  for (let { next_cursor } = newest; next_cursor !== null; ) {
    const further = await page(`order=newest&limit=3&cursor=${next_cursor}`);
    found.push(...seqs(further));
    ({ next_cursor } = further);
  }
  t.strictSame(found, [...all].reverse(), 'page by page back to the beginning, each event once');

  await push('T7');
  await push('T8');
  const since = await page(`order=newest&after=${newest.last_seq}&type=object&party=NL-CPO`);
  t.strictSame(
    since.items.map(({ object }) => object),
    ['NL-CPO/T8', 'NL-CPO/T7'],
  );
  t.equal(since.next_cursor, null, 'nothing between was left out');
  const cut = await page(`order=newest&after=${newest.last_seq}&limit=1`);
  t.equal(Number(cut.next_cursor), Number(cut.last_seq) - 1, 'what was left out can be counted');
  t.strictSame(seqs(await page(`order=newest&after=${since.last_seq}`)), [], 'and nothing comes twice');
});

t.test('the stream supports both orders, and refuses an unknown one', async (t) => {
  const hub = await hubFor(t);
  await routedPair(t, hub);
  const get = (query: string) =>
    callOnce('GET', `${hub.url}/admin/v1/events?${query}`, undefined, {
      authorization: `Bearer ${hub.adminToken}`,
      accept: 'application/x-ndjson',
    });
  const read = async (query: string) => {
    const { text } = await get(query);
    return text
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { seq: number }).seq);
  };
  const all = await read('');
  t.ok(all.length > 3, `${all.length} events`);
  t.strictSame(await read('order=newest'), [...all].reverse());
  t.strictSame(await read('order=newest&limit=2'), all.slice(-2).reverse());
  t.equal((await get('order=sideways')).status, 422);
});
