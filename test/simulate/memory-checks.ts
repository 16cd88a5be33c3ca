/** What a simulated store refuses to take, as every store does, and the form in which it keeps what it takes. */
import type { Commit, Trim } from '../../storage/contract.ts';
import type { DiskCommit, DiskPut, DiskTrim } from './memory-disk.ts';

/** JSON text of a value, made at once, so that it may change afterwards. */
export function textOf(data: unknown): string {
  const text = JSON.stringify(data) as string | undefined;
  if (text === undefined) throw new TypeError('not a JSON value');
  return text;
}

function checkText(text: string): void {
  // The quick look first: hardly a text has half of a pair.
  if (/[\ud800-\udfff]/.test(text) && /\p{Surrogate}/u.test(text)) throw new TypeError('an unpaired surrogate');
}

export function checkName(name: string): void {
  if (name.includes('\0')) throw new TypeError('a name holds U+0000');
  checkText(name);
}

export function checkedCommit({ fence, idem, events, puts = [], due = [], seen = [] }: Commit): DiskCommit {
  if (fence === null && puts.length + due.length > 0 && seen.length === 0)
    throw new TypeError('nothing says what this was decided on');
  if (events.length === 0) throw new TypeError('a commit without events');
  for (const { stream, correlationId, to, body } of events) {
    checkName(stream);
    if (correlationId !== null) checkName(correlationId);
    for (const name of to) checkName(name);
    checkText(body ?? '');
  }
  for (const put of puts) {
    for (const name of [put.kind, put.owner, put.id]) checkName(name);
    if (!put.gone) for (const name of [put.shelf ?? '', put.upd]) checkName(name);
    if (!put.gone) checkText(put.body ?? '');
  }
  for (const { key } of due) checkName(key);
  for (const { kind, owner, id, seq } of seen) {
    for (const name of [kind, owner, id]) checkName(name);
    if (seq !== null && !Number.isSafeInteger(seq)) throw new TypeError('no sequence');
  }
  return {
    idem,
    events: events.map((event) => ({ ...event, data: textOf(event.data) })),
    puts: puts.map((put): DiskPut => (put.gone ? put : { ...put, data: textOf(put.data) })),
    due,
    seen: seen.map((each) => ({ ...each })),
  };
}

/** Throws a TypeError for a name of a row that a store must refuse. */
export function checkedTrim({ rows, keeps, ...trim }: Omit<Trim, 'fence'>): DiskTrim {
  for (const { kind, owner, id } of rows) for (const name of [kind, owner, id]) checkName(name);
  return { ...trim, rows, keeps: keeps.map((event) => ({ ...event, data: textOf(event.data) })) };
}
