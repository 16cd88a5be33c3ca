/**
 * Reads the events of a partner from which its actors are restored.
 *
 * PARTNER-HISTORY-1  Of what an event says of a circuit or the connection, and a later one says anew, only the latest is
 *     held, and beside it one page: a partner that fails now and then writes tens of thousands of them a day.
 */
import type { Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import type { CircuitChange } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { partnerStream } from './directory.ts';

const pageEvents = 500;

/** What of a partner a circuit or connection event states, which the next one of it replaces; null of any other event. */
export function stateIn({ type, data }: StoredEvent): string | null {
  if (type.startsWith('circuit.')) {
    const { circuit, module = '' } = data as CircuitChange;
    return `circuit ${circuit} ${module}`;
  }
  return type === 'partner.online' || type === 'partner.offline' ? 'connection' : null;
}

/** Oldest first; they fold to what all events of the partner do, and the last one is among them. `known`: what it resolved with before. */
export async function partnerHistory(
  store: Pick<Store, 'history'>,
  partner: PartyId,
  known: readonly StoredEvent[] = [],
): Promise<StoredEvent[]> {
  const latest = new Map<string | Seq, StoredEvent>();
  for (let page = known; ; ) {
    for (const event of page) {
      const key = stateIn(event) ?? event.seq;
      // A key that is set again would keep its place.
      latest.delete(key);
      latest.set(key, event);
    }
    const after = page.at(-1)?.seq ?? 0;
    page = await store.history(partnerStream(partner), after, pageEvents);
    if (page.length === 0) return [...latest.values()];
  }
}

/** A function that reads `partnerHistory` at each call. The first call reads only what came after `known`, and releases `known`. */
export function historyAfter(
  store: Pick<Store, 'history'>,
  partner: PartyId,
  known: readonly StoredEvent[] = [],
): () => Promise<StoredEvent[]> {
  let before = known;
  return async () => {
    const events = await partnerHistory(store, partner, before);
    before = [];
    return events;
  };
}
