/**
 * One connection between two nodes over which small requests go in batches: what came in one turn of the event loop is one message, and so
 * are the answers to it.
 *
 * K1  It spares CPU, and nothing rests on it: while it is not open, is full, or the other node knows of none, requests go singly.
 * K2  Answers come in any order. What was not answered when it ended may have been done, and what had not begun is not done later.
 * K3  It is opened with the secret of the nodes, and what comes over it counts as one hop. (O1, O2)
 * K4  Either end notices within a few beats when nothing comes through any more, also where no packet says so.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { type Duplex, Readable } from 'node:stream';
import inject from 'light-my-request';
import { WebSocket, WebSocketServer } from 'ws';
import { every } from '../kit/clock.ts';
import { nextTurn, systemClock } from '../kit/system-clock.ts';
import { hopHeader, peersPath, type Target } from './hop.ts';

/** Where a node takes it, an upgrade to a WebSocket. */
export const trunkPath = `${peersPath}trunk`;

const openMs = 3000;
const againMs = 1000;
const beatMs = 3000;
/** Beats in a row that may stay without an answer. */
const missedMax = 2;
/** Requests that are under way on one; more go singly, and wait for a connection there. */
const askedMax = 256;
/** Characters of a message, after which it is sent before the turn has ended. */
const messageMax = 1 << 20;

export interface Asked {
  readonly method: string;
  readonly url: string;
  /** Names and values in turn, no name twice. */
  readonly fields: readonly string[];
  readonly body: Buffer;
}

export interface Answered {
  readonly status: number;
  readonly fields: readonly string[];
  readonly body: Buffer;
}

/** As they are in messages, which are JSON arrays of them; a character of a body is a byte. With an id alone it is to be forgotten. [K2] */
type Question = readonly [id: number, method?: string, url?: string, fields?: readonly string[], body?: string];
/** Status 0: it was begun, and has no answer. */
type Answer = readonly [id: number, status: number, fields: readonly string[], body: string];

export interface TrunkLog {
  warn(fields: object, message: string): void;
}

const settings = { perMessageDeflate: false } as const;

/** Those to other nodes, opened when they are first wanted. */
export class Trunks {
  readonly #secret: string;
  readonly #log: TrunkLog;
  readonly #trunks = new Map<string, Trunk>();
  readonly #stopBeats: () => void;

  constructor(secret: string, log: TrunkLog, everyMs = beatMs) {
    this.#secret = secret;
    this.#log = log;
    this.#stopBeats = every(systemClock, everyMs, () => {
      for (const trunk of this.#trunks.values()) trunk.beat();
    });
  }

  /** Null while there is none that takes more; it is then being opened, or was just tried. [K1] */
  to({ id, url }: Target): Trunk | null {
    const found = this.#trunks.get(id);
    if (found?.takesMore) return found;
    if (found === undefined || found.wasOver(againMs)) this.#trunks.set(id, new Trunk(url, this.#secret, this.#log));
    return null;
  }

  cut(nodeId: string): void {
    this.#trunks.get(nodeId)?.cut();
  }

  keepOnly(nodeId: string | null): void {
    for (const [id, trunk] of this.#trunks) {
      if (id === nodeId) continue;
      trunk.cut();
      this.#trunks.delete(id);
    }
  }

  close(): void {
    this.#stopBeats();
    this.keepOnly(null);
  }
}

export class Trunk {
  readonly #socket: WebSocket;
  readonly #say: (question: Question) => void;
  readonly #asked = new Map<number, { answered(answer: Answered): void; failed(error: Error): void }>();
  #last = 0;
  #missed = 0;
  #overAt: number | null = null;

  constructor(url: string, secret: string, log: TrunkLog) {
    const at = new URL(trunkPath, url);
    at.protocol = at.protocol.replace('http', 'ws');
    const headers = { [hopHeader]: secret };
    const socket = new WebSocket(at, { ...settings, headers, handshakeTimeout: openMs });
    this.#socket = socket;
    this.#say = batching(socket).say;
    hearing<Answer>(socket, log, ([id, status, fields, body]) => {
      const answer = { status, fields: [...fields], body: Buffer.from(body, 'latin1') };
      const asked = this.#asked.get(id);
      this.#asked.delete(id);
      if (status === 0) asked?.failed(new Error('the peer gave no answer'));
      else asked?.answered(answer);
    });
    socket.on('pong', () => {
      this.#missed = 0;
    });
    // `close` follows, and whoever waits hears of it there.
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#overAt = systemClock.monotonic();
      for (const { failed } of this.#asked.values()) failed(new Error('the connection to the peer ended'));
      this.#asked.clear();
    });
  }

  get takesMore(): boolean {
    return this.#socket.readyState === WebSocket.OPEN && this.#asked.size < askedMax;
  }

  wasOver(ms: number): boolean {
    return this.#overAt !== null && systemClock.monotonic() >= this.#overAt + ms;
  }

  /** To be called only while it takes more. `answer` rejects when the trunk ends first; `forget`: nobody waits for it any more. [K2] */
  ask({ method, url, fields, body }: Asked): { readonly answer: Promise<Answered>; readonly forget: () => void } {
    this.#last += 1;
    const id = this.#last;
    const answer = new Promise<Answered>((answered, failed) => {
      this.#asked.set(id, { answered, failed });
      this.#say([id, method, url, fields, body.toString('latin1')]);
    });
    const forget = () => {
      if (this.#asked.delete(id)) this.#say([id]);
    };
    return { answer, forget };
  }

  /** K4. */
  beat(): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    if (this.#missed > missedMax) return this.cut();
    this.#missed += 1;
    this.#socket.ping();
  }

  cut(): void {
    this.#socket.terminate();
  }
}

/** Those of other nodes to this one. */
export class TrunkEnds {
  readonly #server = new WebSocketServer({ ...settings, noServer: true, clientTracking: false });
  readonly #answer: RequestListener;
  readonly #secret: string;
  readonly #log: TrunkLog;
  readonly #ends = new Set<TrunkEnd>();
  readonly #stopBeats: () => void;

  /** `answer` is handed each request as if it had come by itself, with the header of a hop. [K3] */
  constructor(answer: RequestListener, secret: string, log: TrunkLog, everyMs = beatMs) {
    this.#answer = answer;
    this.#secret = secret;
    this.#log = log;
    this.#stopBeats = every(systemClock, everyMs, () => {
      for (const end of this.#ends) end.beat();
    });
  }

  /** Of a request that came over a node. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const address = request.socket.remoteAddress;
    this.#server.handleUpgrade(request, socket, head, (opened) => {
      const end = new TrunkEnd(opened, { answer: this.#answer, secret: this.#secret, log: this.#log, address });
      this.#ends.add(end);
      opened.on('close', () => this.#ends.delete(end));
    });
  }

  /** Each ends when what is under way on it was answered. */
  close(): void {
    this.#stopBeats();
    for (const end of this.#ends) end.close();
  }

  cut(): void {
    for (const end of this.#ends) end.cut();
  }
}

interface TrunkEndParts {
  readonly answer: RequestListener;
  readonly secret: string;
  readonly log: TrunkLog;
  /** Of the node that asks. */
  readonly address: string | undefined;
}

class TrunkEnd {
  readonly #socket: WebSocket;
  readonly #parts: TrunkEndParts;
  readonly #batch: ReturnType<typeof batching>;
  readonly #underWay = new Map<number, ServerResponse | null>();
  #missed = 0;
  #isClosing = false;

  constructor(socket: WebSocket, parts: TrunkEndParts) {
    this.#socket = socket;
    this.#parts = parts;
    this.#batch = batching(socket);
    socket.on('ping', () => {
      this.#missed = 0;
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      for (const response of this.#underWay.values()) response?.destroy();
      this.#underWay.clear();
    });
    hearing<Question>(socket, parts.log, ([id, method, url, fields, body]) => {
      if (method === undefined) this.#underWay.get(id)?.destroy();
      // What could not be answered is not begun.
      else if (socket.readyState === WebSocket.OPEN)
        this.#begin(id, url ?? '/', this.#requestOf(method, fields ?? [], body ?? ''));
    });
  }

  /** K4. */
  beat(): void {
    if (this.#missed > missedMax) this.cut();
    this.#missed += 1;
  }

  close(): void {
    this.#isClosing = true;
    if (this.#underWay.size > 0) return;
    this.#batch.send();
    this.#socket.close();
  }

  cut(): void {
    this.#socket.terminate();
  }

  #requestOf(method: string, fields: readonly string[], body: string): inject.InjectOptions {
    const { secret, address } = this.#parts;
    const headers: Record<string, string> = { [hopHeader]: secret };
    for (let i = 0; i < fields.length; i += 2) headers[fields[i] ?? ''] = fields[i + 1] ?? '';
    return {
      ...{ method: method as 'PUT', url: '/', headers },
      // A stream ends with its request, where bytes would be read to the end.
      ...(body !== '' && { payload: Readable.from(Buffer.from(body, 'latin1')) }),
      ...(address !== undefined && { remoteAddress: address }),
      ...{ validate: false },
    };
  }

  #begin(id: number, url: string, asked: inject.InjectOptions): void {
    this.#underWay.set(id, null);
    const listener: RequestListener = (request, response) => {
      // As it was written, and not as a URL is normalised.
      request.url = url;
      this.#underWay.set(id, response);
      response.once('close', () => {
        if (!response.writableEnded) request.destroy(new Error('nobody waits for the answer'));
      });
      this.#parts.answer(request, response);
    };
    try {
      inject(listener as inject.DispatchFunc, asked, (error, answer) => {
        this.#end(error || !answer ? [id, 0, [], ''] : answerOf(id, answer));
      });
    } catch (error) {
      this.#parts.log.warn({ err: error }, 'a request of a peer could not be answered');
      this.#end([id, 0, [], '']);
    }
  }

  #end(answer: Answer): void {
    if (!this.#underWay.delete(answer[0])) return;
    this.#batch.say(answer);
    if (this.#isClosing) this.close();
  }
}

/** All of its bytes are here, whatever way they were sent. */
function answerOf(id: number, { statusCode, headers, rawPayload }: inject.Response): Answer {
  const { 'transfer-encoding': _, ...kept } = headers;
  const all = Object.entries({ ...kept, 'content-length': rawPayload.length });
  const fields = all.flatMap(([name, value]) => [value ?? []].flat().flatMap((one) => [name, String(one)]));
  return [id, statusCode, fields, rawPayload.toString('latin1')];
}

/** Sends what is said in one turn of the event loop as one message. */
function batching(socket: WebSocket) {
  let items: (Question | Answer)[] = [];
  let characters = 0;
  const send = (): void => {
    if (items.length > 0 && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(items));
    items = [];
    characters = 0;
  };
  const say = (item: Question | Answer): void => {
    for (const part of item) characters += String(part ?? '').length;
    if (items.push(item) === 1) void nextTurn().then(send);
    if (characters > messageMax) send();
  };
  return { say, send };
}

/** Who says what cannot be read is no node of ours: the connection is cut. */
function hearing<Item>(socket: WebSocket, log: TrunkLog, each: (item: Item) => void): void {
  socket.on('message', (data) => {
    try {
      for (const item of JSON.parse(String(data)) as Item[]) each(item);
    } catch (error) {
      log.warn({ err: error }, 'what a peer said could not be read');
      socket.terminate();
    }
  });
}
