/**
 * What pulls refused, kept with the reason until a pull finds it good. [interface, Admin pulls]
 *
 * QUARANTINE-1  One row per object that says which one it is: the last refusal stands. Others go by their place in the list.
 * QUARANTINE-2  It is bounded: of one pull so many objects, of one object so much text; the rest is only counted.
 */
import type { Put } from '../../../storage/contract.ts';
import { objectKey } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import type { PullRecord, QuarantineRecord } from '../../domain/pull.ts';
import type { Trace } from '../../domain/trace.ts';
import type { Context } from '../kernel/context.ts';
import type { Fact } from '../kernel/recorder.ts';
import type { Named } from './sender-lists.ts';

const keptMax = 1000;
const keptChars = 65_536;

/** An object on a page, as it came. */
export interface Listed {
  readonly text: string;
  /** Null when it does not say. */
  readonly name: Named | null;
  /** Index in the whole list. */
  readonly place: number;
}

export interface RefusedObject extends Listed {
  readonly reason: string;
}

const keyOf = (party: PartyId, id: string) => ({ kind: 'quarantine', owner: party, id });

export const quarantineStream = (party: PartyId, id: string): string => `quarantine:${party}/${id}`;

export function quarantineRow(id: string, data: QuarantineRecord, body: string, at: string): Put {
  return { ...keyOf(data.party, id), shelf: 'quarantine', upd: at, data, body };
}

/** The quarantine of one partner, as one pull works on it. */
export class Quarantine {
  readonly #context: Context;
  readonly #pull: PullRecord;
  readonly #trace: Trace;
  readonly #ids = new Set<string>();
  #kept = 0;

  constructor(context: Context, pull: PullRecord, trace: Trace) {
    this.#context = context;
    this.#pull = pull;
    this.#trace = trace;
  }

  async load(): Promise<void> {
    for await (const { id } of this.#context.store.scan('quarantine', this.#pull.party)) this.#ids.add(id);
  }

  /** How an object that was found good leaves; null when it is not here. */
  released(object: Listed): Put | null {
    const id = this.#idOf(object);
    return this.#ids.delete(id) ? { ...keyOf(this.#pull.party, id), gone: true } : null;
  }

  /** Keeps what was refused, where operators see it. */
  async keep(refused: readonly RefusedObject[]): Promise<void> {
    const { recorder } = this.#context;
    const kept = refused.slice(0, keptMax - this.#kept);
    if (kept.length === 0) return;
    this.#kept += kept.length;
    const { id: pull, party, module } = this.#pull;
    const at = recorder.instant();
    const facts: Fact[] = [];
    const rows = new Map<string, Put>();
    for (const object of kept) {
      const id = this.#idOf(object);
      const data: QuarantineRecord = { pull, party, module, object: object.name?.name ?? null, reason: object.reason };
      const body = cut(object.text);
      facts.push({ stream: quarantineStream(party, id), event: { type: 'pull.objectRefused', data }, party, body });
      rows.set(id, quarantineRow(id, data, body, at));
      this.#ids.add(id);
    }
    await recorder.record({ facts, puts: [...rows.values()], trace: this.#trace, at });
  }

  #idOf({ name, place }: Listed): string {
    const { module } = this.#pull;
    return `${module}/${name ? `${name.owner}/${objectKey(module, name.id, {})}` : `#${place}`}`;
  }
}

/** Never between the halves of a surrogate pair: the store takes whole characters. */
function cut(text: string): string {
  const isSplit = (text.charCodeAt(keptChars - 1) & 0xfc00) === 0xd800;
  return text.slice(0, isSplit ? keptChars - 1 : keptChars);
}
