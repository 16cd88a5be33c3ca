/**
 * One OCPI call to a hub with any token or none, and the look at what a refusal must always be.
 */
import { request } from 'node:http';
import type { HubAddress } from './caller.ts';
import { itemsOf } from './observed.ts';
import { admin } from './plain-partner.ts';
import type { Test } from './tap.ts';

export interface OcpiCall {
  /** Sent in base64; null for no header at all. */
  readonly token?: string | null;
  /** Text is sent as it is. */
  readonly body?: string | object;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface OcpiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  readonly json: { status_code: number; status_message?: string; timestamp: string; data?: unknown };
}

/** `path` below `/ocpi`, sent exactly as it stands. Rejects when the connection fails. */
export function ocpi(
  hub: { url: string },
  method: string,
  path: string,
  { token = null, body, headers = {} }: OcpiCall = {},
): Promise<OcpiAnswer> {
  const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
  const { hostname, port } = new URL(hub.url);
  const sent = {
    ...(token !== null && { Authorization: `Token ${Buffer.from(token).toString('base64')}` }),
    ...(text !== undefined && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
    ...headers,
  };
  return new Promise((resolve, reject) => {
    const call = request({ hostname, port, method, path: `/ocpi${path}`, headers: sent, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const answer = Buffer.concat(chunks).toString();
        const json = JSON.parse(answer) as OcpiAnswer['json'];
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text: answer, json });
      });
    });
    call.on('error', reject);
    call.end(text);
  });
}

/** HTTP status, OCPI status and message of a refusal. */
export type Refused = readonly [http: number, ocpi: number, message: string | RegExp];

/** Checks a refusal and that it is an envelope with a timestamp. */
export function refused(
  t: Test,
  answer: Pick<OcpiAnswer, 'status' | 'json'>,
  [http, ocpi, message]: Refused,
  title: string,
): void {
  const { status_code, status_message = '', timestamp } = answer.json;
  const isSaid = typeof message === 'string' ? status_message === message : message.test(status_message);
  // One assertion: of the thousands that are made here the runner would keep three each.
  const stamp = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(timestamp) ? 'a timestamp' : timestamp;
  t.strictSame(
    [answer.status, status_code, isSaid ? message : status_message, stamp],
    [http, ocpi, message, 'a timestamp'],
    title,
  );
}

/** How many facts the hub has recorded. */
export async function sequenceOf(hub: HubAddress): Promise<number> {
  return Number((await admin(hub, 'GET', '/status')).sequence);
}

/**
 * How many facts the hub has recorded, apart from reports of partners, the audit log and the history: a refused push and
 * a refused act are noted, and change nothing.
 */
export async function changesOf(hub: HubAddress): Promise<number> {
  const noted = async () => {
    const found = await Promise.all(
      ['push.refused', 'report.noted', 'audit.noted', 'history.recorded'].map((type) =>
        itemsOf(hub, `/events?type=${type}`),
      ),
    );
    return found.flat().length;
  };
  for (;;) {
    const before = await noted();
    const sequence = await sequenceOf(hub);
    if ((await noted()) === before) return sequence - before;
  }
}
