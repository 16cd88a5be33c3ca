/**
 * What every request of the hub says of itself, and answers that are compressed although it asks for none. [D57]
 */
import { readFileSync } from 'node:fs';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import type { Outcome } from '../../src/domain/errors.ts';
import type { OutboundCall } from '../../src/hub/ports/ports.ts';
import { partnerClient } from '../../src/partners/client.ts';
import { egressGuard } from '../../src/partners/egress.ts';
import { foreignText } from '../../src/partners/wire/exchange.ts';
import { callsOfAllKinds } from '../support/all-calls.ts';
import { isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { envelope, stranger } from './stranger.ts';

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };

t.test(
  'every request names the hub and its version and accepts no compression; a firewall lets it pass [D57]',
  async (t) => {
    const { cpo, emsp } = await callsOfAllKinds(t, (usual) => (received) => {
      return received.headers['user-agent'] === undefined ? { status: 403, text: 'Forbidden' } : usual(received);
    });
    const all = [...cpo.asked, ...emsp.asked, ...cpo.received, ...emsp.received];
    t.ok(all.length >= 10, `${all.length} requests`);
    for (const { method, path, headers } of all) {
      t.equal(headers['user-agent'], `ocpi-hub/${version}`, `${method} ${path}`);
      t.equal(headers['accept-encoding'], 'identity', `${method} ${path}`);
    }
  },
);

t.test('a partner that compresses every answer is understood in every kind of call [D57]', async (t) => {
  await callsOfAllKinds(t, (usual) => (received) => {
    const { body, status = 200 } = usual(received);
    const text = gzipSync(envelope(1000, { data: body }));
    return { status, text, headers: { 'Content-Encoding': 'gzip' } };
  });
});

const answerMax = 64 * 1024;
/** Of spaces, many times as much as may come. */
const bomb = Buffer.alloc(isAtLength ? 50_000_000 : 2_000_000, ' ');
const zippedBomb = gzipSync(bomb);
const good = Buffer.from(envelope(1000, { data: { id: '101' } }));
/** An envelope of so many bytes. */
const sized = (bytes: number) => Buffer.from(envelope(1000).padEnd(bytes, ' '));

interface Row {
  readonly name: string;
  readonly encoding: string;
  readonly bytes: Buffer;
  readonly status?: number;
  readonly expected: string;
  readonly message?: RegExp;
  readonly emptyOk?: true;
}

const rows: readonly Row[] = [
  { name: 'gzip', encoding: 'gzip', bytes: gzipSync(good), expected: 'delivered' },
  { name: 'gzip in capitals', encoding: ' GZIP', bytes: gzipSync(good), expected: 'delivered' },
  { name: 'x-gzip', encoding: 'x-gzip', bytes: gzipSync(good), expected: 'delivered' },
  { name: 'deflate', encoding: 'deflate', bytes: deflateSync(good), expected: 'delivered' },
  { name: 'br', encoding: 'br', bytes: brotliCompressSync(good), expected: 'delivered' },
  { name: 'identity', encoding: 'identity', bytes: good, expected: 'delivered' },
  { name: 'the name of a character set', encoding: 'utf-8', bytes: good, expected: 'delivered' },
  { name: 'gzip that is none', encoding: 'gzip', bytes: good, expected: 'delivered' },
  { name: 'gzip of nothing', encoding: 'gzip', bytes: Buffer.alloc(0), emptyOk: true, expected: 'delivered' },
  { name: 'gzip of an error', encoding: 'gzip', bytes: gzipSync('<h1>no'), status: 503, expected: 'unavailable' },
  {
    ...{ name: 'gzip of a refusal', encoding: 'gzip', bytes: gzipSync(envelope(2001, { status_message: 'no such' })) },
    ...{ status: 400, expected: 'client_error', message: /OCPI 2001: no such/ },
  },
  {
    ...{ name: 'another encoding', encoding: 'zstd', bytes: Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]) },
    ...{ expected: 'invalid_response', message: /not JSON \(Content-Encoding: zstd\)/ },
  },
  {
    ...{ name: 'half of a gzip', encoding: 'gzip', bytes: gzipSync(good).subarray(0, 30), emptyOk: true },
    ...{ expected: 'invalid_response', message: /not JSON \(Content-Encoding: gzip\)/ },
  },
  { name: 'as much as may come', encoding: 'gzip', bytes: gzipSync(sized(answerMax)), expected: 'delivered' },
  {
    ...{ name: 'a byte more than may come', encoding: 'gzip', bytes: gzipSync(sized(answerMax + 1)) },
    ...{ expected: 'invalid_response', message: /larger/ },
  },
  {
    ...{ name: 'a bomb', encoding: 'gzip', bytes: zippedBomb },
    ...{ expected: 'invalid_response', message: /larger/ },
  },
  {
    ...{ name: 'a bomb of brotli', encoding: 'br', bytes: brotliCompressSync(bomb) },
    ...{ expected: 'invalid_response', message: /larger/ },
  },
  {
    ...{ name: 'a bomb as an error', encoding: 'gzip', bytes: zippedBomb, status: 404 },
    expected: 'not_found',
  },
];

/** The outcome of a call that is answered so. */
async function answeredWith(status: number, field: string, bytes: Buffer, emptyOk = false): Promise<Outcome> {
  const partner = await stranger((socket) => {
    const head = `HTTP/1.1 ${status} Word\r\n${field}\r\nContent-Length: ${bytes.length}\r\n\r\n`;
    socket.write(Buffer.concat([Buffer.from(head), bytes]));
  });
  const client = partnerClient({ egress: egressGuard(['127.0.0.0/8']), answerMax });
  const call: OutboundCall = {
    ...{ method: 'POST', url: `${partner.url}/cdrs`, token: 'partner-token', encoding: 'base64', body: '{}' },
    ...{ from: null, to: null, requestId: 'request-1', correlationId: 'correlation-1', timeoutMs: 30_000 },
    ...{ emptyOk, resend: true },
  };
  const outcome = await client.call(call);
  await client.close();
  await partner.close();
  return outcome;
}

t.test('a compressed answer is limited by its uncompressed size [D57]', async (t) => {
  for (const { name, encoding, bytes, status = 200, expected, message = /./, emptyOk = false } of rows) {
    const outcome = await answeredWith(status, `Content-Encoding: ${encoding}`, bytes, emptyOk);
    t.equal(outcome.class, expected, `${name}: ${outcome.message}`);
    t.match(outcome.message, message, name);
  }
});

t.test('an answer that is not in UTF-8 is read in its own character set, and that is counted [D17, D70]', async (t) => {
  const [before, after] = envelope(1000, { data: { name: '|' } }).split('|');
  const named = (...bytes: (string | number)[]) =>
    Buffer.concat(
      [before ?? '', ...bytes, after ?? ''].map((one) => Buffer.from(typeof one === 'string' ? one : [one])),
    );
  const rows: [type: string, bytes: Buffer, name: string, isForeign?: boolean][] = [
    ['; charset=ISO-8859-1', named('Caf', 0xe9), 'Café'],
    ['', named('Caf', 0xe9), 'Café'],
    ['; charset=utf-8', named('Caf', 0xe9), 'Café'],
    ['; charset=of-nobody', named('Caf', 0xe9), 'Café'],
    ['; charset="koi8-r"', named(0xcb, 0xc9, 0xc5, 0xd7), 'киев'],
    ['; charset=windows-1252', named(0x80, 0x92, 0x96), '€’–'],
    ['; charset=latin1', named(0x80, 0xe9), '€é'],
    // One text that was cut in the middle of a letter spoils no other.
    ['', named('Köln €', 0xc3), 'Köln €\ufffd'],
    ['; charset=utf-8', named('Köln', 0xff), 'Köln\ufffd'],
    ['; charset=ISO-8859-1', named('Café \ufffd'), 'Café \ufffd', false],
  ];
  for (const [type, bytes, name, isForeign = true] of rows) {
    const { class: ended, data, quirks } = await answeredWith(200, `Content-Type: application/json${type}`, bytes);
    t.same([ended, data, quirks], ['delivered', { name }, isForeign ? ['not-utf8'] : []], `${name}, stated: ${type}`);
  }
});

t.test('each byte of Windows-1252 has its character, also in a large text', async (t) => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const special = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';
  const text = [...bytes].map((byte) => special[byte - 0x80] ?? String.fromCharCode(byte)).join('');
  const times = 4_096;
  for (const charset of ['windows-1252', 'ISO-8859-1'])
    t.equal(foreignText(bytes, '', `text/plain; charset=${charset}`), text, charset);
  const large = foreignText(Buffer.concat(Array(times).fill(bytes)), '', '');
  t.ok(large === text.repeat(times), `${large?.length} characters`);
});
