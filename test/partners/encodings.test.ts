/**
 * What every request of the hub says of itself, and answers that are compressed although it asks for none. [D57]
 */
import { readFileSync } from 'node:fs';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import type { OutboundCall } from '../../src/hub/ports/ports.ts';
import { partnerClient } from '../../src/partners/client.ts';
import { egressGuard } from '../../src/partners/egress.ts';
import { cdrBody, locationBody } from '../support/bodies.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { ended, quiet, statusOf } from '../support/observed.ts';
import { admin, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';
import { envelope, stranger } from './stranger.ts';

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };

/** Makes the hub call both in every way; each has to succeed. */
async function callsOfAllKinds(
  t: Test,
  around: (usual: (received: Received) => Reply) => (received: Received) => Reply,
) {
  const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '3600' });
  const usual = ({ path, headers }: Received): Reply => {
    const base = `http://${headers.host}/ocpi/2.2.1`;
    if (path === '/ocpi/versions') return { body: [{ version: '2.2.1', url: base }] };
    if (path === '/ocpi/2.2.1') {
      const identifiers = ['credentials', 'tokens', 'commands', 'locations', 'cdrs'];
      const endpoints = identifiers.flatMap((identifier) =>
        ['SENDER', 'RECEIVER'].map((role) => ({ identifier, role, url: `${base}/${identifier}` })),
      );
      return { body: { version: '2.2.1', endpoints } };
    }
    if (path.includes('/authorize')) return { body: { allowed: 'ALLOWED' } };
    if (path.includes('/commands/')) return { body: { result: 'ACCEPTED', timeout: 20 } };
    return path.includes('?') ? { body: [locationBody('PULLED')] } : {};
  };
  const answer = around(usual);
  const make = (role: 'CPO' | 'EMSP', partyId: string): Promise<PlainPartner> =>
    partnerFor(t, hub, { role, countryCode: 'NL', partyId, answer, discovery: answer });
  const [cpo, emsp] = [await make('CPO', 'CPO'), await make('EMSP', 'EMS')];
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  t.equal(statusOf(await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'))), '201/1000', 'a CDR');
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await quiet(hub);
  t.same((await admin(hub, 'GET', '/deliveries?state=DEAD')).items, [], 'deliveries');
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  const authorized = await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', {}, to);
  t.match([statusOf(authorized), authorized.json.data], ['200/1000', { allowed: 'ALLOWED' }], 'authorize');
  const start = { response_url: `${emsp.url}/results/1`, token: { uid: 'CARD1' }, location_id: 'LOC1' };
  const commanded = await emsp.call('POST', '/2.2.1/commands/START_SESSION', start);
  t.match([statusOf(commanded), commanded.json.data], ['200/1000', { result: 'ACCEPTED' }], 'a command');
  const sent = cpo.received.find(({ path }) => path.includes('/commands/'))?.body ?? '{}';
  const { response_url } = JSON.parse(sent) as { response_url: string };
  const path = new URL(response_url).pathname.slice('/ocpi'.length);
  t.equal(statusOf(await cpo.call('POST', path, { result: 'ACCEPTED' })), '200/1000', 'its result');
  const { id } = await admin(hub, 'POST', '/parties/NL-CPO/pull/locations', { full: true });
  const pull = await ended(hub, `/pulls/${String(id)}`);
  t.equal(pull.state, 'DONE', `a pull ${String(pull.error)}`);
  t.equal((await hub.created.hub.operations.probe('NL-CPO')).status, 'reachable', 'a probe');
  return [...cpo.asked, ...emsp.asked, ...cpo.received, ...emsp.received];
}

t.test(
  'every request names the hub and its version and asks for no compression; a firewall lets it pass [D57]',
  async (t) => {
    const all = await callsOfAllKinds(t, (usual) => (received) => {
      return received.headers['user-agent'] === undefined ? { status: 403, text: 'Forbidden' } : usual(received);
    });
    t.ok(all.length >= 10, `${all.length} requests`);
    for (const { method, path, headers } of all) {
      t.equal(headers['user-agent'], `ocpi-hub/${version}`, `${method} ${path}`);
      t.equal(headers['accept-encoding'], 'identity', `${method} ${path}`);
    }
  },
);

t.test('a partner that compresses whatever is asked is understood by every kind of call [D57]', async (t) => {
  await callsOfAllKinds(t, (usual) => (received) => {
    const { body, status = 200 } = usual(received);
    const text = gzipSync(envelope(1000, { data: body }));
    return { status, text, headers: { 'Content-Encoding': 'gzip' } };
  });
});

const answerMax = 64 * 1024;
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
    ...{ name: 'a bomb', encoding: 'gzip', bytes: gzipSync(Buffer.alloc(50_000_000, ' ')) },
    ...{ expected: 'invalid_response', message: /larger/ },
  },
  {
    ...{ name: 'a bomb of brotli', encoding: 'br', bytes: brotliCompressSync(Buffer.alloc(50_000_000, ' ')) },
    ...{ expected: 'invalid_response', message: /larger/ },
  },
  {
    ...{ name: 'a bomb as an error', encoding: 'gzip', bytes: gzipSync(Buffer.alloc(50_000_000, ' ')), status: 404 },
    expected: 'not_found',
  },
];

t.test('a compressed answer counts by what it says, up to the limit of what it says [D57]', async (t) => {
  for (const { name, encoding, bytes, status = 200, expected, message = /./, emptyOk = false } of rows) {
    const partner = await stranger((socket) => {
      const head = `HTTP/1.1 ${status} Word\r\nContent-Encoding: ${encoding}\r\nContent-Length: ${bytes.length}\r\n\r\n`;
      socket.write(Buffer.concat([Buffer.from(head), bytes]));
    });
    const client = partnerClient({ egress: egressGuard(['127.0.0.0/8']), closeGraceMs: 0, answerMax });
    const call: OutboundCall = {
      ...{ method: 'POST', url: `${partner.url}/cdrs`, token: 'partner-token', encoding: 'base64', body: '{}' },
      ...{ from: null, to: null, requestId: 'request-1', correlationId: 'correlation-1', timeoutMs: 30_000 },
      ...{ emptyOk, resend: true },
    };
    const outcome = await client.call(call);
    t.equal(outcome.class, expected, `${name}: ${outcome.message}`);
    t.match(outcome.message, message, name);
    await client.close();
    await partner.close();
  }
});
