/**
 * A process that opens whatever store it is given and says what it finds, so that an engine that dies of damage takes nobody with
 * it. Asked by a message with a directory, it answers with a `Reading`.
 */
import { openLevelStore } from '../../storage/level/store.ts';
import { collect, until } from '../storage/support.ts';

export interface Reading {
  /** Why it was not opened. */
  readonly refused: string | null;
  readonly state: string;
  readonly reason: string | null;
  readonly damagedRows: number;
  /** Each thing that was read, by its name; null where the read was refused as damaged. */
  readonly found: Readonly<Record<string, string | null>>;
}

/** Kinds of rows that a filled hub has. */
const kinds = ['sessions', 'locations', 'tariffs', 'cdrs', 'tokens', 'partners', 'routes', 'commands'];

async function readAll(directory: string, names: readonly string[]): Promise<Reading> {
  const found: Record<string, string | null> = {};
  try {
    const store = await openLevelStore({ directory, node: 'reader', ballastBytes: 0, recent: 64 });
    try {
      const read = async (name: string, get: () => Promise<unknown>) => {
        found[name] = await get().then(
          (value) => JSON.stringify(value),
          () => null,
        );
      };
      const known = names.length > 0 ? names : await namesOf(store);
      for (const name of known) await read(name, () => get(store, name));
      await until(() => !store.health().verifying && store.health().state !== 'failed');
      const { state, reason, damagedRows } = store.health();
      return { refused: null, state, reason, damagedRows: damagedRows.length, found };
    } finally {
      await store.close();
    }
  } catch (error) {
    return { refused: String(error), state: 'closed', reason: null, damagedRows: 0, found };
  }
}

type Store = Awaited<ReturnType<typeof openLevelStore>>;

async function namesOf(store: Store): Promise<string[]> {
  const events = await store.read({ after: 0, limit: 1_000_000 });
  const rows = await Promise.all(kinds.map((kind) => collect(store.scan(kind))));
  return [
    ...events.map(({ seq }) => `event ${seq}`),
    ...rows.flat().map(({ kind, owner, id }) => `row ${JSON.stringify([kind, owner, id])}`),
    ...(await store.floors()).map(({ dest }) => `deliveries ${dest}`),
    'floors',
  ];
}

async function get(store: Store, name: string): Promise<unknown> {
  const [what = '', of = ''] = [name.slice(0, name.indexOf(' ')), name.slice(name.indexOf(' ') + 1)];
  if (what === 'event') return store.event(Number(of));
  if (what === 'row') {
    const [kind, owner, id] = JSON.parse(of) as [string, string, string];
    return store.get({ kind, owner, id });
  }
  if (what === 'deliveries') return store.deliveries({ dest: of, rows: 'open', limit: 1_000_000 });
  return store.floors();
}

process.on('message', ({ directory, names }: { directory: string; names: string[] }) => {
  void readAll(directory, names).then((reading) => process.send?.(reading));
});
