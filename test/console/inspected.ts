/** A reader of the inspector, and how its door answers those that it does not let in. */
import { once } from 'node:events';
import { request } from 'node:http';
import { WebSocket } from 'ws';
import { eventually } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';

export interface Message {
  readonly type: string;
  readonly sessionId: string;
  readonly name?: string;
  readonly definition?: string;
  readonly parties?: readonly string[];
  readonly event?: { readonly type: string; readonly data?: object };
  readonly snapshot: { readonly status: string; readonly value?: unknown; readonly context?: unknown };
  readonly supervision: { readonly state: string; readonly restarts: number; readonly error: string | null };
  readonly count?: number;
  readonly total?: number;
  readonly actors?: number;
}

export interface Watching {
  readonly socket: WebSocket;
  readonly messages: Message[];
  /** As the messages so far have it; what ended is not among them. */
  readonly actors: Map<string, Message>;
  /** How often all was sent: after connecting, and after each subscribe. */
  readonly completes: () => number;
  readonly ended: () => { readonly code: number; readonly reason: string } | null;
  readonly subscribe: (subscription: object) => Promise<void>;
}

export interface Address {
  readonly url: string;
  readonly adminToken: string;
}

export const path = '/admin/v1/inspector';
export const browserProtocols = (token: string) => ['ocpi-hub.inspector', `bearer.${encodeURIComponent(token)}`];

/** Connects as a browser does and resolves when all has been sent. */
export async function inspect(t: Test, hub: Address, query = ''): Promise<Watching> {
  const socket = new WebSocket(`${hub.url.replace(/^http/, 'ws')}${path}${query}`, browserProtocols(hub.adminToken));
  t.teardown(() => socket.terminate());
  const messages: Message[] = [];
  const actors = new Map<string, Message>();
  let completes = 0;
  let ended: { code: number; reason: string } | null = null;
  socket.on('message', (data) => {
    const message = JSON.parse(String(data)) as Message;
    messages.push(message);
    if (message.type === 'ocpi-hub.complete') completes++;
    if (message.type === '@xstate.actor') actors.set(message.sessionId, message);
    if (message.type !== '@xstate.snapshot') return;
    if (message.supervision.state === 'ended') actors.delete(message.sessionId);
    else actors.set(message.sessionId, message);
  });
  socket.on('close', (code, reason) => {
    ended = { code, reason: String(reason) };
  });
  await once(socket, 'open');
  await eventually('all has been sent', () => completes === 1);
  return {
    ...{ socket, messages, actors, completes: () => completes, ended: () => ended },
    async subscribe(subscription) {
      const before = completes;
      socket.send(JSON.stringify({ type: 'subscribe', ...subscription }));
      await eventually('the narrower view is whole', () => completes > before);
    },
  };
}

export interface Refused {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly protocol: string;
  readonly text: string;
}

/** Asks for a WebSocket with these headers beside what a handshake needs; 101 is let in, and closed. */
export function knock(
  hub: Pick<Address, 'url'>,
  headers: Readonly<Record<string, string>>,
  { at = path, method = 'GET' } = {},
): Promise<Refused> {
  const handshake = {
    ...{ connection: 'Upgrade', upgrade: 'websocket' },
    ...{ 'sec-websocket-version': '13', 'sec-websocket-key': Buffer.alloc(16, 1).toString('base64') },
  };
  return new Promise((resolve, reject) => {
    const call = request(`${hub.url}${at}`, { method, headers: { ...handshake, ...headers }, agent: false });
    call.on('error', reject);
    call.on('upgrade', ({ headers: answered }, socket) => {
      socket.destroy();
      const protocol = String(answered['sec-websocket-protocol'] ?? '');
      resolve({ status: 101, headers: answered, protocol, text: '' });
    });
    call.on('response', async (answer) => {
      let text = '';
      for await (const chunk of answer) text += String(chunk);
      resolve({ status: answer.statusCode ?? 0, headers: answer.headers, protocol: '', text });
    });
    call.end();
  });
}
