/**
 * The load: one request again and again over plain sockets, serialised once and stamped in place, so that the load is never what is measured.
 *
 * TEST-BENCH-LOAD-1  Closed loop: a connection sends its next request when the last one is answered.
 * TEST-BENCH-LOAD-2  Open loop: requests fall due at fixed instants, whatever the answers do; what finds every connection busy waits, and its stamp is
 *     the instant at which it was due, so that waiting counts as latency.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { testCert } from '../support/tls.ts';
import type { Part } from './part.ts';
import {
  instantMark,
  microseconds,
  objectMark,
  type RequestShape,
  serialMark,
  wireText,
  writeDigits,
} from './request.ts';
import { quantile, rounded } from './statistics.ts';

interface LoadOptions {
  /** Of several, connections take turns. */
  readonly url: string | readonly string[];
  readonly shape: RequestShape;
  readonly connections: number;
  /** Objects that take turns. */
  readonly objects: number;
  /** The first of them, and by how many the next one is further on; 0 and 1 when absent. */
  readonly from?: number;
  readonly step?: number;
}

export interface ClosedLoad extends LoadOptions {
  /** It ends with whichever comes first. */
  readonly seconds: number;
  readonly requests?: number;
}

export interface OpenLoad extends LoadOptions {
  readonly seconds: number;
  readonly perS: number;
}

export interface LoadOutcome {
  /** Requests answered with success of OCPI, and others. */
  readonly accepted: number;
  readonly refused: number;
  /** First line of the first refusal. */
  readonly refusal: string | null;
  /** From the first request to the last answer. */
  readonly seconds: number;
  /** From the instant a request was due to its answer. */
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
}

/** In the body of every answer of success. */
const success = '"status_code":1000';

/** End of an answer in chunks, without trailers. */
const lastChunk = '\r\n0\r\n\r\n';

/** How often due requests are looked for. */
const tickMs = 1;

export async function start(): Promise<Part> {
  return { ready: {}, verbs: { closed, open } };
}

class Tally {
  accepted = 0;
  refused = 0;
  refusal: string | null = null;
  serial = 0;
  readonly latencies: number[] = [];
  readonly startedAt = microseconds();
  lastAt = this.startedAt;

  outcome(): LoadOutcome {
    const { accepted, refused, refusal, latencies } = this;
    const [p50Ms = 0, p95Ms = 0, p99Ms = 0] = [0.5, 0.95, 0.99].map((share) =>
      rounded(quantile(latencies, share) / 1000, 3),
    );
    return { accepted, refused, refusal, seconds: (this.lastAt - this.startedAt) / 1e6, p50Ms, p95Ms, p99Ms };
  }
}

/** One connection with its own copy of the request; when it is closed, another one in its place. */
class Line {
  readonly #to: { readonly port: number; readonly host: string };
  readonly #isTls: boolean;
  readonly #request: Buffer;
  readonly #marks: { readonly objects: number[]; readonly serial: number; readonly instant: number };
  readonly #tally: Tally;
  readonly #objectOf: (serial: number) => number;
  #socket: Socket;
  #pending: Buffer | null = null;
  #dueAt = 0;
  #isClosed = false;
  onAnswer: () => void = () => {};

  private constructor({ protocol, hostname, port, host }: URL, options: LoadOptions, tally: Tally) {
    const { shape, objects, from = 0, step = 1 } = options;
    const text = wireText(shape, host);
    this.#to = { port: Number(port), host: hostname };
    this.#isTls = protocol === 'https:';
    this.#request = Buffer.from(text);
    this.#tally = tally;
    this.#objectOf = (serial) => (from + serial * step) % objects;
    const ends = (mark: string) => [...text.matchAll(new RegExp(mark, 'g'))].map(({ index }) => index + mark.length);
    this.#marks = { objects: ends(objectMark), serial: ends(serialMark)[0] ?? -1, instant: ends(instantMark)[0] ?? -1 };
    this.#socket = this.#connected();
  }

  static async open(url: string, options: LoadOptions, tally: Tally): Promise<Line> {
    const line = new Line(new URL(url), options, tally);
    await once(line.#socket, line.#isTls ? 'secureConnect' : 'connect');
    return line;
  }

  #connected(): Socket {
    const to = { ...this.#to, noDelay: true };
    const socket = this.#isTls ? connectTls({ ...to, ca: testCert }) : connect(to);
    socket.on('data', (chunk) => this.#read(chunk));
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNRESET' && error.code !== 'EPIPE') throw error;
    });
    socket.on('close', () => {
      if (this.#isClosed) return;
      this.#socket = this.#connected();
      this.#pending = null;
      if (this.#dueAt > 0) this.#answered('the connection was closed before the answer', false);
    });
    return socket;
  }

  /** `dueAt` in microseconds. */
  send(dueAt: number): void {
    const serial = this.#tally.serial++;
    const { objects, serial: serialEnd, instant } = this.#marks;
    for (const end of objects) writeDigits(this.#request, end, objectMark.length, this.#objectOf(serial));
    if (serialEnd > 0) writeDigits(this.#request, serialEnd, serialMark.length, serial);
    if (instant > 0) writeDigits(this.#request, instant, instantMark.length, dueAt);
    this.#dueAt = dueAt;
    this.#socket.write(this.#request);
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    const bytes = this.#pending ? Buffer.concat([this.#pending, chunk]) : chunk;
    const headEnd = bytes.indexOf('\r\n\r\n');
    const head = headEnd < 0 ? '' : bytes.toString('latin1', 0, headEnd);
    const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    const isWhole = /^transfer-encoding: *chunked/im.test(head)
      ? bytes.indexOf(lastChunk, bytes.length - lastChunk.length) >= 0
      : bytes.length >= headEnd + 4 + length;
    if (headEnd < 0 || !isWhole) {
      this.#pending = bytes;
      return;
    }
    this.#pending = null;
    this.#answered(head, bytes.includes(success, headEnd));
  }

  #answered(head: string, isSuccess: boolean): void {
    const tally = this.#tally;
    const now = microseconds();
    tally.lastAt = now;
    tally.latencies.push(now - this.#dueAt);
    this.#dueAt = 0;
    if (isSuccess) tally.accepted++;
    else {
      tally.refused++;
      tally.refusal ??= head.split('\r\n')[0] ?? '';
    }
    this.onAnswer();
  }
}

async function linesOf(options: LoadOptions, tally: Tally): Promise<Line[]> {
  const urls = [options.url].flat();
  const urlOf = (line: number) => urls[line % urls.length] ?? '';
  return Promise.all(Array.from({ length: options.connections }, (_, line) => Line.open(urlOf(line), options, tally)));
}

/** [TEST-BENCH-LOAD-1] */
async function closed(options: ClosedLoad): Promise<LoadOutcome> {
  const { requests = Number.POSITIVE_INFINITY, seconds } = options;
  const tally = new Tally();
  const lines = await linesOf(options, tally);
  const endAt = microseconds() + seconds * 1e6;
  await Promise.all(
    lines.map(
      (line) =>
        new Promise<void>((resolve) => {
          const next = () => {
            const now = microseconds();
            if (now < endAt && tally.serial < requests) line.send(now);
            else resolve();
          };
          line.onAnswer = next;
          next();
        }),
    ),
  );
  for (const line of lines) line.close();
  return tally.outcome();
}

/** [TEST-BENCH-LOAD-2] */
async function open(options: OpenLoad): Promise<LoadOutcome> {
  const { perS, seconds } = options;
  const tally = new Tally();
  const lines = await linesOf(options, tally);
  const idle = [...lines];
  const due: number[] = [];
  let taken = 0;
  const total = Math.floor(perS * seconds);
  const startAt = microseconds();
  let fallen = 0;
  await new Promise<void>((resolve) => {
    const send = () => {
      while (taken < due.length) {
        const line = idle.shift();
        if (!line) return;
        line.send(due[taken++] ?? 0);
      }
    };
    for (const line of lines) {
      line.onAnswer = () => {
        idle.push(line);
        send();
        if (fallen === total && taken === total && idle.length === lines.length) resolve();
      };
    }
    const tick = setInterval(() => {
      const now = microseconds();
      for (; fallen < total; fallen++) {
        const at = startAt + (fallen * 1e6) / perS;
        if (at > now) break;
        due.push(at);
      }
      if (fallen === total) clearInterval(tick);
      send();
    }, tickMs);
  });
  for (const line of lines) line.close();
  return tally.outcome();
}
