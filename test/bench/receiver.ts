/**
 * Partners on the receiving side: one process that listens on as many ports as there are partners, answers every request with success and
 * counts. Plain sockets, so that receiving is never what is measured.
 *
 * TEST-RECEIVER-1  What arrives twice counts once, and is told apart.
 * TEST-RECEIVER-2  Only what carries a stamp waits for its answer, when answers are to take time.
 * TEST-RECEIVER-3  While one partner alone is slow, what arrives there is not measured: figures are of the others.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { testCert, testKey } from '../support/tls.ts';
import type { Part } from './part.ts';
import { instantMark, microseconds, readDigits, sentField, serialMark } from './request.ts';
import { quantile, rounded } from './statistics.ts';

export interface ReceiverReady {
  /** One for each partner. */
  readonly urls: readonly string[];
}

export interface Arrivals {
  /** Requests that carried a stamp, each counted once for each partner. */
  readonly arrived: number;
  readonly repeated: number;
  /** Microseconds of the monotonic clock. */
  readonly lastAt: number;
  /** From the stamp to the arrival. */
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
  /** Requests that carried a stamp and had no answer yet: most at a time, and the mean over all that arrived. */
  readonly inFlightMost: number;
  readonly inFlightMean: number;
}

const at = '2026-01-02T03:04:05Z';
const modules = {
  CPO: [
    ['credentials', 'SENDER'],
    ['tokens', 'RECEIVER'],
    ['sessions', 'SENDER'],
    ['locations', 'SENDER'],
  ],
  EMSP: [
    ['credentials', 'SENDER'],
    ['locations', 'RECEIVER'],
    ['sessions', 'RECEIVER'],
    ['tokens', 'SENDER'],
  ],
} as const;

const answerOf = (data: unknown) => {
  const body = JSON.stringify({ data, status_code: 1000, timestamp: at });
  return Buffer.from(
    `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
};
const done = answerOf(null);
const allowed = answerOf({ allowed: 'ALLOWED' });

/** Serials seen by one partner. */
class Seen {
  #serials = new Uint8Array(1 << 16);

  /** Whether it is new. */
  add(serial: number): boolean {
    while (serial >= this.#serials.length) {
      const wider = new Uint8Array(this.#serials.length * 2);
      wider.set(this.#serials);
      this.#serials = wider;
    }
    if (this.#serials[serial] === 1) return false;
    this.#serials[serial] = 1;
    return true;
  }
}

interface ReceiverOptions {
  readonly partners?: number;
  /** They speak TLS, with the certificate of tests. */
  readonly isTls?: boolean;
}

export async function start({ partners = 1, isTls = false }: ReceiverOptions): Promise<Part> {
  let seen: Seen[] = [];
  let latencies: number[] = [];
  let arrived = 0;
  let repeated = 0;
  let lastAt = 0;
  let answerMs = 0;
  /** The only one that takes `answerMs`; null: all do. */
  let slow: number | null = null;
  let inFlight = 0;
  let inFlightMost = 0;
  let inFlightSum = 0;
  const reset = () => {
    seen = Array.from({ length: partners }, () => new Seen());
    latencies = [];
    [arrived, repeated, lastAt, inFlightMost, inFlightSum] = [0, 0, 0, 0, 0];
  };
  reset();

  const isSlow = (partner: number) => answerMs > 0 && (slow === null || slow === partner);

  function note(partner: number, body: Buffer): void {
    // [TEST-RECEIVER-3]
    if (partner === slow) return;
    const field = body.indexOf(sentField);
    if (field < 0) return;
    const serialAt = field + sentField.length;
    const instantAt = serialAt + serialMark.length + 1;
    if (!seen[partner]?.add(readDigits(body, serialAt, serialMark.length))) {
      repeated++;
      return;
    }
    lastAt = microseconds();
    arrived++;
    latencies.push(lastAt - readDigits(body, instantAt, instantMark.length));
    inFlightMost = Math.max(inFlightMost, inFlight);
    inFlightSum += inFlight;
  }

  /** [TEST-RECEIVER-2] */
  function later(write: () => void): void {
    setTimeout(() => {
      inFlight--;
      write();
    }, answerMs);
  }

  function answer(partner: number, url: string, path: string, body: Buffer): Buffer {
    if (path.includes('/authorize')) return allowed;
    if (body.length > 0) {
      if (isSlow(partner)) inFlight++;
      note(partner, body);
      return done;
    }
    const [, role = '', last = ''] = path.split('/');
    const base = `${url}/${role}/2.2.1`;
    if (last === 'versions') return answerOf([{ version: '2.2.1', url: base }]);
    const offered = modules[role as keyof typeof modules].map(([identifier, side]) => {
      return { identifier, role: side, url: `${base}/${identifier}` };
    });
    return answerOf({ version: '2.2.1', endpoints: offered });
  }

  const servers: Server[] = [];

  async function listen(partner: number): Promise<string> {
    let url = '';
    const serveOne = (socket: Socket) =>
      serve(socket, (path, body) => {
        const bytes = answer(partner, url, path, body);
        if (isSlow(partner) && bytes === done) later(() => socket.write(bytes));
        else socket.write(bytes);
      });
    const options = { noDelay: true };
    const server = isTls
      ? createTlsServer({ ...options, cert: testCert, key: testKey }, serveOne)
      : createServer(options, serveOne);
    servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `${isTls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return url;
  }

  function arrivals(): Arrivals {
    const ms = (share: number) => rounded(quantile(latencies, share) / 1000, 3);
    return {
      arrived,
      repeated,
      lastAt,
      p50Ms: ms(0.5),
      p95Ms: ms(0.95),
      p99Ms: ms(0.99),
      maxMs: ms(1),
      inFlightMost,
      inFlightMean: inFlightSum / arrived,
    };
  }

  /** From now on an answer takes so long, of one partner or of all. */
  function answerAfter({ ms, partner = null }: { ms: number; partner?: number | null }): void {
    answerMs = ms;
    slow = partner;
  }

  /** Takes no connections any more. */
  function close(): void {
    for (const server of servers) server.close();
  }

  const urls = await Promise.all(Array.from({ length: partners }, (_, partner) => listen(partner)));
  const ready: ReceiverReady = { urls };
  return { ready, verbs: { reset, arrivals, arrived: () => arrived, answerAfter, close } };
}

/** Requests of one connection, answered in order. */
function serve(socket: Socket, answer: (path: string, body: Buffer) => void): void {
  let pending: Buffer | null = null;
  socket.on('data', (chunk) => {
    let bytes = pending ? Buffer.concat([pending, chunk]) : chunk;
    for (;;) {
      const headEnd = bytes.indexOf('\r\n\r\n');
      if (headEnd < 0) break;
      const head = bytes.toString('latin1', 0, headEnd);
      if (/^transfer-encoding:/im.test(head)) throw new Error('chunked requests are not read here');
      const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
      const end = headEnd + 4 + length;
      if (bytes.length < end) break;
      answer(head.split(' ', 2)[1] ?? '', bytes.subarray(headEnd + 4, end));
      bytes = bytes.subarray(end);
    }
    pending = bytes.length > 0 ? bytes : null;
  });
  // Whoever closes a connection has no use for it any more; what it owed is sent again over another.
  socket.on('error', () => socket.destroy());
}
