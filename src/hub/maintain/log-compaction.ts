/**
 * Compaction of the log: decides for each stream which of the expired events are kept below the horizon, and which rows
 * are deleted with the rest.
 *
 * LOG-COMPACTION-1  Every row that can be rebuilt from the log before the trim can be rebuilt after it: the kept events
 *     fold to the same state.
 * LOG-COMPACTION-2  Ended commands, cases, pulls, jobs and refusals are removed whole, with their rows; those that have
 *     not ended are kept whole.
 * LOG-COMPACTION-3  In doubt the whole stream is kept.
 * LOG-COMPACTION-4  Of rotations, initial tokens and changes of host, which a partner can repeat without end, only the newest are kept,
 *     as many as its row needs: a start reads all events of a partner.
 */
import { commandEnds } from '../../../machines/command.ts';
import type { Kept, RowKey, StoredEvent } from '../../../storage/contract.ts';
import type { CommandRecord } from '../../domain/command.ts';
import type { CommandEvent, OrphanEvent } from '../../domain/events.ts';
import { baseOf } from '../../domain/fold.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import { spentMax } from '../../domain/party.ts';
import type { PullRecord, QuarantineRecord } from '../../domain/pull.ts';
import type { RefusedRecord } from '../../domain/report.ts';
import { foundAgainBy } from '../exchange/command-routing.ts';
import type { Context } from '../kernel/context.ts';
import { routeKey } from '../kernel/directory.ts';
import { stateIn } from '../kernel/log-reads.ts';
import { objectPut, partnerPut } from '../kernel/row-codecs.ts';
import { reportKey } from '../partners/reports.ts';
import { foldCommand, foldObject, isEnd, rebuiltRow } from './row-rebuild.ts';

/** Decision about one stream: the events to keep, and the rows to delete unless a newer event wrote them. */
export interface Keeping {
  readonly keeps: readonly Kept[];
  readonly rows: readonly RowKey[];
}

/** `past`: the events of the stream up to the new horizon, oldest first; never empty. */
type Keeper = (past: readonly StoredEvent[], context: Context) => Promise<Keeping>;

const nothing: Keeping = { keeps: [], rows: [] };
const whole = (past: readonly StoredEvent[]): Keeping => ({ keeps: past.map((event) => asIs(event)), rows: [] });
const keyOf = ({ kind, owner, id }: RowKey): RowKey => ({ kind, owner, id });
const idIn = ({ stream }: StoredEvent): string => stream.slice(stream.indexOf(':') + 1);
const lastOf = (events: readonly StoredEvent[]): StoredEvent => events[events.length - 1] as StoredEvent;

const asIs = (event: StoredEvent, rows: readonly RowKey[] = []): Kept => ({ ...event, rows });

/** Events that are always recorded with their row, which therefore is not older than they are. */
const withRow: ReadonlySet<string> = new Set(['object.put', 'object.patched']);

/**
 * Replaces the events of an object by one `object.base`, which holds the object as of the new horizon. A row must not
 * be older than the event that names it, and a resend that changes nothing writes no row: the base takes the sequence
 * of the last event that is not newer than the row.
 */
const object: Keeper = async (past, { store }) => {
  const found = await foldObject(past);
  const last = lastOf(past);
  if (!found) return isEnd(last) ? nothing : whole(past);
  const { data, body } = baseOf(found);
  const key = keyOf(objectPut(found));
  const row = withRow.has(last.type) ? null : await store.get(key);
  const { seq, stream, at, party } = past.findLast((event) => row !== null && event.seq <= row.seq) ?? last;
  const base = { type: 'object.base', correlationId: null, to: [], data, body } as const;
  // An earlier version has no row of what it deleted, and what has come again since is a row of another kind.
  const rows = found.ended && row === null ? [] : [key];
  return { keeps: [{ seq, stream, at, party, ...base, rows }], rows: [] };
};

/**
 * Each rotation and each initial token has one token spent, but the first one kept, which has another one spent than it did; and two
 * tokens may still be valid, the hub token and the former one.
 */
const tokensKept = spentMax + 3;
/** Changes of host that operators still find in the log. */
const hostsKept = 100;
/** Events of each kind that one trim forgets of what earlier ones kept, at most: a trim is one batch. */
const forgottenMax = 5_000;

/** The events without which the others fold to the same partner. [LOG-COMPACTION-4] */
function superseded(past: readonly StoredEvent[]): ReadonlySet<StoredEvent> {
  const ofKind = (prefix: string) => past.filter(({ type }) => type.startsWith(prefix));
  const older = (events: readonly StoredEvent[], kept: number) => events.slice(0, -kept).slice(0, forgottenMax);
  const rotations = older(ofKind('partner.rotated'), tokensKept);
  const last = rotations.at(-1)?.seq ?? 0;
  const hosts = ofKind('partner.host');
  const isConfirmed = (at: number) => hosts[at]?.type === 'partner.hostConfirmed';
  return new Set([
    ...older(ofKind('partner.initialTokenIssued'), tokensKept),
    ...rotations,
    // Without a rotation before it there is no former token for it to end.
    ...ofKind('partner.tokenConfirmed').filter(({ seq }) => seq < last),
    // A change of host replaces the one before it. Only a confirmation reads what it follows, and is read by what follows it.
    ...older(hosts, hostsKept).filter((_, at) => ![at - 1, at, at + 1].some(isConfirmed)),
  ]);
}

/**
 * Keeps every registration and operator event, but those that newer ones supersede; of connection and circuit events keeps
 * only the latest of each kind.
 */
const partner: Keeper = async (past, { directory }) => {
  const last = new Map(past.map((event) => [stateIn(event), event.seq]));
  const forgotten = superseded(past);
  const kept = past.filter(
    (event) => !forgotten.has(event) && (stateIn(event) === null || last.get(stateIn(event)) === event.seq),
  );
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

/** Keeps the last event of a stream, which holds the whole row, unless it ended what the stream is about. */
const lastOne =
  (type: string, kind: string): Keeper =>
  async (past) => {
    const last = lastOf(past);
    if (last.type !== type) return nothing;
    return { keeps: [asIs(last, [{ kind, owner: '', id: idIn(last) }])], rows: [] };
  };

/** Whether the row's subject has not ended, or has events above the new horizon: then its whole stream is kept. */
async function goesOn<T>(
  store: Context['store'],
  key: RowKey,
  past: readonly StoredEvent[],
  hasEnded: (record: T) => boolean,
): Promise<boolean> {
  const found = await store.get(key);
  if (found !== null && !hasEnded(found.data as T)) return true;
  // A rebuilt row is newer than every event of its stream, and a watch may end without a row: the stream is read.
  const { stream, seq } = lastOf(past);
  return (await store.history(stream, seq, 1)).length > 0;
}

/** Removes an ended command with its row and the rows by which later steps find it (reservations, starts). */
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

/** Refused objects and pushes, whose streams name their owner and then themselves. */
const refusal =
  (kind: string, ownerOf: (data: unknown) => string): Keeper =>
  async (past) => {
    const last = lastOf(past);
    const owner = ownerOf(last.data);
    return { keeps: [], rows: [{ kind, owner, id: idIn(last).slice(owner.length + 1) }] };
  };

/** Each event has the whole report. */
const report: Keeper = async (past) => {
  const last = lastOf(past);
  return { keeps: [asIs(last, [reportKey(idIn(last))])], rows: [] };
};

/** [AUDIT-3] */
const auditEntry: Keeper = async (past) =>
  lastOf(past).type === 'audit.noted'
    ? { keeps: past.map((event) => asIs(event, [{ kind: 'audit', owner: '', id: idIn(event) }])), rows: [] }
    : nothing;

const ended =
  (kind: string): Keeper =>
  async (past) => ({ keeps: [], rows: [{ kind, owner: '', id: idIn(lastOf(past)) }] });

/** Kinds of rows that are deleted with the events they are folded from. [LOG-COMPACTION-2] */
const ending: ReadonlySet<string> = new Set([
  'commands',
  'reservations',
  'reservations:made',
  'starts:reference',
  'starts:uid',
  'orphans',
  'pulls',
  'quarantine',
  'refused',
  'jobs',
  'backups',
]);

/**
 * Deletes rebuilt rows whose source events are gone. A rebuilt row was newer than those events, so the trim that
 * removed them left it.
 */
const rebuilt: Keeper = async (past, context) => {
  const rows: RowKey[] = [];
  for (const { data } of past) {
    const key = keyOf(data as RowKey);
    const put = ending.has(key.kind) ? await rebuiltRow(key, context) : undefined;
    if (put === null || put?.gone) rows.push(key);
  }
  return { keeps: [], rows };
};

/**
 * Keepers by prefix of the event type; the first match applies. Other types are removed: no row is folded from them.
 */
const keepers: readonly (readonly [prefix: string, keeper: Keeper])[] = [
  ['object.', object],
  ['partner.', partner],
  ['circuit.', partner],
  ['route.', route],
  ['webhook.', lastOne('webhook.set', 'webhooks')],
  // [DEAD-GROUPS-1]
  ['triage.', lastOne('triage.changed', 'triage')],
  ['view.', lastOne('view.saved', 'views')],
  ['command.', command],
  ['orphan.', orphan],
  ['pull.objectRefused', refusal('quarantine', (data) => (data as QuarantineRecord).party)],
  ['pull.', pull],
  ['push.refused', refusal('refused', (data) => (data as RefusedRecord).partner)],
  ['report.noted', report],
  ['audit.', auditEntry],
  ['job.', ended('jobs')],
  ['backup.', ended('backups')],
  ['row.rebuilt', rebuilt],
];

/** Decides about one stream. A damaged row keeps its whole stream. [LOG-COMPACTION-3] */
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
