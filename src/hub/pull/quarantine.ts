/**
 * Keeps objects that pulls refused, with the reason, until a pull accepts them; operators see them.
 * [interface, Admin pulls]
 *
 * QUARANTINE-1  An object with a name has one row, which holds its last refusal. Objects without a name are keyed by
 *     their index in the list.
 * QUARANTINE-2  The quarantine is bounded: `keptMax` objects of one pull, 65,536 characters of one object; the
 *     rest is only counted.
 */
import type { Put } from '../../../storage/contract.ts';
import type { Trace } from '../../domain/events.ts';
import { type Named, objectKey } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import type { PullRecord, QuarantineRecord } from '../../domain/pull.ts';
import type { Context } from '../kernel/context.ts';
import type { Fact } from '../kernel/recorder.ts';
import { cut } from '../kernel/row-codecs.ts';

const keptMax = 1000;

/** An object of a page, as received. */
export interface Listed {
  readonly text: string;
  /** Null when the object has no usable owner or id. */
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

/** The quarantine of one partner during one pull. */
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

  /** The write that removes an accepted object; null when it is not in quarantine. */
  released(object: Listed): Put | null {
    const id = this.#idOf(object);
    return this.#ids.delete(id) ? { ...keyOf(this.#pull.party, id), gone: true } : null;
  }

  /** Records refused objects as rows and events. [QUARANTINE-2] */
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
