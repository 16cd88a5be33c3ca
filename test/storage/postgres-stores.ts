/**
 * PostgreSQL stores for the tests of a file. To open one costs a schema and four sessions of the server, most of the time of a short test: a
 * test that leaves its store open leaves it to the next one, which gets it empty and under a new fence.
 */
import type { Store } from '../../storage/contract.ts';
import type { PostgresStoreOptions } from '../../storage/postgres/options.ts';
import { openPostgresStore, type PostgresStore } from '../../storage/postgres/store.ts';
import { directoryFor } from '../support/directory.ts';
import { newSchema, type PostgresServer } from '../support/postgres.ts';
import type { Test } from '../support/tap.ts';
import { patient, until } from './support.ts';

export function storesOn(server: PostgresServer, file: Test, options: Partial<PostgresStoreOptions> = {}) {
  const schemas = new Map<string, string>();
  const schemaOf = new Map<Store, string>();
  let spare: PostgresStore | null = null;
  file.teardown(() => spare?.close());

  /** The schema of a place. */
  function schemaAt(place: string): string {
    const schema = schemas.get(place) ?? newSchema('store');
    schemas.set(place, schema);
    return schema;
  }

  /** At a new place it may be the store of an earlier test, emptied; at a place that had one it is opened. */
  async function open(place: string): Promise<PostgresStore> {
    if (spare !== null && !schemas.has(place)) {
      const store = spare;
      spare = null;
      const schema = schemaOf.get(store) ?? '';
      schemas.set(place, schema);
      await empty(store, schema);
      return store;
    }
    const schema = schemaAt(place);
    const store = await openPostgresStore({ url: server.url(schema), node: 'test', ...patient, ...options });
    schemaOf.set(store, schema);
    return store;
  }

  async function empty(store: PostgresStore, schema: string): Promise<void> {
    const tables = ['events', 'rows', 'counts', 'timers', 'deliveries', 'floors'];
    const former = store.held()?.token;
    await server.query(`set search_path = ${schema};
      ${tables.map((table) => `delete from ${table};`).join(' ')} update log set owner = null, head = 0, horizon = 0`);
    // What it knows of the log it forgets when it takes it anew.
    await until(async () => {
      await store.poke();
      const fence = store.held();
      return fence !== null && fence.token !== former;
    });
  }

  async function done(store: Store): Promise<void> {
    const isSound = store.held() !== null && store.health().state === 'open';
    if (isSound && spare === null) spare = store as PostgresStore;
    else await store.close();
  }

  /** A store of a test, for as long as it lasts. */
  async function lend(t: Test, place = directoryFor(t)): Promise<PostgresStore> {
    const store = await open(place);
    t.teardown(() => done(store));
    return store;
  }

  return { schemaAt, open, done, lend };
}
