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
import type { Route } from '../domain/routing.ts';
import { commandRow } from './commands.ts';
import { type Core, objectPut, ownerPut, partnerPut, routePut } from './core.ts';
import { orphanRow } from './orphans.ts';
import { partnerStream } from './partners.ts';

type Rebuild = (key: RowKey, history: (stream: string) => Promise<StoredEvent[]>) => Promise<Put | null>;

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
  const events = await history(streamOf(kind as ObjectModule, owner, id));
  const found = fold<HubObject>(events, 'object.', (before, event) =>
    applyToObject(before, event.data as ObjectEventData, event.body ?? ''),
  );
  return found && objectPut(found);
};

const ownerOf: Rebuild = async ({ kind, owner, id }) => ownerPut(kind.split(':')[0] as ObjectModule, owner, id);

const rebuilds: Record<string, Rebuild> = {
  locations: object,
  tariffs: object,
  sessions: object,
  cdrs: object,
  tokens: object,
  'locations:owners': ownerOf,
  'sessions:owners': ownerOf,
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
    const found = fold<CommandRecord>(await history(`command:${id}`), 'command.', (before, { type, data, at }) =>
      applyToCommand(before, { type, data } as CommandEvent, at),
    );
    return found && commandRow(found);
  },
  orphans: async ({ id }, history) => {
    const found = fold<OrphanRecord>(await history(`orphan:${id}`), 'orphan.', (before, { type, data, at }) =>
      applyToOrphan(before, { type, data } as OrphanEvent, at),
    );
    return found && orphanRow(found);
  },
};

export async function repairRows({ store, recorder, ports }: Core): Promise<void> {
  for (const key of store.health().damagedRows) {
    const shardOf = key.owner;
    const history = (stream: string) => store.history(store.shardOf(shardOf), stream);
    const put = await rebuilds[key.kind]?.(key, history);
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
