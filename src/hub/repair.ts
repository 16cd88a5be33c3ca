/**
 * Makes damaged or missing rows again from the log, by the same folds that made them. A row that cannot be made again is left
 * unreadable and named: nothing is guessed.
 */
import type { Put, RowKey, StoredEvent } from '../../storage/contract.ts';
import { applyToCommand, type CommandRecord } from '../domain/command.ts';
import type { CommandEvent, ObjectEventData, OrphanEvent } from '../domain/events.ts';
import { applyToObject } from '../domain/fold.ts';
import { type HubObject, type ObjectModule, streamOf } from '../domain/object.ts';
import { applyToOrphan, type OrphanRecord } from '../domain/orphan.ts';
import { applyToPartner, type Partner, type PartnerEvent } from '../domain/party.ts';
import { applyToPull, type PullEvent, type PullRecord, type QuarantineRecord } from '../domain/pull.ts';
import type { Route } from '../domain/routing.ts';
import { commandRow, foundAgainBy } from './commands.ts';
import { billedPut, type Core, objectPut, ownerPut, partnerPut, routePut } from './core.ts';
import { orphanRow } from './orphans.ts';
import { partnerStream } from './partners.ts';
import { pullRow } from './pulls.ts';
import { quarantineRow, quarantineStream } from './quarantine.ts';

type History = (stream: string) => Promise<StoredEvent[]>;
/** The row as it should be; gone when the log says that it was removed; null when the log cannot tell. */
type Rebuild = (key: RowKey, history: History, core: Core) => Promise<Put | null>;

const readBatch = 500;

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

const object: Rebuild = async ({ kind, owner, id }, history) => {
  const all = await history(streamOf(kind as ObjectModule, owner, id));
  const events = all.filter(({ type }) => type !== 'object.resent');
  const found = fold<HubObject>(events, 'object.', (before, event) =>
    applyToObject(before, event.data as ObjectEventData, event.body ?? ''),
  );
  if (found) return objectPut(found);
  return events.at(-1)?.type === 'object.deleted' ? { kind, owner, id, gone: true } : null;
};

const ownerOf: Rebuild = async ({ kind, owner, id }) => ownerPut(kind.split(':')[0] as ObjectModule, owner, id);

/** A row by which a later step finds a command: the last accepted command that made one of this name. */
const foundAgain: Rebuild = async (key, history, { store }) => {
  const shard = store.shardOf(key.owner);
  let found: Put | null = null;
  for (let after = 0, events = await store.read({ shard, after, limit: readBatch }); events.length > 0; ) {
    for (const { type, stream, data, at } of events) {
      if (type !== 'command.answered') continue;
      const record = foldCommand(await history(stream));
      const event = { type, data } as CommandEvent;
      const puts = record ? foundAgainBy(record, event, at) : [];
      found = puts.find((put) => put.kind === key.kind && put.owner === key.owner && put.id === key.id) ?? found;
    }
    after = events.at(-1)?.seq ?? after;
    events = await store.read({ shard, after, limit: readBatch });
  }
  return found;
};

const foldCommand = (events: readonly StoredEvent[]) =>
  fold<CommandRecord>(events, 'command.', (before, { type, data, at }) =>
    applyToCommand(before, { type, data } as CommandEvent, at),
  );

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
  orphans: async ({ id }, history) => {
    const found = fold<OrphanRecord>(await history(`orphan:${id}`), 'orphan.', (before, { type, data, at }) =>
      applyToOrphan(before, { type, data } as OrphanEvent, at),
    );
    return found && orphanRow(found);
  },
};

export async function repairRows(core: Core): Promise<void> {
  const { store, recorder, ports } = core;
  for (const key of store.health().damagedRows) {
    const shardOf = key.owner;
    const history = (stream: string) => store.history(store.shardOf(shardOf), stream);
    const put = await rebuilds[key.kind]?.(key, history, core);
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
    await recorder.record({ shardOf, facts: [fact], puts: [put], trace: null, at: recorder.instant() });
    ports.log.warn({ row: key }, 'a damaged row was made again from the log');
  }
}
