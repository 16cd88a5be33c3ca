/**
 * What stays of the events that are too old to be kept, stream by stream, and which rows end with them.
 *
 * LOG-COMPACTION-1  What can be made again from the log today can be made again afterwards: the events that stay fold to the same state.
 * LOG-COMPACTION-2  What has ended (commands, cases, pulls, jobs, refusals) goes whole, its row with it; what has not stays whole.
 * LOG-COMPACTION-3  When in doubt everything of a stream stays.
 */
import { commandEnds } from '../../../machines/command.ts';
import type { Kept, RowKey, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { CommandRecord } from '../../domain/command.ts';
import type { CommandEvent, OrphanEvent } from '../../domain/events.ts';
import { baseOf } from '../../domain/fold.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import type { PullRecord, QuarantineRecord } from '../../domain/pull.ts';
import { foundAgainBy } from '../exchange/command-rows.ts';
import type { Context } from '../kernel/context.ts';
import { routeKey } from '../kernel/directory.ts';
import { partnerPut } from '../kernel/row-codecs.ts';
import { foldCommand, foldObject, rebuiltRow } from './row-rebuild.ts';

/** What becomes of a stream: the events that stay, and the rows that go unless something newer wrote them. */
export interface Keeping {
  readonly keeps: readonly Kept[];
  readonly rows: readonly RowKey[];
}

/** `past`: what the stream has up to the new horizon, oldest first; never empty. */
type Keeper = (past: readonly StoredEvent[], context: Context) => Promise<Keeping>;

const nothing: Keeping = { keeps: [], rows: [] };
const whole = (past: readonly StoredEvent[]): Keeping => ({ keeps: past.map((event) => asIs(event)), rows: [] });
const keyOf = ({ kind, owner, id }: RowKey): RowKey => ({ kind, owner, id });
const idIn = ({ stream }: StoredEvent): string => stream.slice(stream.indexOf(':') + 1);
const lastOf = (events: readonly StoredEvent[]): StoredEvent => events[events.length - 1] as StoredEvent;

const asIs = (event: StoredEvent, rows: readonly RowKey[] = []): Kept => ({ ...event, rows });

/**
 * One event that makes the object as it stood then. No row may be older than the event that names it, and a resend that changes nothing
 * writes none: the base takes the place of the last event that is not younger than the row.
 */
const object: Keeper = async (past, { store }) => {
  const found = foldObject(past);
  const last = lastOf(past);
  if (!found) return last.type === 'object.deleted' ? nothing : whole(past);
  const { data, body } = baseOf(found);
  const key = { kind: found.module, owner: found.owner, id: found.key };
  const row = await store.get(key);
  const { seq, stream, at, party } = past.findLast((event) => row !== null && event.seq <= row.seq) ?? last;
  const base = { type: 'object.base', correlationId: null, to: [], data, body } as const;
  return { keeps: [{ seq, stream, at, party, ...base, rows: [key] }], rows: [] };
};

/** Operators and credentials make few facts, and all count; of those that follow the weather the last of a kind says it all. */
const partner: Keeper = async (past, { directory }) => {
  const kindOf = ({ type, data }: StoredEvent): string | null => {
    if (type.startsWith('circuit.')) return `circuit ${(data as { circuit: string }).circuit}`;
    return type === 'partner.online' || type === 'partner.offline' ? 'connection' : null;
  };
  const last = new Map(past.map((event) => [kindOf(event), event.seq]));
  const kept = past.filter((event) => kindOf(event) === null || last.get(kindOf(event)) === event.seq);
  const written = kept.findLast(({ type }) => type.startsWith('partner.'));
  const present = directory.partner(idIn(lastOf(past)));
  const rows = present ? [keyOf(partnerPut(present))] : [];
  return { keeps: kept.map((event) => asIs(event, event === written ? rows : [])), rows: [] };
};

const route: Keeper = async (past) => {
  const last = lastOf(past);
  if (last.type !== 'route.set') return nothing;
  const { emsp, cpo } = last.data as { emsp: string; cpo: string };
  return { keeps: [asIs(last, [{ kind: 'routes', owner: cpo, id: routeKey(emsp, cpo) }])], rows: [] };
};

/** Whether something has not ended, or by an event that is not too old yet: then nothing of it goes. */
async function goesOn<T>(
  store: Context['store'],
  key: RowKey,
  past: readonly StoredEvent[],
  hasEnded: (record: T) => boolean,
): Promise<boolean> {
  const found = await store.get(key);
  if (found === null) return false;
  // Its row may be younger than all of it: made again.
  const { stream, seq } = lastOf(past);
  return !hasEnded(found.data as T) || (await store.history(stream, seq, 1)).length > 0;
}

/** With the rows by which later steps found it. */
const command: Keeper = async (past, { store }) => {
  const key = { kind: 'commands', owner: '', id: idIn(lastOf(past)) };
  if (await goesOn<CommandRecord>(store, key, past, ({ state }) => commandEnds.has(state))) return whole(past);
  const folded = foldCommand(past);
  const found = past.flatMap(({ type, data, at }) =>
    folded ? foundAgainBy(folded, { type, data } as CommandEvent, at) : [],
  );
  return { keeps: [], rows: [key, ...found.map(keyOf)] };
};

const orphan: Keeper = async (past, { store }) => {
  const armed = past.find(({ type }) => type === 'orphan.armed');
  if (!armed) return whole(past);
  const { cpo: owner } = armed.data as Extract<OrphanEvent, { type: 'orphan.armed' }>['data'];
  const key = { kind: 'orphans', owner, id: idIn(armed) };
  const isOpen = await goesOn<OrphanRecord>(store, key, past, ({ state }) => state === 'RESOLVED');
  return isOpen ? whole(past) : { keeps: [], rows: [key] };
};

const pull: Keeper = async (past, { store }) => {
  const key = { kind: 'pulls', owner: '', id: idIn(lastOf(past)) };
  const isRunning = await goesOn<PullRecord>(store, key, past, ({ state }) => state !== 'RUNNING');
  return isRunning ? whole(past) : { keeps: [], rows: [key] };
};

const refusal: Keeper = async (past) => {
  const last = lastOf(past);
  const { party } = last.data as QuarantineRecord;
  return { keeps: [], rows: [{ kind: 'quarantine', owner: party, id: idIn(last).slice(party.length + 1) }] };
};

const ended =
  (kind: string): Keeper =>
  async (past) => ({ keeps: [], rows: [{ kind, owner: '', id: idIn(lastOf(past)) }] });

/** Kinds whose rows go with what they are of. [LOG-COMPACTION-2] */
const ending: ReadonlySet<string> = new Set([
  'commands',
  'reservations',
  'starts:reference',
  'starts:uid',
  'orphans',
  'pulls',
  'quarantine',
  'jobs',
  'backups',
]);

/** A row that was made again was younger than what it is of, and stayed when that went. */
const rebuilt: Keeper = async (past, context) => {
  const rows: RowKey[] = [];
  for (const { data } of past) {
    const key = keyOf(data as RowKey);
    const put = ending.has(key.kind) ? await rebuiltRow(key, context) : undefined;
    if (put === null || put?.gone) rows.push(key);
  }
  return { keeps: [], rows };
};

/** By the beginning of an event's type; the first that fits. Others tell what happened, and nothing follows from them. */
const keepers: readonly (readonly [prefix: string, keeper: Keeper])[] = [
  ['object.', object],
  ['partner.', partner],
  ['circuit.', partner],
  ['route.', route],
  ['command.', command],
  ['orphan.', orphan],
  ['pull.objectRefused', refusal],
  ['pull.', pull],
  ['job.', ended('jobs')],
  ['backup.', ended('backups')],
  ['row.rebuilt', rebuilt],
];

/** Decides on one stream. A row that is damaged keeps its whole stream. [LOG-COMPACTION-3] */
export async function keepingOf(past: readonly StoredEvent[], context: Context): Promise<Keeping> {
  const { type } = lastOf(past);
  const [, keeper] = keepers.find(([prefix]) => type.startsWith(prefix)) ?? [];
  if (!keeper) return nothing;
  try {
    return await keeper(past, context);
  } catch (error) {
    if (error instanceof Error && error.name === 'Damaged') return whole(past);
    throw error;
  }
}

/** What a stream kept at or below the present horizon. Few events, whatever the length of the stream. */
export async function keptBefore({ store }: Context, stream: string, horizon: Seq): Promise<StoredEvent[]> {
  const kept: StoredEvent[] = [];
  for (let after: Seq = 0; after < horizon; ) {
    const page = await store.history(stream, after, keptPage);
    kept.push(...page.filter(({ seq }) => seq <= horizon));
    after = page.length < keptPage ? horizon : (page.at(-1)?.seq ?? horizon);
  }
  return kept;
}

const keptPage = 16;
