/** Large answers to deliveries: a partner that lets many come and ends none has a bounded part of the memory, and others notice nothing. */
import type { OutboundCall } from '../../src/hub/ports/ports.ts';
import { partnerClient } from '../../src/partners/client.ts';
import { egressGuard } from '../../src/partners/egress.ts';
import { AnswerRoom } from '../../src/partners/wire/answer-room.ts';
import { Exchange } from '../../src/partners/wire/exchange.ts';
import { eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { authority, key, valid } from './certificates.ts';
import { envelope, http, stranger } from './stranger.ts';

const delivery = (url: string, partner: string): OutboundCall => ({
  method: 'PUT',
  url: `${url}/ocpi/2.2.1/sessions/NL/TNM/101`,
  token: 'partner-token-1234567890',
  encoding: 'base64',
  from: null,
  to: null,
  requestId: 'request-1',
  correlationId: 'correlation-1',
  body: '{"id":"101"}',
  timeoutMs: 60_000,
  emptyOk: false,
  resend: true,
  isDelivery: true,
  about: { partner, module: 'sessions', object: null },
});

/** Bytes that have come of the answer of each exchange. */
function bytesRead(t: Pick<Test, 'teardown'>): Map<Exchange, number> {
  const read = new Map<Exchange, number>();
  const { received } = Exchange.prototype;
  t.teardown(() => {
    Exchange.prototype.received = received;
  });
  Exchange.prototype.received = function (bytes) {
    read.set(this, bytes);
    received.call(this, bytes);
  };
  return read;
}

const answer = http(200, envelope(1000, { data: 'x'.repeat(1_000_000) }));
const forms = [
  { name: 'plain', text: answer },
  { name: 'over TLS', text: answer, tls: { key, cert: valid } },
  { name: 'for the full parser', text: answer.replace('HTTP/1.1', 'HTTP/1.0') },
];

for (const { name, text, tls } of forms) {
  t.test(`eight large answers of a partner are read at a time, further ones wait: ${name} [EXCHANGE-7]`, async (t) => {
    const read = bytesRead(t);
    const bytes = Buffer.from(text);
    const begun = bytes.length - 1;
    const ends: (() => void)[] = [];
    const hanging = await stranger((socket) => {
      socket.write(bytes.subarray(0, begun));
      ends.push(() => socket.write(bytes.subarray(begun)));
    }, tls);
    const good = await stranger((socket) => socket.write(bytes), tls);
    const client = partnerClient({ egress: egressGuard(['127.0.0.0/8']), trusted: authority });
    t.teardown(() => Promise.all([client.close(), hanging.close(), good.close()]));
    const calls = Array.from({ length: 12 }, () => client.call(delivery(hanging.url, 'NL-BAD')));
    const readWhole = () => [...read.values()].filter((count) => count === begun).length;
    await eventually('twelve have come, eight but for the last byte', () => read.size === 12 && readWhole() >= 8);
    t.equal((await client.call(delivery(good.url, 'NL-OTH'))).class, 'delivered', 'another partner has its own room');
    t.equal(readWhole(), 8);
    const waiting = [...read.values()].filter((count) => count < begun);
    t.ok(
      waiting.every((count) => count <= 256 * 1024),
      `of the others came ${waiting.join(', ')}`,
    );
    for (const end of ends) end();
    const outcomes = await Promise.all(calls);
    t.same([...new Set(outcomes.map((outcome) => outcome.class))], ['delivered'], 'all come to their end');
  });
}

t.test('an answer that ends, or stops waiting, admits the next ones [ANSWER-ROOM-1] [ANSWER-ROOM-2]', async (t) => {
  const room = new AnswerRoom(10);
  const entered: string[] = [];
  const take = (name: string, bytes: number, partner = 'NL-BAD') =>
    room.take(partner, bytes, () => void entered.push(name));
  const [first, second, third, fourth, huge] = [6, 6, 4, 4, 20].map((bytes, n) => take(`answer ${n}`, bytes));
  if (!first || !second || !third || !fourth || !huge) throw new Error('there are five');
  t.same(
    [first, second, third, fourth, huge].map(({ isIn }) => isIn),
    [true, false, false, false, false],
    'none overtakes another',
  );
  t.ok(take('other', 20, 'NL-OTH').isIn, 'another partner has its own room, and one is in whatever it takes');
  room.leave('NL-BAD', second);
  t.same(entered.splice(0), ['answer 2']);
  room.leave('NL-BAD', first);
  t.same(entered.splice(0), ['answer 3']);
  room.leave('NL-BAD', third);
  t.same(entered, [], 'there is no room for so much yet');
  room.leave('NL-BAD', fourth);
  t.same(entered, ['answer 4']);
  room.leave('NL-BAD', huge);
  t.ok(take('again', 10).isIn);
});
