/**
 * The log as operators read it: forwards from a sequence, or back from its end, with a filter; of several shards
 * one after the other.
 */
import type { Shard, Store, StoredEvent } from '../../storage/contract.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { objectName } from '../domain/object.ts';
import { placeOf, readPlace, usedShards } from './log-order.ts';
import type { EventFilter, EventPage, EventRange, EventView } from './operator.ts';

/** Events looked at in one step through the log. */
const step = 500;
/** Steps one request may take; the cursor goes on from there. */
const stepsMax = 40;

export function eventViews(store: Store): (filter: EventFilter, range: EventRange) => Promise<EventPage> {
  const kept = () => ({ kept_from: store.horizon(0) + 1 });

  async function forwards(filter: EventFilter, { after, cursor, limit }: EventRange): Promise<EventPage> {
    const items: EventView[] = [];
    let { shard, seq: last } = readPlace(cursor ?? after);
    const later = () => usedShards(store).find((other) => other > shard);
    last = Math.max(last, store.horizon(shard));
    for (let steps = 0; steps < stepsMax && items.length < limit; steps++) {
      const batch = await store.read({ shard, after: last, limit: step });
      for (const event of batch) {
        last = event.seq;
        const view = eventView(event);
        if (matches(view, filter)) items.push(view);
        if (items.length === limit) break;
      }
      if (batch.length === step || items.length === limit) continue;
      const next = later();
      if (next === undefined) break;
      shard = next;
      last = store.horizon(shard);
    }
    const place = placeOf(shard, last);
    const isMore = last < store.head(shard) || later() !== undefined;
    return { items, next_cursor: isMore ? String(place) : null, last_seq: place, ...kept() };
  }

  async function backwards(filter: EventFilter, range: EventRange): Promise<EventPage> {
    const { cursor, limit } = range;
    const bound = readPlace(range.after);
    const shards = usedShards(store).filter((shard) => shard >= bound.shard);
    const newest = shards.at(-1) ?? 0;
    const end = placeOf(newest, store.head(newest));
    const items: EventView[] = [];
    let { shard, seq } = readPlace(Math.min(end, cursor ?? end));
    const afterIn = (of: Shard) => Math.max(of === bound.shard ? bound.seq : 0, store.horizon(of));
    const earlier = () => shards.findLast((other) => other < shard && store.head(other) > afterIn(other));
    for (let steps = 0; steps < stepsMax && items.length < limit; steps++) {
      const from = Math.max(afterIn(shard), seq - step);
      const batch = seq > from ? await store.read({ shard, after: from, limit: seq - from }) : [];
      for (const event of batch.reverse()) {
        seq = event.seq - 1;
        const view = eventView(event);
        if (matches(view, filter)) items.push(view);
        if (items.length === limit) break;
      }
      if (items.length < limit) seq = from;
      if (items.length === limit || seq > afterIn(shard)) continue;
      const next = earlier();
      if (next === undefined) break;
      shard = next;
      seq = store.head(shard);
    }
    const next = earlier();
    const rest = next === undefined ? null : placeOf(next, store.head(next));
    const place = seq > afterIn(shard) ? placeOf(shard, seq) : rest;
    return { items, next_cursor: place === null ? null : String(place), last_seq: end, ...kept() };
  }

  return (filter, range) => (range.order === 'newest' ? backwards : forwards)(filter, range);
}

function eventView(event: StoredEvent): EventView {
  const data = event.data as Partial<ObjectEventData>;
  const object = data.owner && data.id ? objectName({ owner: data.owner, id: data.id }) : null;
  const { at, type, party, correlationId: correlation_id } = event;
  const seq = placeOf(event.shard, event.seq);
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
