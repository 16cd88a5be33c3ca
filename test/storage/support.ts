/** What the storage tests share: short ways to say a commit, and to reach a disk that is really small. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Appended, Due, NewEvent, Put, RowKey, Seen, Store, Trim } from '../../storage/contract.ts';
import type { Test } from '../support/tap.ts';

export const AT = '2024-05-01T10:00:00.000Z';

export function event(fields: Partial<NewEvent> = {}): NewEvent {
  return {
    stream: 'sessions/NL-TNM/101',
    type: 'object.put',
    at: AT,
    party: 'NL-TNM',
    correlationId: null,
    to: [],
    data: { method: 'PUT' },
    body: null,
    ...fields,
  };
}

type Listed = Exclude<Put, { gone: true }>;

export function row(id: string, fields: Partial<Listed> = {}): Listed {
  return { kind: 'sessions', owner: 'NL-TNM', id, shelf: 'NL-TNM', upd: AT, data: { id }, body: null, ...fields };
}

/** What a decision saw of a row. */
export const seen = (id: string, seq: number | null): Seen => ({ kind: 'sessions', owner: 'NL-TNM', id, seq });

export const gone = (id: string, fields: Partial<RowKey> = {}): Put => {
  return { kind: 'sessions', owner: 'NL-TNM', id, ...fields, gone: true };
};

export interface Parts {
  readonly idem?: string;
  readonly events?: readonly NewEvent[];
  readonly puts?: readonly Put[];
  readonly due?: readonly Due[];
  readonly seen?: readonly Seen[];
}

/** Of a PostgreSQL store on a machine that may stand still: its lease lasts, and callers wait for their answers. */
export const patient = { ttlMs: 60_000, answerMs: 600_000 };

let counter = 0;

/** Appends one event, or what is said, under the fence that the store holds. */
export function append(store: Store, { idem, events = [event()], ...parts }: Parts = {}): Promise<Appended> {
  const fence = store.held();
  if (fence === null) throw new Error('the store holds no fence');
  counter += 1;
  return store.append({ fence, idem: idem ?? `commit ${process.pid} ${counter}`, events, ...parts });
}

/** Trims what the fence of the test allows. */
export async function trim(store: Store, upTo: number, parts: Partial<Trim> = {}): Promise<void> {
  const fence = store.held();
  if (fence === null) throw new Error('the store holds no fence');
  const events = await store.read({ after: store.horizon(), limit: upTo - store.horizon() });
  return store.trim({ fence, upTo, events, keeps: [], drops: [], rows: [], ...parts });
}

/** Trims in pieces, and keeps of each stream its last event up to there. */
export async function trimAll(store: Store, upTo: number, piece = 7): Promise<void> {
  for (let to = store.horizon(); to < upTo; ) {
    const from = to;
    to = Math.min(upTo, from + piece);
    const events = await store.read({ after: from, limit: to - from });
    const last = new Map(events.map((each) => [each.stream, each]));
    const drops = await store.kept([...last.keys()]);
    await trim(store, to, { keeps: [...last.values()].map((each) => ({ ...each, rows: [] })), drops });
  }
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 10));
}

/** A file system of its own with this many bytes, taken away with the test; null where mounting is not allowed. */
export function smallDisk(t: Test, bytes: number): string | null {
  const path = mkdtempSync(join(tmpdir(), 'small-disk-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', path]);
  t.teardown(() => {
    if (status === 0) spawnSync('umount', ['--lazy', path]);
    rmdirSync(path);
  });
  if (status !== 0) return null;
  return path;
}
