/**
 * Rebuilds damaged or missing rows from the log, by the same folds that made them. A row that cannot be rebuilt stays
 * unreadable and is logged: the hub guesses nothing.
 */
import type { Put, RowKey, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { AuditEntry } from '../../api/audit.ts';
import { applyToCommand, type CommandRecord } from '../../domain/command.ts';
import type { CommandEvent, ObjectEventData } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import { moduleNames, modules, type ObjectModule } from '../../domain/modules.ts';
import type { Notice } from '../../domain/notification.ts';
import { type HubObject, streamOf } from '../../domain/object.ts';
import { applyToOrphan } from '../../domain/orphan.ts';
import { applyToPartner } from '../../domain/party.ts';
import { applyToPull, type QuarantineRecord } from '../../domain/pull.ts';
import type { RefusedRecord, Tallies } from '../../domain/report.ts';
import type { Route } from '../../domain/routing.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import { commandRow, foundAgainBy } from '../exchange/command-routing.ts';
import { orphanRow } from '../exchange/orphan-records.ts';
import type { Context } from '../kernel/context.ts';
import { directoryPut } from '../kernel/directory.ts';
import { changeOf } from '../kernel/log-reads.ts';
import {
  billedKind,
  billedPut,
  endedKind,
  objectPut,
  ownerPut,
  ownersKind,
  partnerPut,
  routePut,
  withoutWho,
} from '../kernel/row-codecs.ts';
import { webhookPut } from '../notify/notifier.ts';
import { conditionPut, stream as notices } from '../notify/watch.ts';
import { refusedRow, refusedStream, reportRow, reportStream } from '../partners/reports.ts';
import { pullRow } from '../pull/pulls.ts';
import { quarantineRow, quarantineStream } from '../pull/quarantine.ts';
import { auditRow } from './audit.ts';
import { backupRow } from './backups.ts';
import { triagePut, triageStream } from './dead-groups.ts';
import { historyKinds } from './history.ts';
import { jobRow } from './jobs.ts';
import { savedViewPut, savedViewStream } from './saved-views.ts';

type History = (stream: string) => Promise<StoredEvent[]>;
/** Resolves with the row to write: `gone` when the log says that it was deleted, null when the log cannot tell. */
type Rebuild = (key: RowKey, history: History, context: Context) => Promise<Put | null>;

type Apply<State, Event> = (state: State | null, event: Event, at: string) => State | null;

/** Folds the events of a stream that are of its subject; skips others, such as those of circuits. */
const fold = <State, Event extends Pick<StoredEvent, 'type' | 'data'>>(
  events: readonly StoredEvent[],
  subject: string,
  apply: Apply<State, Event>,
) =>
  events
    .filter(({ type }) => type.startsWith(`${subject}.`))
    .reduce<State | null>((state, { type, data, at }) => apply(state, { type, data } as Event, at), null);

/** The row that the events of its stream make. */
const folded =
  <State, Event extends Pick<StoredEvent, 'type' | 'data'>>(
    subject: string,
    apply: Apply<State, Event>,
    rowOf: (state: State) => Put,
  ): Rebuild =>
  async ({ id }, history) => {
    const found = fold(await history(`${subject}:${id}`), subject, apply);
    return found && rowOf(found);
  };

/** Characters of bodies that are written in one turn of the event loop: each PATCH of a large location writes all of it again. */
const turnChars = 1024 * 1024;

export async function foldObject(events: readonly StoredEvent[]): Promise<HubObject | null> {
  let object: HubObject | null = null;
  let written = 0;
  for (const event of events) {
    if (!event.type.startsWith('object.')) continue;
    object = applyToObject(object, changeOf(event));
    written += object?.body.length ?? 0;
    if (written < turnChars) continue;
    written = 0;
    await nextTurn();
  }
  return object;
}

/** Whether an event of an object deleted it, or sent that again. */
export const isEnd = ({ data }: StoredEvent): boolean => (data as ObjectEventData).method === 'DELETE';

const object: Rebuild = async ({ kind, owner, id }, history) => {
  const events = await history(streamOf(kind.split(':')[0] as ObjectModule, owner, id));
  const found = await foldObject(events);
  const put = found && objectPut(found);
  if (put?.kind === kind) return put;
  // A deleted object that some receiver still has is a row of another kind, and so is one that has come again.
  const last = events.at(-1);
  return put || (last && isEnd(last)) ? { kind, owner, id, gone: true } : null;
};

const ownerOf: Rebuild = async ({ kind, owner, id }) => ownerPut(kind.split(':')[0] as ObjectModule, owner, id);

/**
 * A row by which a later step finds a command (reservation, start): the last accepted command that wrote this key. In a
 * trimmed log the kept commands are found only by their streams, so the stream of every command is read.
 */
const foundAgain: Rebuild = async (key, history, { store }) => {
  const isWanted = (put: Put) => put.kind === key.kind && put.owner === key.owner && put.id === key.id;
  let found: { readonly seq: Seq; readonly put: Put } | null = null;
  for await (const { id } of store.scan('commands')) {
    const events = await history(`command:${id}`);
    const record = foldCommand(events);
    for (const { seq, type, data, at } of record ? events : []) {
      const put = foundAgainBy(record as CommandRecord, { type, data } as CommandEvent, at).find(isWanted);
      if (put && seq > (found?.seq ?? 0)) found = { seq, put };
    }
  }
  // A trim deletes such rows with their command, so once the log was trimmed a row without a command is gone.
  return found?.put ?? (store.horizon() > 0 ? { ...key, gone: true } : null);
};

export const foldCommand = (events: readonly StoredEvent[]) => fold(events, 'command', applyToCommand);

/** A row that the last event of its stream holds whole. */
const fromLast =
  (streamOf: (key: RowKey) => string, rowOf: (key: RowKey, last: StoredEvent) => Put | null): Rebuild =>
  async (key, history) => {
    const last = (await history(streamOf(key))).at(-1);
    return last ? rowOf(key, last) : null;
  };

/** The row that the data of the last event are, or none when that is of the type that ends it. */
const unless =
  <Data>(end: string, put: (data: Data) => Put) =>
  ({ kind, owner, id }: RowKey, { type, data }: StoredEvent): Put =>
    type === end ? { kind, owner, id, gone: true } : put(data as Data);

/** The row of a job or backup, whose every event carries the whole view; null for events of an older version. */
const shown =
  <View extends { started_at: string }>(rowOf: (view: View) => Put) =>
  (_: RowKey, { data }: StoredEvent): Put | null =>
    (data as View | null)?.started_at === undefined ? null : rowOf(data as View);

const isFoundById = (module: ObjectModule) => modules[module].isFoundById;
const isDeletable = (module: ObjectModule) => modules[module].isDeletable;

const gone: Rebuild = async ({ kind, owner, id }) => ({ kind, owner, id, gone: true });

const rebuilds: Record<string, Rebuild> = {
  ...Object.fromEntries(moduleNames.map((module) => [module, object])),
  ...Object.fromEntries(moduleNames.filter(isDeletable).map((module) => [endedKind(module), object])),
  ...Object.fromEntries(moduleNames.filter(isFoundById).map((module) => [ownersKind(module), ownerOf])),
  [billedKind]: async (key) => billedPut(key),
  pulls: folded('pull', applyToPull, pullRow),
  // The next pull reads the whole list again, which loses nothing.
  'pulls:last': gone,
  quarantine: fromLast(
    ({ owner, id }) => quarantineStream(owner, id),
    ({ id }, { data, body, at }) => quarantineRow(id, data as QuarantineRecord, body ?? '', at),
  ),
  refused: fromLast(
    ({ owner, id }) => refusedStream(owner, id),
    ({ id }, { data, body }) => refusedRow(id, data as RefusedRecord, body ?? ''),
  ),
  reports: fromLast(
    ({ owner }) => reportStream(owner),
    ({ owner }, { data }) => reportRow(owner, data as Tallies),
  ),
  audit: fromLast(
    ({ id }) => `audit:${id}`,
    (_key, { type, data, at }) => (type === 'audit.noted' ? auditRow(data as AuditEntry, at) : null),
  ),
  partners: folded('partner', applyToPartner, partnerPut),
  directory: async () => directoryPut,
  routes: fromLast(
    ({ id }) => `route:${id}`,
    (_key, { type, data }) => (type === 'route.set' ? routePut(data as Route) : null),
  ),
  webhooks: fromLast(({ id }) => `webhook:${id}`, unless('webhook.removed', webhookPut)),
  triage: fromLast(({ id }) => triageStream(id), unless('triage.ended', triagePut)),
  views: fromLast(({ id }) => savedViewStream(id), unless('view.removed', savedViewPut)),
  // Once its event has left the log, a condition that still holds is notified again.
  conditions: async ({ kind, owner, id }, history) => {
    const isOf = ({ data }: StoredEvent) => (data as Notice).kind === owner && (data as Notice).subject === id;
    const last = (await history(notices)).findLast(isOf);
    return last?.type === 'notification.raised'
      ? conditionPut(last.data as Notice, false)
      : { kind, owner, id, gone: true };
  },
  commands: folded('command', applyToCommand, commandRow),
  reservations: foundAgain,
  'reservations:made': foundAgain,
  'starts:reference': foundAgain,
  'starts:uid': foundAgain,
  // The log does not have the points of a row: they are missing from then on.
  ...Object.fromEntries(historyKinds.map((kind) => [kind, gone])),
  jobs: fromLast(({ id }) => `job:${id}`, shown(jobRow)),
  backups: fromLast(({ id }) => `backup:${id}`, shown(backupRow)),
  orphans: folded('orphan', applyToOrphan, orphanRow),
};

export const rowKinds: readonly string[] = Object.keys(rebuilds);

/** Kinds of rows that a trim deletes with their events, by the prefix of their streams. */
const endWithEvents: Readonly<Record<string, string>> = {
  commands: 'command:',
  jobs: 'job:',
  backups: 'backup:',
  pulls: 'pull:',
  orphans: 'orphan:',
};

/**
 * The row that the log gives for a key; null when it cannot tell. A trim spares a row that was rebuilt since its events:
 * without them it is gone.
 */
export async function rebuiltRow(key: RowKey, context: Context): Promise<Put | null> {
  const { store } = context;
  const history = async (stream: string) => (await store.history(stream)).map(withoutWho);
  const prefix = endWithEvents[key.kind];
  const isTrimmed = prefix !== undefined && store.horizon() > 0 && (await history(`${prefix}${key.id}`)).length === 0;
  return isTrimmed ? { ...key, gone: true } : ((await rebuilds[key.kind]?.(key, history, context)) ?? null);
}

export async function rebuildRows(context: Context): Promise<void> {
  const { store, recorder, ports } = context;
  const damaged = store.health().damagedRows;
  const isCommand = ({ kind }: RowKey) => kind === 'commands';
  // Commands first: reservations and starts are rebuilt from the rows of commands.
  for (const key of [...damaged.filter(isCommand), ...damaged.filter((one) => !isCommand(one))]) {
    const put = await rebuiltRow(key, context);
    if (!put) {
      ports.log.error({ row: key }, 'could not rebuild a damaged row from the log');
      continue;
    }
    const { kind, owner, id } = key;
    const fact = {
      stream: `repair:${kind}`,
      event: { type: 'row.rebuilt' as const, data: { kind, owner, id } },
      party: null,
    };
    await recorder.record({ facts: [fact], puts: [put], trace: null });
    ports.log.warn({ row: key }, 'rebuilt a damaged row from the log');
  }
}

/** Rebuilds rows whose damage shows only when they are read, as soon as the store reports them. */
export function rebuildWhenFound(context: Context): void {
  let repairing = Promise.resolve();
  context.store.onHealth(({ state, damagedRows }) => {
    if (state !== 'open' || damagedRows.length === 0) return;
    repairing = repairing
      .then(() => rebuildRows(context))
      .catch((error: unknown) => context.ports.log.error({ err: error }, 'could not rebuild damaged rows'));
  });
}
