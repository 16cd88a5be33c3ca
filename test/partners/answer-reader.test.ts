import { AnswerReader, LastHead, type Reading } from '../../src/partners/wire/answer-reader.ts';
import { Exchange, type Met, type Sent } from '../../src/partners/wire/exchange.ts';
import { HandOver } from '../../src/partners/wire/hand-over.ts';
import { Random } from '../simulate/random.ts';
import { partOf } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const bodyMax = 200;
const sent: Sent = {
  ...{ method: 'PUT', origin: 'http://partner.example', hostname: 'partner.example', path: '/x' },
  ...{ fields: 'Content-Type: application/json\r\n', body: '{}' },
};

/** What the reader makes of the bytes in these pieces, each of which is overwritten afterwards as a socket's buffer is. */
function read(pieces: readonly Buffer[]): Reading {
  const reader = new AnswerReader(bodyMax);
  const shared = Buffer.alloc(64 * 1024);
  let reading: Reading = 'more';
  for (const piece of pieces) {
    piece.copy(shared);
    reading = reader.take(shared.subarray(0, piece.length));
    shared.fill(0x58, 0, piece.length);
    if (reading !== 'more') break;
  }
  return reading;
}

/** An exchange that nobody sends, and what it has met so far. */
function unsent(): { exchange: Exchange; met: () => Met | null } {
  let met: Met | null = null;
  const limits = { clock: new SimulatedClock(), timeoutMs: 1000, headMs: 1000, answerMax: bodyMax };
  const exchange = new Exchange(sent, limits, null, (settled) => {
    met = settled;
  });
  return { exchange, met: () => met };
}

/** What undici makes of them; null while it waits for more. */
async function fullyParsed(bytes: Buffer): Promise<Met | null> {
  const { exchange, met } = unsent();
  const over = new HandOver(sent, exchange, { pause() {}, resume() {}, destroy() {} });
  over.read(bytes);
  for (let turn = 0; turn < 4 && met() === null; turn++) await new Promise((resolve) => setImmediate(resolve));
  const before = met();
  over.end(new Error('the test is done'));
  await new Promise((resolve) => setImmediate(resolve));
  return before;
}

function cut(bytes: Buffer, random: Random): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = random.chance(0.5) ? bytes.length : at + random.between(1, 60);
    pieces.push(bytes.subarray(at, end));
    at = end;
  }
  return pieces;
}

const statuses = [
  '200 OK',
  '200',
  '200 ',
  '201 Created',
  '204 No Content',
  '304 Not Modified',
  '404 Nöt',
  '500 x\ty',
  '100 Continue',
];
const fields = [
  ...['Content-Type: application/json', 'Date: Mon, 04 May 2026 10:00:00 GMT', 'Set-Cookie: a=b', 'Set-Cookie: c=d'],
  ...['Connection: keep-alive', 'connection: close', 'Connection: Upgrade, Keep-Alive', 'Connection: x', 'Upgrade: h2'],
  ...[
    'Keep-Alive: timeout=5',
    'Keep-Alive: max=3, timeout=100',
    'X-Empty:',
    'X-Blanks: \t a b \t ',
    'Proxy-Connection: close',
  ],
  ...[
    'Trailer: X-T',
    'Content-Length: 3',
    'Transfer-Encoding: chunked',
    'Transfer-Encoding: gzip',
    'X-Ümlaut: ü',
    ' folded: x',
  ],
];
const texts = ['', '{}', '{"status_code":1000,"data":{"a":"é"}}', 'x'.repeat(150), 'y'.repeat(250)];
const chunkEnds = [
  '0\r\n\r\n',
  '0\r\n\r\n',
  '0\r\n\r\n',
  '00\r\n\r\n',
  '0;x=y\r\n\r\n',
  '0\r\nX-T: v\r\n\r\n',
  '0\n\n',
  '0\r\n\r\nHTTP/1.1',
];

function chunksOf(text: string, random: Random): string {
  const bytes = Buffer.from(text);
  let out = '';
  for (let at = 0; at < bytes.length; ) {
    const size = random.between(1, bytes.length - at);
    const digits =
      random.pick(['', '0', '00']) + (random.chance(0.5) ? size.toString(16) : size.toString(16).toUpperCase());
    const extension = random.weighted({ '': 20, ';a=b': 1, ' ': 1 });
    out += `${digits}${extension}\r\n${bytes.toString('latin1', at, at + size)}\r\n`;
    at += size;
  }
  return out + random.pick(chunkEnds);
}

const answer = (random: Random): Buffer =>
  random.chance(0.05)
    ? Buffer.concat([Buffer.from('HTTP/1.1 100 Continue\r\n\r\n'), oneAnswer(random)])
    : oneAnswer(random);

function oneAnswer(random: Random): Buffer {
  const text = random.pick(texts);
  const framed = random.weighted({ length: 10, chunked: 8, none: 1 });
  const chosen = Array.from({ length: random.between(0, 5) }, () => random.pick(fields)).filter(
    (field) => random.chance(0.05) || !/length|encoding|proxy|trailer|folded|: x/i.test(field),
  );
  const length = random.weighted({ right: 12, padded: 1, signed: 1, short: 1, long: 1 });
  const bytes = Buffer.byteLength(text);
  const said = {
    right: `${bytes}`,
    padded: `0${bytes}`,
    signed: `+${bytes}`,
    short: `${bytes - 1}`,
    long: `${bytes + 9}`,
  };
  if (framed === 'length') chosen.splice(random.between(0, chosen.length), 0, `Content-Length: ${said[length]}`);
  if (framed === 'chunked') chosen.push(random.pick(['Transfer-Encoding: chunked', 'transfer-encoding:Chunked\t']));
  const status = random.chance(0.7) ? '200 OK' : random.pick(statuses);
  const head = `${random.chance(0.97) ? 'HTTP/1.1' : 'HTTP/1.0'} ${status}\r\n${chosen.map((line) => `${line}\r\n`).join('')}\r\n`;
  const body = framed === 'chunked' ? chunksOf(text, random) : Buffer.from(text).toString('latin1');
  return bent(Buffer.from(head + body + random.weighted({ '': 30, x: 1, 'HTTP/1.1 200 OK\r\n': 1 }), 'latin1'), random);
}

/** Most as they are; of others a byte or a few are changed, gone, or there twice. */
function bent(bytes: Buffer, random: Random): Buffer {
  if (random.chance(0.8)) return bytes;
  const at = random.between(0, bytes.length - 1);
  const end = at + random.between(0, 3);
  const put = random.pick([
    '',
    '\r\n',
    '\n',
    '\r',
    ' ',
    '\0',
    ':',
    '\x7f',
    '0',
    '\xe9',
    bytes.toString('latin1', at, end + 2),
  ]);
  return Buffer.concat([bytes.subarray(0, at), Buffer.from(put, 'latin1'), bytes.subarray(end)]);
}

/** What undici is given of an answer that the reader takes: it ends the connection at a `100 Continue`. [ANSWER-READER-4] */
function withoutContinue(bytes: Buffer): Buffer {
  if (bytes.toString('latin1', 0, 12) !== 'HTTP/1.1 100') return bytes;
  const end = bytes.indexOf('\r\n\r\n');
  return end < 0 ? Buffer.alloc(0) : bytes.subarray(end + 4);
}

/** Blanks around a value are no part of it, and undici leaves those behind it. [RFC 9110, 5.5] */
const plain = (value: string | string[] | undefined) =>
  [value ?? ''].flat().map((one) => one.replace(/^[ \t]+|[ \t]+$/g, ''));

const gist = ({ status, text, headers }: Extract<Met, { kind: 'answer' }>) => ({
  status,
  text,
  headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, plain(value)])),
});

t.test(
  'every answer that the reader accepts undici accepts with the same result [ANSWER-READER-1] [ANSWER-READER-2]',
  async (t) => {
    const count = partOf(100_000);
    const seen = { plain: 0, more: 0, large: 0, unusual: 0 };
    const wrong: unknown[] = [];
    for (let n = 0; n < count && wrong.length < 5; n++) {
      const random = new Random(`answer ${n}`);
      const bytes = answer(random);
      const reading = read(cut(bytes, random));
      if (reading === 'unusual') {
        seen.unusual++;
        continue;
      }
      const met = await fullyParsed(withoutContinue(bytes));
      const is = (matches: boolean) => matches || wrong.push({ n, bytes: bytes.toString('latin1'), reading, met });
      if (reading === 'more') {
        seen.more++;
        is(met === null);
      } else if (reading === 'too large') {
        seen.large++;
        // undici waits for the bytes that a chunk announces.
        is(met === null || met.kind === 'tooLarge');
      } else {
        seen.plain++;
        const { status, fields, body } = reading;
        const own = unsent();
        own.exchange.answered(status, fields, body);
        const ownAnswer = own.met();
        is(met?.kind === 'answer' && ownAnswer?.kind === 'answer' && t.same(gist(ownAnswer), gist(met)));
      }
    }
    t.same(wrong, [], 'no answer is read differently');
    t.comment(`${count} answers: ${JSON.stringify(seen)}`);
    for (const [kind, times] of Object.entries(seen)) t.ok(times > count / 500, `${kind}: ${times} of ${count}`);
  },
);

t.test('one 100 Continue before the answer is skipped [ANSWER-READER-4]', (t) => {
  const [before, rest] = ['HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}'];
  const inPieces = (...pieces: string[]) => read(pieces.map((piece) => Buffer.from(piece)));
  for (let at = 0; at <= before.length; at++)
    t.match(inPieces(before.slice(0, at), before.slice(at) + rest), { status: 200, isLast: false }, `cut at ${at}`);
  t.match(inPieces('HTTP/1.1 100 \r\n', `\r\n${rest}`), { status: 200 });
  t.equal(inPieces(before, before + rest), 'unusual', 'no second one');
  const reader = new AnswerReader(bodyMax);
  t.equal(reader.take(Buffer.from(`${before}HTTP/1.0 200 OK\r\n\r\n`)), 'unusual');
  t.equal(`${reader.wire}`, 'HTTP/1.0 200 OK\r\n\r\n', 'undici is given the answer alone');
  t.end();
});

t.test('a head that differs from the last one of its connection is read for itself', (t) => {
  const last = new LastHead();
  const take = (text: string) => new AnswerReader(bodyMax, last).take(Buffer.from(text));
  const of = (length: number, rest = '') =>
    `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n${rest}\r\n${'x'.repeat(9)}`;
  for (const turn of ['first', 'second']) {
    t.match(take(of(9)), { status: 200, keptMs: null, isLast: false, body: { length: 9 } }, turn);
    t.match(take(of(8)), { isLast: true, body: { length: 8 } }, turn);
    t.match(take(of(9, 'Keep-Alive: timeout=5\r\n')), { keptMs: 5_000, body: { length: 9 } }, turn);
    t.match(take(of(8, 'Connection: close\r\n')), { isLast: true, body: { length: 8 } }, turn);
    t.equal(take(of(9, 'Content-Length: 9\r\n')), 'unusual', turn);
  }
  t.end();
});

t.test('a head in many pieces is not scanned again for each of them', (t) => {
  const head = Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Long: abcdefghijkl\r\n\r\n{}');
  const pieces = Array.from(head, (byte) => Buffer.from([byte]));
  t.equal(read(pieces), 'unusual', 'a byte at a time');
  t.match(read([head.subarray(0, 30), head.subarray(30, 45), head.subarray(45)]), { status: 200 }, 'in three pieces');
  t.end();
});
