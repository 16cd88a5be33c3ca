/**
 * What operators read: deliveries, events, commands and cases, as the log and the rows have them.
 */
import type { DeliveryRow, Row, StoredEvent } from '../../storage/contract.ts';
import type { CommandRecord } from '../domain/command.ts';
import { HubError } from '../domain/errors.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { objectName } from '../domain/object.ts';
import type { OrphanRecord } from '../domain/orphan.ts';
import { keyOf, type PartyId } from '../domain/party.ts';
import type { PullRecord, QuarantineRecord } from '../domain/pull.ts';
import { type Core, objectFromRow, rowData, unownedShelf } from './core.ts';
import { type Deliveries, deliveryId } from './deliveries.ts';
import type {
  CommandView,
  DeadGroup,
  DeliveryFilter,
  DeliveryView,
  EventFilter,
  EventView,
  Operations,
  OrphanView,
  Page,
  PageRequest,
  PullView,
  QuarantineView,
} from './operator.ts';
import { type DeliveryMemory, rowsOf } from './outbox.ts';

/** Events looked at in one step back through the log. */
const step = 500;
/** Steps one request may take; the cursor goes on from there. */
const stepsMax = 40;
const shard = 0;

/** What operators read. */
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

/** With the view of one delivery for those who need it. */
type Views = Pick<Operations, ViewVerb> & {
  deliveryView: (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;
};

export function views(core: Core, outbound: Deliveries): Views {
  const { store } = core;

  /** The cursor is the next event to look at, and how many of its deliveries were shown already. */
  async function deliveries(filter: DeliveryFilter, page: PageRequest): Promise<Page<DeliveryView>> {
    const items: DeliveryView[] = [];
    let [seq, shown] = page.cursor === null ? [store.head(shard), 0] : deliveryCursor(page.cursor);
    for (let steps = 0; seq > 0 && steps < stepsMax; steps++) {
      const after = Math.max(0, seq - step);
      const events = await store.read({ shard, after, limit: seq - after });
      for (const event of events.reverse()) {
        const skipped = event.seq === seq ? shown : 0;
        const found = (await deliveriesOf(event, filter)).slice(skipped);
        const room = page.limit - items.length;
        items.push(...found.slice(0, room));
        if (found.length > room) return { items, next_cursor: `${event.seq}.${skipped + room}` };
        if (found.length === room) return { items, next_cursor: event.seq > 1 ? `${event.seq - 1}` : null };
      }
      [seq, shown] = [after, 0];
    }
    return { items, next_cursor: seq > 0 ? String(seq) : null };
  }

  async function deliveriesOf(event: StoredEvent, filter: DeliveryFilter): Promise<DeliveryView[]> {
    if (event.to.length === 0 || (filter.from && event.at < filter.from) || (filter.to && event.at >= filter.to))
      return [];
    const data = event.data as ObjectEventData;
    if (filter.module && data.module !== filter.module) return [];
    if (filter.object && objectName(data).toLowerCase() !== filter.object.toLowerCase()) return [];
    const found: DeliveryView[] = [];
    for (const receiver of event.to) {
      if (filter.receiver && receiver !== filter.receiver) continue;
      const view = await deliveryView(event, receiver);
      if (!filter.state || view.state === filter.state) found.push(view);
    }
    return found;
  }

  async function deliveryView(event: StoredEvent, receiver: PartyId): Promise<DeliveryView> {
    const row = await outbound.row(receiver, shard, event.seq);
    const data = event.data as ObjectEventData;
    const memory = row?.data as DeliveryMemory | undefined;
    return {
      id: deliveryId(receiver, event.seq),
      state: stateOf(row, receiver, event.seq),
      receiver,
      sender: data.owner,
      module: data.module,
      object: objectName(data),
      method: data.owed?.method ?? data.method,
      seq: event.seq,
      correlation_id: event.correlationId,
      accepted_at: event.at,
      due_at: memory?.due ?? null,
      class: memory?.class ?? memory?.attempts.at(-1)?.class ?? null,
      reason: memory?.reason ?? null,
      attempts: memory?.attempts ?? [],
    };
  }

  function stateOf(row: DeliveryRow | null, receiver: PartyId, seq: number): DeliveryView['state'] {
    return row?.state ?? (outbound.isPending(receiver, shard, seq) ? 'PENDING' : 'DELIVERED');
  }

  async function delivery(id: string): Promise<DeliveryView> {
    const [, seq, receiver] = /^(\d{1,15})-(.+)$/.exec(id) ?? [];
    const event = seq ? await store.event(shard, Number(seq)) : null;
    const isKnown =
      event && receiver && (event.to.includes(receiver) || (await outbound.row(receiver, shard, event.seq)));
    if (!isKnown) throw new HubError('notFound');
    return deliveryView(event, receiver);
  }

  async function deadGroups(): Promise<DeadGroup[]> {
    const groups = new Map<string, DeadGroup>();
    await outbound.flushed();
    const receivers = [...core.state.partners()].flatMap(({ roles }) => roles.map(keyOf));
    for (const receiver of new Set(receivers)) {
      for await (const row of rowsOf(store, { dest: receiver, shard, rows: 'open', fromSeq: 0 })) {
        if (row.state !== 'DEAD') continue;
        const { module, since, class: met } = row.data as DeliveryMemory;
        const key = `${receiver} ${module} ${met}`;
        const sample = deliveryId(receiver, row.seq);
        const before = groups.get(key) ?? { count: 0, oldest_at: since, newest_at: since, sample };
        groups.set(key, {
          ...{ receiver, module, class: met ?? 'unknown', sample: before.sample, count: before.count + 1 },
          ...ages([before.oldest_at, before.newest_at, since]),
        });
      }
    }
    return [...groups.values()].sort((a, b) => b.count - a.count);
  }

  async function events(filter: EventFilter, after: number, limit: number) {
    const items: EventView[] = [];
    let last = after;
    for (let steps = 0; steps < stepsMax && items.length < limit; steps++) {
      const batch = await store.read({ shard, after: last, limit: step });
      for (const event of batch) {
        last = event.seq;
        const view = eventView(event);
        if (matches(view, filter)) items.push(view);
        if (items.length === limit) break;
      }
      if (batch.length < step) break;
    }
    return { items, next_cursor: last < store.head(shard) ? String(last) : null };
  }

  async function commands(page: PageRequest): Promise<Page<CommandView>> {
    return newestFirst('commands', 'commands', page, (row) => commandView(row.data as CommandRecord));
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
      if (state === null || view.state === state) found.push(view);
    }
    return found;
  }

  async function pulls(page: PageRequest): Promise<Page<PullView>> {
    return newestFirst('pulls', 'pulls', page, (row) => pullView(row.data as PullRecord));
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
      const event = await store.event(shard, row.seq);
      return {
        module: row.kind,
        object: objectName(object),
        cpo: object.owner,
        reason: object.reason ?? '',
        at: event?.at ?? object.lastUpdated,
      };
    };
    const [kind = 'sessions', cursor = null] = page.cursor?.split(':') ?? [];
    const found = await newestFirst(kind, unownedShelf, { ...page, cursor: cursor || null }, view);
    if (found.next_cursor !== null) return { ...found, next_cursor: `${kind}:${found.next_cursor}` };
    return { ...found, next_cursor: kind === 'sessions' ? 'cdrs:' : null };
  }

  /** The order index counts, so the end of a list is as near as its start; the cursor is the count of rows not yet shown. */
  async function newestFirst<T>(
    kind: string,
    shelf: string,
    page: PageRequest,
    view: (row: Row) => T | Promise<T>,
  ): Promise<Page<T>> {
    const query = { kind, shelves: [shelf] };
    const left =
      page.cursor === null ? (await store.list({ ...query, offset: 0, limit: 1 })).total : cursorSeq(page.cursor);
    const offset = Math.max(0, left - page.limit);
    const { rows } = await store.list({ ...query, offset, limit: left - offset });
    return { items: await Promise.all(rows.reverse().map(view)), next_cursor: offset > 0 ? String(offset) : null };
  }

  return {
    ...{ deadGroups, deliveryView, deliveries, delivery, events, commands, command },
    ...{ orphans, pull, pulls, quarantine, storedNotForwarded },
  };
}

function ages(instants: readonly string[]): Pick<DeadGroup, 'oldest_at' | 'newest_at'> {
  const sorted = [...instants].sort();
  return { oldest_at: sorted[0] ?? '', newest_at: sorted.at(-1) ?? '' };
}

function deliveryCursor(cursor: string): [seq: number, shown: number] {
  const [seq = '', shown = '0'] = cursor.split('.');
  return [cursorSeq(seq), cursorSeq(shown)];
}

function cursorSeq(cursor: string): number {
  if (!/^\d{1,15}$/.test(cursor)) throw new HubError('invalid', { message: 'cursor: not one of ours' });
  return Number(cursor);
}

function eventView(event: StoredEvent): EventView {
  const data = event.data as Partial<ObjectEventData>;
  const object = data.owner && data.id ? objectName({ owner: data.owner, id: data.id }) : null;
  const { seq, at, type, party, correlationId: correlation_id } = event;
  return { seq, at, type, party, object, correlation_id, data: withoutSecrets(event.data) };
}

/** Digests and sealed tokens are of no use to anyone who reads events. */
function withoutSecrets(data: unknown): unknown {
  if (typeof data !== 'object' || data === null) return data;
  return Object.fromEntries(Object.entries(data).filter(([key]) => !key.endsWith('Digest') && key !== 'partnerToken'));
}

function matches(view: EventView, filter: EventFilter): boolean {
  return (
    (!filter.type || view.type === filter.type || view.type.startsWith(`${filter.type}.`)) &&
    (!filter.party || view.party === filter.party) &&
    (!filter.object || view.object?.toLowerCase() === filter.object.toLowerCase()) &&
    (!filter.correlation_id || view.correlation_id === filter.correlation_id)
  );
}

function commandView({ id, command, emsp, cpo, state, result, at }: CommandRecord): CommandView {
  return { id, command, emsp, cpo, state, result, at };
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
