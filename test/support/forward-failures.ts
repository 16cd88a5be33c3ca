/**
 * What can go wrong with a call that somebody waits for, and what the error table calls it. Authorize and commands are
 * tried with the same rows. [D44]
 */
import type { Operations } from '../../src/hub/ports/operator.ts';
import type { RunningHub } from '../../src/main.ts';
import { admin, type Reply } from './plain-partner.ts';

export type Meaning = 'unauthorized' | 'notFound' | 'rejected' | 'timeout' | 'unavailable' | 'unusable';

/** How the partner behaves; `nobody` and `noTls`: the call ends before a request arrives. */
type Behaviour = Reply | 'hangs' | 'nobody' | 'noTls';

export interface Failure {
  readonly name: string;
  readonly behaviour: Behaviour;
  readonly meaning: Meaning;
}

const envelope = (status_code: number, rest: object = {}) =>
  JSON.stringify({ status_code, timestamp: '2026-01-02T03:04:05Z', ...rest });

const rows = (meaning: Meaning, behaviours: Readonly<Record<string, Behaviour>>): Failure[] =>
  Object.entries(behaviours).map(([name, behaviour]) => ({ name, behaviour, meaning }));

export const failures: readonly Failure[] = [
  ...rows('unauthorized', {
    'HTTP 401': { status: 401, text: '' },
    'HTTP 401 in an envelope': { status: 401, text: envelope(2000, { status_message: 'Invalid token' }) },
    'HTTP 403': { status: 403, text: '' },
  }),
  ...rows('notFound', {
    'HTTP 404': { status: 404, text: '<html>' },
    'HTTP 404 with OCPI 2004': { status: 404, text: envelope(2004) },
    'HTTP 410': { status: 410, text: '' },
    'OCPI 2004': { text: envelope(2004, { status_message: 'Unknown Token' }) },
    'HTTP 400 with OCPI 2004': { status: 400, text: envelope(2004) },
  }),
  ...rows('rejected', {
    'HTTP 400': { status: 400, text: envelope(2001) },
    'HTTP 400 with OCPI 3000': { status: 400, text: envelope(3000) },
    'HTTP 405': { status: 405, text: '' },
    'HTTP 408': { status: 408, text: '' },
    'HTTP 409': { status: 409, text: '' },
    'HTTP 422': { status: 422, text: '' },
    'HTTP 429': { status: 429, text: '', headers: { 'Retry-After': '1' } },
    'OCPI 2000': { text: envelope(2000) },
    'OCPI 2001': { text: envelope(2001, { data: { allowed: 'ALLOWED', result: 'ACCEPTED' } }) },
    'OCPI 2003': { text: envelope(2003) },
  }),
  ...rows('timeout', { 'no answer in time': 'hangs' }),
  ...rows('unavailable', {
    'a connection that is cut': { isCut: true },
    'nobody listening': 'nobody',
    'no TLS where TLS is due': 'noTls',
    'HTTP 500': { status: 500, text: '<html>' },
    'HTTP 502': { status: 502, text: envelope(2000) },
    'HTTP 503': { status: 503, text: '' },
    'HTTP 503 with Retry-After': { status: 503, text: '', headers: { 'Retry-After': '1' } },
    'HTTP 301': { status: 301, text: '', headers: { Location: '/elsewhere' } },
    'HTTP 307': { status: 307, text: '', headers: { Location: '/elsewhere' } },
    'OCPI 3000': { text: envelope(3000) },
    'OCPI 3001 with data': { text: envelope(3001, { data: { allowed: 'ALLOWED', result: 'ACCEPTED' } }) },
  }),
  ...rows('unusable', {
    'an empty 200': { text: '' },
    'a 204': { status: 204, text: '' },
    'not JSON': { text: '<html>' },
    'an array': { text: '[]' },
    'no envelope': { text: '{"allowed":"perhaps","result":"perhaps"}' },
    'an envelope without data': { text: envelope(1000) },
    'data that is null': { text: envelope(1000, { data: null }) },
    'data that is a text': { text: envelope(1000, { data: 'ACCEPTED' }) },
    'data that is empty': { text: envelope(1000, { data: {} }) },
    'a value of another type': { text: envelope(1000, { data: { allowed: true, result: 1 } }) },
    'a value that is empty': { text: envelope(1000, { data: { allowed: '', result: '' } }) },
    'more than 1 MiB': {
      text: envelope(1000, { data: { allowed: 'ALLOWED', result: 'ACCEPTED', x: 'x'.repeat(2 ** 20) } }),
    },
  }),
];

/** A partner's `answer` whose behaviour a test sets row by row; `passes`: the time that it is given passes while it hangs. */
export function moody(
  usual: () => Reply,
  passes: () => void = () => {},
): { behaviour: Behaviour | null; answer: () => Reply | Promise<Reply> } {
  const mood = {
    behaviour: null as Behaviour | null,
    answer: () => {
      const { behaviour } = mood;
      if (behaviour === 'hangs') {
        passes();
        return new Promise<Reply>(() => {});
      }
      return typeof behaviour === 'object' && behaviour !== null ? behaviour : usual();
    },
  };
  return mood;
}

/** The module URL under which a partner behaves so: only the calls that never arrive need another. */
export function urlFor(behaviour: Behaviour, url: string): string {
  if (behaviour === 'nobody') return url.replace(/:\d+\//, ':1/');
  return behaviour === 'noTls' ? url.replace(/^http:/, 'https:') : url;
}

export async function setEndpoint(
  hub: RunningHub,
  partner: string,
  [identifier, role]: readonly [identifier: string, role: 'SENDER' | 'RECEIVER'],
  url: string,
): Promise<void> {
  await admin(hub, 'PUT', `/parties/${partner}/endpoints`, { endpoints: [{ identifier, role, url }] });
}

type Circuit = Parameters<Operations['setCircuit']>[1];

/** Opens a partner's circuit, or closes it. */
export function setCircuit(hub: RunningHub, partner: string, circuit: Circuit, state: 'open' | 'closed'): void {
  hub.created.hub.operations.setCircuit(partner, circuit, state, { requestId: 'r', correlationId: 'c' });
}

/** Lets a partner's circuit forget what it has seen. */
export const closeCircuit = (hub: RunningHub, partner: string, circuit: Circuit = 'sync') =>
  setCircuit(hub, partner, circuit, 'closed');
