/** A store that does some things otherwise, for tests that hold, count or refuse what a hub asks of it. */
import type { Store } from '../../storage/contract.ts';

/** The store with some of its methods replaced. */
export function storeWith(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      const replaced: unknown = Reflect.get(methods, name);
      if (replaced !== undefined) return replaced;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

/** `wrap` of `hubFor` that leaves every port but the store as it is. */
export function wrapStore(methods: (store: Store) => Partial<Store>) {
  return <P extends object>(port: P): P => {
    if (!('append' in port)) return port;
    const store = port as unknown as Store;
    return storeWith(store, methods(store)) as unknown as P;
  };
}
