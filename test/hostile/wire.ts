/**
 * Bytes to the hub and whatever comes back, without an HTTP library in between that would refuse to send what is tried here.
 *
 * TEST-WIRE-1  A connection ends: by the hub, by the answer that was waited for, or as `hung` after a limit that no answer should need.
 */
import { connect } from 'node:net';

export interface Wire {
  /** Written one after the other, each in a turn of its own. */
  readonly parts: readonly Buffer[];
  /** `read`: wait for the answers. `end`: close our half first. `cut`: reset after the last byte. `hold`: leave it hanging a moment, then cut. */
  readonly ending: 'read' | 'end' | 'cut' | 'hold';
  /** Methods of the requests that may be answered, in order: a HEAD has no body. */
  readonly methods: readonly string[];
}

export interface WireAnswer {
  readonly status: number;
  /** Names in lower case; of several with one name the last. */
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
}

export interface Met {
  readonly answers: readonly WireAnswer[];
  /** Bytes that are no HTTP answer. */
  readonly rest: string;
  readonly hung: boolean;
}

const hangsAfterMs = 30_000;
const holdMs = 25;

export function send(url: string, { parts, ending, methods }: Wire): Promise<Met> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    socket.setNoDelay(true);
    let received = Buffer.alloc(0);
    let hung = false;
    const hanging = setTimeout(() => {
      hung = true;
      socket.destroy();
    }, hangsAfterMs);
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(hanging);
      resolve({ ...readAnswers(received, methods, true), hung });
    });
    socket.on('end', () => socket.destroy());
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (readAnswers(received, methods, false).answers.length >= methods.length) socket.destroy();
    });
    socket.on('connect', () => {
      void write(parts, socket).then(() => {
        if (ending === 'end') socket.end();
        if (ending === 'cut') socket.resetAndDestroy();
        if (ending === 'hold') setTimeout(() => socket.destroy(), holdMs);
      });
    });
  });
}

async function write(parts: readonly Buffer[], socket: ReturnType<typeof connect>): Promise<void> {
  for (const part of parts) {
    if (socket.destroyed) return;
    socket.write(part);
    if (parts.length > 1) await new Promise((resolve) => setImmediate(resolve));
  }
}

/** The answers in what came; `ended`: nothing more will come, so a body without a length is complete. */
function readAnswers(bytes: Buffer, methods: readonly string[], ended: boolean): Omit<Met, 'hung'> {
  const answers: WireAnswer[] = [];
  let at = 0;
  while (at < bytes.length) {
    const found = readAnswer(bytes, at, methods[answers.length] === 'HEAD', ended);
    if (found === null) break;
    if (found.answer.status >= 200) answers.push(found.answer);
    at = found.end;
  }
  return { answers, rest: bytes.toString('latin1', at) };
}

function readAnswer(
  bytes: Buffer,
  from: number,
  isHead: boolean,
  ended: boolean,
): { answer: WireAnswer; end: number } | null {
  const headEnd = bytes.indexOf('\r\n\r\n', from);
  if (headEnd < 0) return null;
  const [first = '', ...lines] = bytes.toString('latin1', from, headEnd).split('\r\n');
  const status = Number(/^HTTP\/1\.1 (\d{3})(?: |$)/.exec(first)?.[1]);
  if (Number.isNaN(status)) return null;
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  const start = headEnd + 4;
  const without = isHead || status < 200 || status === 204 || status === 304;
  const body = without ? { content: Buffer.alloc(0), end: start } : bodyAt(bytes, start, headers, ended);
  return body && { answer: { status, headers, text: body.content.toString('utf8') }, end: body.end };
}

function bodyAt(
  bytes: Buffer,
  start: number,
  headers: ReadonlyMap<string, string>,
  ended: boolean,
): { content: Buffer; end: number } | null {
  if (headers.get('transfer-encoding') === 'chunked') return chunksAt(bytes, start);
  const length = headers.get('content-length');
  if (length === undefined) return ended ? { content: bytes.subarray(start), end: bytes.length } : null;
  const end = start + Number(length);
  return end <= bytes.length ? { content: bytes.subarray(start, end), end } : null;
}

function chunksAt(bytes: Buffer, start: number): { content: Buffer; end: number } | null {
  const chunks: Buffer[] = [];
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return null;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (next > bytes.length) return null;
    if (size === 0) return { content: Buffer.concat(chunks), end: next };
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = next;
  }
}
