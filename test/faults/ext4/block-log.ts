/** The log of a disk: what was written to it and when it was flushed, and what processes had told by then, in one order. */
import { readFileSync } from 'node:fs';

export const kinds = ['write', 'flush', 'told'] as const;
export type Kind = (typeof kinds)[number];

export interface Entry {
  readonly kind: Kind;
  /** Of a write: where on the disk, bytes. */
  readonly at: number;
  readonly data: Buffer;
}

export function readBlockLog(path: string): Entry[] {
  const bytes = readFileSync(path);
  const entries: Entry[] = [];
  for (let from = 0; from < bytes.length; ) {
    const kind = kinds[bytes.readUInt8(from)];
    if (kind === undefined) throw new Error(`no entry begins at ${from} of ${path}`);
    const end = from + 13 + bytes.readUInt32LE(from + 9);
    entries.push({ kind, at: Number(bytes.readBigUInt64LE(from + 1)), data: bytes.subarray(from + 13, end) });
    from = end;
  }
  return entries;
}
