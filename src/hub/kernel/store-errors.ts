/**
 * Translates the store's `StoreUnavailable` on reads to `unavailable`: while the store reopens and verifies itself, a
 * caller gets a retryable refusal, as for writes, and no internal error. [D2]
 */
import type { Store } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import { withMethods } from '../../kit/with-methods.ts';

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

/** Writes pass unchanged: recorder and outbox handle the store's errors by name. */
export function withStoreErrors(store: Store): Store {
  return withMethods(store, {
    floors: () => store.floors().catch(refuse),
    deliveries: (query) => store.deliveries(query).catch(refuse),
    delivery: (...of) => store.delivery(...of).catch(refuse),
    event: (seq) => store.event(seq).catch(refuse),
    read: (query) => store.read(query).catch(refuse),
    ranges: (of) => store.ranges(of).catch(refuse),
    history: (...of) => store.history(...of).catch(refuse),
    kept: (streams) => store.kept(streams).catch(refuse),
    recent: (...of) => store.recent(...of).catch(refuse),
    correlated: (...of) => store.correlated(...of).catch(refuse),
    get: (key) => store.get(key).catch(refuse),
    getSmall: (key) => store.getSmall(key).catch(refuse),
    size: (keys) => store.size(keys).catch(refuse),
    list: (query) => store.list(query).catch(refuse),
    scan: (...of) => refusing(store.scan(...of)),
    due: () => store.due().catch(refuse),
  });
}
