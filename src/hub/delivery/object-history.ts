/**
 * The changes of one object as the log has them, and the object after each: for wholes that are sent later, and for operators.
 *
 * OBJECT-HISTORY-1  At most `changesMax` are looked at, page by page, and others get their turn between pages: one object must not keep the hub busy.
 */
import type { Store, StoredEvent } from '../../../storage/contract.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import type { HubObject } from '../../domain/object.ts';
import { nextTurn } from '../../kit/system-clock.ts';

const batch = 100;
const changesMax = 5_000;

/** Oldest first. [OBJECT-HISTORY-1] */
export async function* changesOf(store: Pick<Store, 'history'>, stream: string): AsyncIterable<StoredEvent> {
  for (let after = 0, seen = 0; seen < changesMax; seen += batch) {
    const page = await store.history(stream, after, batch);
    yield* page;
    const last = page.at(-1);
    if (!last || page.length < batch) return;
    after = last.seq;
    await nextTurn();
  }
}

/** Up to an event and with it; null where the log does not tell. [OBJECT-HISTORY-1] */
export async function* foldedTo(
  store: Pick<Store, 'history'>,
  event: Pick<StoredEvent, 'stream' | 'seq'>,
): AsyncIterable<{ readonly change: StoredEvent; readonly object: HubObject | null }> {
  let object: HubObject | null = null;
  for await (const change of changesOf(store, event.stream)) {
    object = applyToObject(object, change.data as ObjectEventData, change.body ?? '', change.to);
    yield { change, object };
    if (change.seq >= event.seq) return;
  }
}
