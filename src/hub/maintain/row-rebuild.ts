/**
 * Makes damaged or missing rows again from the log, by the same folds that made them. A row that cannot be made again is left
 * unreadable and named: nothing is guessed.
 */
import type { Put, RowKey, Seq, StoredEvent } from '../../../storage/contract.ts';
import { applyToCommand, type CommandRecord } from '../../domain/command.ts';
import type { CommandEvent, ObjectEventData, OrphanEvent } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import { type HubObject, type ObjectModule, streamOf } from '../../domain/object.ts';
import { applyToOrphan, type OrphanRecord } from '../../domain/orphan.ts';
import { applyToPartner, type Partner, type PartnerEvent } from '../../domain/party.ts';
import { applyToPull, type PullEvent, type PullRecord, type QuarantineRecord } from '../../domain/pull.ts';
import type { Route } from '../../domain/routing.ts';
import { commandRow, foundAgainBy } from '../exchange/command-rows.ts';
import { orphanRow } from '../exchange/orphan-cases.ts';
import type { Context } from '../kernel/context.ts';
import { directoryPut } from '../kernel/directory-row.ts';
import { billedPut, objectPut, ownerPut, partnerPut, routePut } from '../kernel/row-codecs.ts';
import { partnerStream } from '../partners/partner-actors.ts';
import { pullRow } from '../pull/pulls.ts';
import { quarantineRow, quarantineStream } from '../pull/quarantine.ts';
import { backupRow } from './backups.ts';
import { jobRow } from './jobs.ts';

type History = (stream: string) => Promise<StoredEvent[]>;
/** The row as it should be; gone when the log says that it was removed; null when the log cannot tell. */
type Rebuild = (key: RowKey, history: History, context: Context) => Promise<Put | null>;

/** Folds the facts of a stream that concern the row; others (of circuits) are passed over. */
function fold<State>(
  events: readonly StoredEvent[],
  prefix: string,
  apply: (state: State | null, event: StoredEvent) => State | null,
) {
  return events
    .filter((event) => event.type.startsWith(prefix))
    .reduce<State | null>((state, event) => apply(state, event), null);
}

export function foldObject(events: readonly StoredEvent[]): HubObject | null {
  return fold<HubObject>(events, 'object.', (before, event) =>
    applyToObject(before, event.data as ObjectEventData, event.body ?? '', event.to),
  );
}

const object: Rebuild = async ({ kind, owner, id }, history) => {
  const events = await history(streamOf(kind as ObjectModule, owner, id));
  const found = foldObject(events);
  if (found) return objectPut(found);
  return events.at(-1)?.type === 'object.deleted' ? { kind, owner, id, gone: true } : null;
};

const ownerOf: Rebuild = async ({ kind, owner, id }) => ownerPut(kind.split(':')[0] as ObjectModule, owner, id);

/**
 * A row by which a later step finds a command: the last accepted command that made one of this name. Of commands that a trimmed log
 * has kept only their streams tell, so each command is asked.
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
  // Made by a command that was too old to be kept, it would have gone with it.
  return found?.put ?? (store.horizon() > 0 ? { ...key, gone: true } : null);
};

export const foldCommand = (events: readonly StoredEvent[]) =>
  fold<CommandRecord>(events, 'command.', (before, { type, data, at }) =>
    applyToCommand(before, { type, data } as CommandEvent, at),
  );

/** The row of work that each of its facts shows whole; null of a log from when they did not. */
function shownLast<View extends { started_at: string }>(
  events: readonly StoredEvent[],
  rowOf: (view: View) => Put,
): Put | null {
  const view = events.at(-1)?.data as View | undefined;
  return view?.started_at === undefined ? null : rowOf(view);
}

const rebuilds: Record<string, Rebuild> = {
  locations: object,
  tariffs: object,
  sessions: object,
  cdrs: object,
  tokens: object,
  'locations:owners': ownerOf,
  'sessions:owners': ownerOf,
  'cdrs:owners': ownerOf,
  'cdrs:sessions': async (key) => billedPut(key),
  pulls: async ({ id }, history) => {
    const found = fold<PullRecord>(await history(`pull:${id}`), 'pull.', (before, { type, data, at }) =>
      applyToPull(before, { type, data } as PullEvent, at),
    );
    return found && pullRow(found);
  },
  // The next pull reads the whole list again, which loses nothing.
  'pulls:last': async ({ kind, owner, id }) => ({ kind, owner, id, gone: true }),
  quarantine: async ({ owner, id }, history) => {
    const last = (await history(quarantineStream(owner, id))).at(-1);
    return last ? quarantineRow(id, last.data as QuarantineRecord, last.body ?? '', last.at) : null;
  },
  partners: async ({ id }, history) => {
    const found = fold<Partner>(await history(partnerStream(id)), 'partner.', (before, { type, data, at }) =>
      applyToPartner(before, { type, data } as PartnerEvent, at),
    );
    return found && partnerPut(found);
  },
  directory: async () => directoryPut,
  routes: async ({ id }, history) => {
    const last = (await history(`route:${id}`)).at(-1);
    return last?.type === 'route.set' ? routePut(last.data as Route) : null;
  },
  commands: async ({ id }, history) => {
    const found = foldCommand(await history(`command:${id}`));
    return found && commandRow(found);
  },
  reservations: foundAgain,
  'starts:reference': foundAgain,
  'starts:uid': foundAgain,
  jobs: async ({ id }, history) => shownLast(await history(`job:${id}`), jobRow),
  backups: async ({ id }, history) => shownLast(await history(`backup:${id}`), backupRow),
  orphans: async ({ id }, history) => {
    const found = fold<OrphanRecord>(await history(`orphan:${id}`), 'orphan.', (before, { type, data, at }) =>
      applyToOrphan(before, { type, data } as OrphanEvent, at),
    );
    return found && orphanRow(found);
  },
};

/** A row as the log has it. */
export async function rebuiltRow(key: RowKey, context: Context): Promise<Put | null> {
  const history = (stream: string) => context.store.history(stream);
  return (await rebuilds[key.kind]?.(key, history, context)) ?? null;
}

export async function rebuildRows(context: Context): Promise<void> {
  const { store, recorder, ports } = context;
  const damaged = store.health().damagedRows;
  const isCommand = ({ kind }: RowKey) => kind === 'commands';
  // Others are found by them.
  for (const key of [...damaged.filter(isCommand), ...damaged.filter((one) => !isCommand(one))]) {
    const put = await rebuiltRow(key, context);
    if (!put) {
      ports.log.error({ row: key }, 'a damaged row could not be made again from the log');
      continue;
    }
    const { kind, owner, id } = key;
    const fact = {
      stream: `repair:${kind}`,
      event: { type: 'row.rebuilt' as const, data: { kind, owner, id } },
      party: null,
    };
    await recorder.record({ facts: [fact], puts: [put], trace: null, at: recorder.instant() });
    ports.log.warn({ row: key }, 'a damaged row was made again from the log');
  }
}

/** Rows whose damage shows only when they are looked up are made again when it does. */
export function rebuildWhenFound(context: Context): void {
  let repairing = Promise.resolve();
  context.store.onHealth(({ state, damagedRows }) => {
    if (state !== 'open' || damagedRows.length === 0) return;
    repairing = repairing
      .then(() => rebuildRows(context))
      .catch((error: unknown) => context.ports.log.error({ err: error }, 'damaged rows could not be made again'));
  });
}
