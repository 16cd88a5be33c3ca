/**
 * Folds objects from the log as they were at a change. Each is kept, so that the next one of the same object goes on from there: a backlog
 * of parts that its receiver refuses would fold an object once for each of its changes.
 *
 * FOLDS-1  What is kept takes `keptMax` characters at most; beyond it all is folded from the beginning again.
 * FOLDS-2  In one turn of the event loop one fold begins or goes on, receivers taking turns (TURNS-1).
 */
import type { Seq, Store } from '../../../storage/contract.ts';
import type { HubObject } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import { perTurn } from '../../kit/turns.ts';
import { changesMax, type Folded, foldedTo, unfolded } from '../kernel/log-reads.ts';

const keptMax = 16 * 1024 * 1024;
/** Of an object that is kept, beside its body: characters in place of an estimate of its bytes. */
const besideBody = 1_024;

const foldTurn = perTurn({ ofAll: 1 }, nextTurn);

const sizeOf = ({ object }: Folded): number => besideBody + (object?.body.length ?? 0);

export class Folds {
  readonly #store: Pick<Store, 'history'>;
  readonly #kept = new Map<string, Folded>();
  /** Characters of what is kept. */
  #size = 0;

  constructor(store: Pick<Store, 'history'>) {
    this.#store = store;
  }

  /** The object as of the last change up to a sequence; null when its events are trimmed or more than `changesMax`. */
  async asOf(stream: string, seq: Seq, receiver: PartyId): Promise<HubObject | null> {
    const turn = () => foldTurn(true, receiver);
    await turn();
    const known = this.#kept.get(stream);
    let last = known && known.seq <= seq ? known : unfolded;
    if (last.seq < seq) {
      for await (const { change, object } of foldedTo(this.#store, { stream, seq }, last, turn)) {
        if (change.seq <= seq) last = { seq: change.seq, object, changes: last.changes + 1 };
      }
      this.#keep(stream, last);
    }
    return last.changes < changesMax ? last.object : null;
  }

  #keep(stream: string, folded: Folded): void {
    const before = this.#kept.get(stream);
    this.#size += sizeOf(folded) - (before ? sizeOf(before) : 0);
    if (this.#size > keptMax) {
      this.#kept.clear();
      this.#size = sizeOf(folded);
    }
    this.#kept.set(stream, folded);
  }
}
