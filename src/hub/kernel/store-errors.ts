/**
 * The store as the hub reads it: a read that cannot be served now, because the store is mending itself, is refused as a write is,
 * with `unavailable`. Whoever asked is told to come again, and not that the hub has a fault. [D2]
 */
import type { Store } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';

function refuse(error: unknown): never {
  if (error instanceof Error && error.name === 'StoreUnavailable') {
    throw new HubError('unavailable', { retryAfterS: 1 });
  }
  throw error;
}

async function* refusing<T>(items: AsyncIterable<T>): AsyncIterable<T> {
  try {
    yield* items;
  } catch (error) {
    refuse(error);
  }
}

/** Writes are the recorder's and the outbox's, who know the errors of the store by name: they pass as they are. */
export function withStoreErrors(store: Store): Store {
  return {
    held: () => store.held(),
    head: () => store.head(),
    horizon: () => store.horizon(),
    health: () => store.health(),
    onHealth: (listener) => store.onHealth(listener),
    append: (commit) => store.append(commit),
    settle: (...ends) => store.settle(...ends),
    trim: (trim) => store.trim(trim),
    backup: (...to) => store.backup(...to),
    close: () => store.close(),
    floors: () => store.floors().catch(refuse),
    deliveries: (query) => store.deliveries(query).catch(refuse),
    delivery: (...of) => store.delivery(...of).catch(refuse),
    event: (seq) => store.event(seq).catch(refuse),
    read: (query) => store.read(query).catch(refuse),
    ranges: (of) => store.ranges(of).catch(refuse),
    history: (...of) => store.history(...of).catch(refuse),
    correlated: (...of) => store.correlated(...of).catch(refuse),
    get: (key) => store.get(key).catch(refuse),
    size: (keys) => store.size(keys).catch(refuse),
    list: (query) => store.list(query).catch(refuse),
    scan: (...of) => refusing(store.scan(...of)),
    due: () => store.due().catch(refuse),
  };
}
