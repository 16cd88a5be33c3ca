/**
 * The harness of the benches: what a bench says is worth what its load and its receiver count.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { inOrder } from './baselines/in-order.ts';
import { start as startLoad } from './load.ts';
import { start as startReceiver } from './receiver.ts';
import { objectMark, type RequestShape, sentMember } from './request.ts';
import { quantile, ratios, spread } from './statistics.ts';

const shape: RequestShape = {
  method: 'PUT',
  path: `/EMSP/2.2.1/sessions/NL/CPO/S${objectMark}`,
  headers: { 'Content-Type': 'application/json' },
  body: `{${sentMember}"id":"S${objectMark}"}`,
};

interface Sent {
  readonly path: string;
  readonly serial: number;
  readonly instant: number;
  readonly id: string;
}

/** A server that answers with what it is given, and what it was sent. */
async function server(t: Test, answer: (n: number) => Promise<string>): Promise<{ url: string; sent: Sent[] }> {
  const sent: Sent[] = [];
  const http = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const { x_sent, id } = JSON.parse(Buffer.concat(chunks).toString()) as { x_sent: string; id: string };
    const [serial = '', instant = ''] = x_sent.split('-');
    sent.push({ path: request.url ?? '', serial: Number(serial), instant: Number(instant), id });
    response.end(await answer(sent.length));
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  t.teardown(() => {
    http.close();
    http.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`, sent };
}

const success = '{"status_code":1000}';

/** Calls a verb of a part as its process would. */
async function verb<Result>(
  part: { verbs: Readonly<Record<string, unknown>> },
  name: string,
  args = {},
): Promise<Result> {
  return (part.verbs[name] as (args: object) => Result | Promise<Result>)(args);
}

t.test(
  'closed loop: the given number of requests, each once, objects in turn, refusals counted apart',
  atLength,
  async (t) => {
    const { url, sent } = await server(t, async (n) => (n % 5 === 0 ? '{"status_code":2001}' : success));
    const load = await startLoad();
    const options = { url, shape, connections: 4, objects: 3, seconds: 60, requests: 20 };
    const outcome = await verb<{ accepted: number; refused: number }>(load, 'closed', options);
    t.match(outcome, { accepted: 16, refused: 4 });
    const serials = sent.map(({ serial }) => serial).sort((a, b) => a - b);
    t.strictSame(serials, [...Array(20).keys()]);
    for (const { path, serial, id } of sent) {
      t.equal(id, `S${String(serial % 3).padStart(7, '0')}`);
      t.ok(path.endsWith(`/${id}`));
    }
  },
);

t.test('open loop: requests carry the instants of the schedule, however late answers come', atLength, async (t) => {
  const held: (() => void)[] = [];
  let isHeld = true;
  const { url, sent } = await server(t, async () => {
    if (isHeld) await new Promise<void>((resolve) => held.push(resolve));
    return success;
  });
  const load = await startLoad();
  const options = { url, shape, connections: 2, objects: 1000, seconds: 0.2, perS: 500 };
  const running = verb<{ accepted: number }>(load, 'open', options);
  // Until after the last request was due nothing is answered, so all but two wait for a connection.
  while (sent.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
  await new Promise((resolve) => setTimeout(resolve, 400));
  t.equal(sent.length, 2);
  isHeld = false;
  for (const release of held) release();
  const { accepted } = await running;
  t.equal(accepted, 100);
  const first = sent.find(({ serial }) => serial === 0);
  for (const { serial, instant } of sent) t.equal(Math.round((instant - (first?.instant ?? 0)) / 2000), serial);
});

t.test('receiver: a repeated delivery counts once, for each partner separately', atLength, async (t) => {
  const receiver = await startReceiver({ partners: 2 });
  t.teardown(() => verb(receiver, 'close'));
  const { urls } = receiver.ready as { urls: string[] };
  const put = async (url: string | undefined, serial: number) => {
    const body = `{"x_sent":"${String(serial).padStart(8, '0')}-${'1'.padStart(16, '0')}"}`;
    const answer = await fetch(`${url}/EMSP/2.2.1/sessions/NL/CPO/S1`, {
      method: 'PUT',
      body,
      headers: { Connection: 'close' },
    });
    t.match(await answer.json(), { status_code: 1000 });
  };
  for (const serial of [1, 2, 2, 70_000]) await put(urls[0], serial);
  await put(urls[1], 2);
  t.match(await verb(receiver, 'arrivals'), { arrived: 4, repeated: 1 });
  await verb(receiver, 'reset');
  await put(urls[0], 2);
  t.match(await verb(receiver, 'arrivals'), { arrived: 1, repeated: 0 });
  const get = async (url = '') =>
    (await fetch(url, { headers: { Connection: 'close' } })).json() as Promise<{ data: unknown }>;
  const versions = await get(`${urls[0]}/CPO/versions`);
  const [{ url = '' } = {}] = versions.data as { url?: string }[];
  const details = await get(url);
  t.match(details, { data: { version: '2.2.1', endpoints: [{ identifier: 'credentials' }] } });
});

t.test('work of a baseline: in order and one at a time for an object, with a bounded number at once', async (t) => {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const push = inOrder<string>(2, (work) => {
    begun.push(work);
    return new Promise<void>((resolve) => ends.set(work, resolve));
  });
  const end = async (work: string) => {
    ends.get(work)?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  for (const work of ['a1', 'a2', 'b1', 'c1', 'a3']) push(work.charAt(0), work);
  t.strictSame(begun, ['a1', 'b1']);
  await end('b1');
  t.strictSame(begun, ['a1', 'b1', 'c1']);
  await end('a1');
  await end('a2');
  await end('a3');
  t.strictSame(begun, ['a1', 'b1', 'c1', 'a2', 'a3']);
  push('a', 'a4');
  t.equal(begun.at(-1), 'a4', 'an object that was done begins anew');
});

t.test('statistics: median, extremes, and ratios within each round', async (t) => {
  t.strictSame(spread([3, 1, 2]), { median: 2, min: 1, max: 3 });
  t.equal(quantile([5, 1, 4, 2, 3], 0.95), 5);
  t.strictSame(ratios([2, 30, 400], [1, 10, 100]), { median: 3, min: 2, max: 4 });
});
