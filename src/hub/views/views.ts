/**
 * Read models for operators: deliveries, events, commands, cases, pulls and quarantine, read from the log and its rows.
 */
import type { DeliveryRow, Row, StoredEvent } from '../../../storage/contract.ts';
import type { CommandView } from '../../api/commands.ts';
import type { Page } from '../../api/common.ts';
import type { DeadGroup, DeliveryView } from '../../api/deliveries.ts';
import type { EventView } from '../../api/events.ts';
import type { OrphanView } from '../../api/orphans.ts';
import type { PullView, QuarantineView } from '../../api/pulls.ts';
import type { CommandRecord } from '../../domain/command.ts';
import { HubError } from '../../domain/errors.ts';
import { deliveryId, type ObjectEventData, owedTo, readDeliveryId } from '../../domain/events.ts';
import { ownedModules } from '../../domain/modules.ts';
import { objectName } from '../../domain/object.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import { keyOf, namesEither, type PartyId } from '../../domain/party.ts';
import type { PullRecord, QuarantineRecord } from '../../domain/pull.ts';
import { presentRequest } from '../delivery/attempts.ts';
import type { DeliveryMemory } from '../delivery/delivery-row.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { type DeliveryStanding, deadRows } from '../delivery/outbox-writer.ts';
import type { Context } from '../kernel/context.ts';
import { objectFromRow, rowData, unownedShelf } from '../kernel/row-codecs.ts';
import type { CommandFilter, DeliveryDetail, Operations, PageRequest, PullFilter } from '../ports/operator.ts';
import { notOurs, readCursor } from './cursor.ts';
import { deliveryLists } from './deliveries.ts';
import { changeBy } from './delivery-diff.ts';
import { eventView, eventViews } from './events.ts';

/** Read verbs of operators that this file implements. */
export type ViewVerb =
  | 'deliveries'
  | 'delivery'
  | 'deadGroups'
  | 'events'
  | 'commands'
  | 'command'
  | 'orphans'
  | 'pull'
  | 'pulls'
  | 'quarantine'
  | 'storedNotForwarded';

/** Those verbs, and the views of one event and one delivery: read for a trace, or of the state that a re-drive has read. */
type Views = Pick<Operations, ViewVerb> & {
  eventShown: (event: StoredEvent) => EventView;
  deliveryView: (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;
  shown: (event: StoredEvent, receiver: PartyId, standing: DeliveryStanding) => DeliveryView;
};

/** Rows that a filtered page examines, and rows per read: more would delay other requests. */
const examinedMax = 5_000;
const examinedStep = 500;

export function views(context: Context, outbound: Dispatcher): Views {
  const { store } = context;
  const rolesOf = (partner: PartyId) => context.directory.partner(partner)?.roles.map(keyOf) ?? [];

  async function deliveryView(event: StoredEvent, receiver: PartyId): Promise<DeliveryView> {
    return shown(event, receiver, await outbound.standing(receiver, event.seq));
  }

  function shown(event: StoredEvent, receiver: PartyId, { row, state }: DeliveryStanding): DeliveryView {
    const data = event.data as ObjectEventData;
    const memory = row?.data as DeliveryMemory | undefined;
    return {
      id: deliveryId(receiver, event),
      state,
      receiver,
      sender: data.owner,
      module: data.module,
      object: objectName(data),
      method: memory?.whole ? 'PUT' : (owedTo(data, receiver)?.method ?? data.method),
      seq: event.seq,
      correlation_id: event.correlationId,
      accepted_at: event.at,
      due_at: memory?.due ?? null,
      class: memory?.class ?? memory?.attempts.at(-1)?.class ?? null,
      reason: memory?.reason ?? null,
      attempts: memory?.attempts ?? [],
    };
  }

  async function delivery(id: string): Promise<DeliveryDetail> {
    const { seq = 0, receiver = '' } = readDeliveryId(id) ?? {};
    const event = seq ? await store.event(seq) : null;
    const standing = event && (await outbound.standing(receiver, seq));
    if (!standing || (!event.to.includes(receiver) && !standing.row)) throw new HubError('notFound');
    const change = await changeBy(store, event, {
      receiver,
      isDelivered: async (earlier) => (await outbound.standing(receiver, earlier)).state === 'DELIVERED',
    });
    const request = presentRequest(
      context.directory,
      event,
      await outbound.wholes.requestOf(event, receiver, standing.row),
      receiver,
    );
    return { ...shown(event, receiver, standing), request, change };
  }

  async function deadGroups(): Promise<DeadGroup[]> {
    const groups = new Map<string, DeadGroup>();
    for await (const row of deadRows(context, outbound.unwritten())) count(groups, row);
    return [...groups.values()].sort((a, b) => b.count - a.count);
  }

  async function commands({ party, state }: CommandFilter, page: PageRequest): Promise<Page<CommandView>> {
    const fits = (record: CommandRecord) =>
      namesEither(record, party) && (state === undefined || record.state === state);
    const view = (row: Row) => commandView(row.data as CommandRecord);
    const isFiltered = party !== undefined || state !== undefined;
    return newestFirst(
      'commands',
      'commands',
      page,
      view,
      isFiltered ? ({ data }) => fits(data as CommandRecord) : null,
    );
  }

  async function command(id: string): Promise<CommandView> {
    const record = await rowData<CommandRecord>(store, { kind: 'commands', owner: '', id });
    if (!record) throw new HubError('notFound');
    return commandView(record);
  }

  async function orphans(state: string | null): Promise<OrphanView[]> {
    const found: OrphanView[] = [];
    for await (const row of store.scan('orphans')) {
      const view = orphanView(row.data as OrphanRecord);
      if (state === null ? view.state !== 'GRACE' : view.state === state) found.push(view);
    }
    return found;
  }

  async function pulls({ partner }: PullFilter, page: PageRequest): Promise<Page<PullView>> {
    const fits = ({ data }: Row) => (data as PullRecord).party === partner;
    const view = (row: Row) => pullView(row.data as PullRecord);
    return newestFirst('pulls', 'pulls', page, view, partner === undefined ? null : fits);
  }

  async function pull(id: string): Promise<PullView> {
    const record = await rowData<PullRecord>(store, { kind: 'pulls', owner: '', id });
    if (!record) throw new HubError('notFound');
    return pullView(record);
  }

  async function quarantine(page: PageRequest): Promise<Page<QuarantineView>> {
    return newestFirst('quarantine', 'quarantine', page, ({ data, upd: at, body }) => {
      return { ...(data as QuarantineRecord), at, text: body ?? '' };
    });
  }

  /** Sessions first, then CDRs, each newest first. */
  async function storedNotForwarded(page: PageRequest) {
    const view = async (row: Row) => {
      const object = objectFromRow(row);
      const event = await store.event(row.seq);
      return {
        module: row.kind,
        object: objectName(object),
        cpo: object.owner,
        reason: object.reason ?? '',
        at: event?.at ?? object.lastUpdated,
      };
    };
    const [place = 0, left = null] = readCursor(page.cursor);
    const kind = ownedModules[place];
    if (kind === undefined) throw notOurs();
    const found = await newestFirst(kind, unownedShelf, { ...page, cursor: left === null ? null : String(left) }, view);
    if (found.next_cursor !== null) return { ...found, next_cursor: `${place}.${found.next_cursor}` };
    return { ...found, next_cursor: place + 1 < ownedModules.length ? String(place + 1) : null };
  }

  /**
   * Pages from the end of a list: any offset is cheap in a counted index. The cursor is the number of rows left. With a
   * filter a page examines at most `examinedMax` rows.
   */
  async function newestFirst<T>(
    kind: string,
    shelf: string,
    page: PageRequest,
    view: (row: Row) => T | Promise<T>,
    fits: ((row: Row) => boolean) | null = null,
  ): Promise<Page<T>> {
    const query = { kind, shelves: [shelf] };
    let [left = (await store.list({ ...query, offset: 0, limit: 1 })).total] = readCursor(page.cursor);
    const step = fits === null ? page.limit : examinedStep;
    const end = Math.max(0, left - (fits === null ? page.limit : examinedMax));
    const found: Row[] = [];
    while (left > end && found.length < page.limit) {
      const offset = Math.max(end, left - step);
      const { rows } = await store.list({ ...query, offset, limit: left - offset });
      left = offset;
      for (const [index, row] of [...rows.entries()].reverse()) {
        if (fits !== null && !fits(row)) continue;
        found.push(row);
        if (found.length < page.limit) continue;
        left = offset + index;
        break;
      }
    }
    return { items: await Promise.all(found.map(view)), next_cursor: left > 0 ? String(left) : null };
  }

  return {
    ...{
      deadGroups,
      deliveryView,
      shown,
      eventShown: (event) => eventView(event, rolesOf),
      deliveries: deliveryLists(context, outbound, deliveryView),
      delivery,
      commands,
      command,
      events: eventViews(store, rolesOf),
    },
    ...{ orphans, pull, pulls, quarantine, storedNotForwarded },
  };
}

/** Adds a dead letter to the group of its receiver, module and outcome class. */
function count(groups: Map<string, DeadGroup>, row: DeliveryRow): void {
  const { dest: receiver, data } = row;
  const { module, since, class: met } = data as DeliveryMemory;
  const key = `${receiver} ${module} ${met}`;
  const before = groups.get(key);
  groups.set(key, {
    ...{ receiver, module, class: met ?? 'unknown', sample: before?.sample ?? deliveryId(receiver, row) },
    count: (before?.count ?? 0) + 1,
    ...ages([before?.oldest_at ?? since, before?.newest_at ?? since, since]),
  });
}

function ages(instants: readonly string[]): Pick<DeadGroup, 'oldest_at' | 'newest_at'> {
  const sorted = [...instants].sort();
  return { oldest_at: sorted[0] ?? '', newest_at: sorted.at(-1) ?? '' };
}

function commandView({ id, command, emsp, cpo, state, result, reason, sessionId, at }: CommandRecord): CommandView {
  return { id, command, emsp, cpo, state, result, reason, session: sessionId, at };
}

function pullView(record: PullRecord): PullView {
  const { dateFrom: date_from, startedAt: started_at, endedAt: ended_at, error, ...rest } = record;
  return { ...rest, date_from, started_at, ended_at, ...(error !== null && { error }) };
}

export function orphanView(record: OrphanRecord): OrphanView {
  const {
    id,
    kind,
    state,
    cpo,
    emsp,
    openedAt: opened_at,
    pulledAt: pulled_at,
    resolvedAt: resolved_at,
    note,
  } = record;
  const session = objectName({ owner: cpo, id: record.session });
  return { id, kind, state, session, cpo, emsp, opened_at, pulled_at, resolved_at, note };
}
