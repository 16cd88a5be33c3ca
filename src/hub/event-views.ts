/**
 * The log as operators read it: forwards from wherever they have come to, or back from its end, with a filter.
 */
import type { Store, StoredEvent } from '../../storage/contract.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { objectName } from '../domain/object.ts';
import { Merge, placeOf, readPositions, writePositions } from './log-order.ts';
import type { EventFilter, EventPage, EventRange, EventView } from './operator.ts';

export function eventViews(store: Store): (filter: EventFilter, range: EventRange) => Promise<EventPage> {
  return async (filter, { order, after, cursor, limit }) => {
    const heads = await store.heads();
    const isForwards = order === 'oldest';
    const from = await readPositions(store, (isForwards ? cursor : null) ?? after);
    const upTo = isForwards || cursor === null ? heads : await readPositions(store, cursor);
    const ranges = [...heads].map(([shard, head]) => {
      return { shard, after: from.get(shard) ?? 0, upTo: Math.min(head, upTo.get(shard) ?? 0) };
    });
    const merge = new Merge(store, ranges, order, (event) => matches(event, filter));
    const items: EventView[] = [];
    while (items.length < limit) {
      const event = await merge.next(limit - items.length);
      if (!event) break;
      items.push(eventView(event));
    }
    const rest = merge.rest();
    const reached = ranges.map(({ shard, after: bound, upTo: end }): [number, number] => {
      const next = rest.get(shard);
      return isForwards ? [shard, next ? next - 1 : Math.max(bound, end)] : [shard, next ?? bound];
    });
    const place = writePositions(store, new Map(reached));
    return {
      items,
      next_cursor: rest.size > 0 ? `${place}` : null,
      last_seq: isForwards ? place : writePositions(store, heads),
      kept_from: Math.max(...[...heads.keys()].map((shard) => store.horizon(shard))) + 1,
    };
  };
}

function eventView(event: StoredEvent): EventView {
  const { at, type, party, correlationId: correlation_id, data } = event;
  const object = objectOf(event);
  return { seq: placeOf(event), at, type, party, object, correlation_id, data: withoutSecrets(data) };
}

function objectOf({ data }: StoredEvent): string | null {
  const { owner, id } = data as Partial<ObjectEventData>;
  return owner && id ? objectName({ owner, id }) : null;
}

/** Digests and sealed tokens are of no use to anyone who reads events. */
function withoutSecrets(data: unknown): unknown {
  if (typeof data !== 'object' || data === null) return data;
  return Object.fromEntries(Object.entries(data).filter(([key]) => !key.endsWith('Digest') && key !== 'partnerToken'));
}

function matches(event: StoredEvent, filter: EventFilter): boolean {
  return (
    (!filter.type || event.type === filter.type || event.type.startsWith(`${filter.type}.`)) &&
    (!filter.party || event.party === filter.party) &&
    (!filter.object || objectOf(event)?.toLowerCase() === filter.object.toLowerCase()) &&
    (!filter.correlation_id || event.correlationId === filter.correlation_id)
  );
}
