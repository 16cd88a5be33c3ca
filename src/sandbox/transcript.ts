/** Everything that a simulated partner sent and received, in order, and a way to wait for an entry without polling. */
import { systemClock } from '../kit/system-clock.ts';

export interface Entry {
  /** From 1, in order of arrival (received) or departure (sent). */
  readonly seq: number;
  readonly at: string;
  readonly direction: 'received' | 'sent';
  /** OCPI module, `versions`, or empty. */
  readonly module: string;
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  /** The headers that OCPI or a demo gives a meaning, names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Null while the exchange is open, and for good when no answer was sent or received. */
  answer: { readonly status: number; readonly body: string } | null;
  /** Why there is no answer. */
  fault: string | null;
  durationMs: number;
  ended: boolean;
}

export type Opening = Pick<Entry, 'direction' | 'module' | 'method' | 'path' | 'body'> & {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
};

/** Header with which a node of a demo names itself in its requests to partners. */
export const nodeHeader = 'x-demo-node';

const headersOfInterest = [
  nodeHeader,
  'authorization',
  'content-type',
  'ocpi-from-country-code',
  'ocpi-from-party-id',
  'ocpi-to-country-code',
  'ocpi-to-party-id',
  'x-request-id',
  'x-correlation-id',
];

/** Entries kept in memory; older ones are dropped, so that a partner can run for days. */
const entriesMax = 20_000;

export class Transcript {
  readonly entries: Entry[] = [];
  readonly #watchers = new Set<() => void>();
  readonly #listeners = new Set<(entry: Entry) => void>();
  readonly #startedAt = new WeakMap<Entry, number>();
  #seq = 0;

  begin(opening: Opening): Entry {
    const headers: Record<string, string> = {};
    for (const name of headersOfInterest) {
      const value = opening.headers[name];
      if (typeof value === 'string') headers[name] = value;
    }
    this.#seq++;
    const at = new Date().toISOString();
    const entry: Entry = {
      ...opening,
      headers,
      seq: this.#seq,
      at,
      answer: null,
      fault: null,
      durationMs: 0,
      ended: false,
    };
    this.#startedAt.set(entry, performance.now());
    this.entries.push(entry);
    if (this.entries.length > entriesMax) this.entries.shift();
    this.changed();
    return entry;
  }

  end(entry: Entry, end: { answer: Entry['answer'] } | { fault: string }): void {
    if ('answer' in end) entry.answer = end.answer;
    else entry.fault = end.fault;
    entry.durationMs = performance.now() - (this.#startedAt.get(entry) ?? performance.now());
    entry.ended = true;
    for (const listener of this.#listeners) listener(entry);
    this.changed();
  }

  /** Wakes the waiters; call it after a change that is not itself an entry. */
  changed(): void {
    for (const look of [...this.#watchers]) look();
  }

  /** Calls `listener` for every exchange that ends; returns a function that stops it. */
  follow(listener: (entry: Entry) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  received(module?: string): Entry[] {
    return this.entries.filter((entry) => entry.direction === 'received' && (!module || entry.module === module));
  }

  sent(module?: string): Entry[] {
    return this.entries.filter((entry) => entry.direction === 'sent' && (!module || entry.module === module));
  }

  /** Resolves to the first thing that `look` finds, now or after a change; rejects with its name after `limitMs`. */
  until<T>(what: string, look: () => T | null | undefined | false, limitMs = 30_000): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = systemClock.setTimeout(() => {
        this.#watchers.delete(check);
        reject(new Error(`waited ${limitMs / 1000} s in vain for ${what}`));
      }, limitMs);
      const check = () => {
        const found = look();
        if (found === null || found === undefined || found === false) return;
        systemClock.clearTimeout(timer);
        this.#watchers.delete(check);
        resolve(found);
      };
      this.#watchers.add(check);
      check();
    });
  }
}
