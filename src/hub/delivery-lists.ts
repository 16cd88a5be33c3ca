/**
 * Lists of deliveries, newest first, as the log has them. Where one is dead or waits for another attempt stands in the rows, which
 * are few; so what an operator looks for most is found without a look at everything that arrived.
 */
import type { DeliveryRow, Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import { HubError } from '../domain/errors.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { objectName } from '../domain/object.ts';
import { keyOf, type PartyId } from '../domain/party.ts';
import type { Core } from './core.ts';
import type { Deliveries } from './deliveries.ts';
import { placeOf, readPlace, usedShards } from './log-order.ts';
import type { DeliveryFilter, DeliveryView, Page, PageRequest } from './operator.ts';
import { openRows } from './outbox.ts';

/** Events read in one step back through the log. */
const step = 500;
/** Steps one request may take; the cursor goes on from there. */
const stepsMax = 40;
/** Events that one request may read one by one. */
const looksMax = 2_000;

/** Receivers by the event that they have a row of. */
type Places = ReadonlyMap<Seq, ReadonlySet<PartyId>>;

/** Where a search that was broken off goes on; null: it came to its end. */
interface Search {
  readonly shard: Shard;
  next: Seq | null;
}

/** What is shown of one shard: from an event back, of which so many deliveries were shown already. */
interface Piece {
  readonly first: Seq;
  readonly shown: number;
  readonly limit: number;
}

interface Found {
  readonly items: DeliveryView[];
  /** Null: the shard came to its end. */
  readonly next: { readonly seq: Seq; readonly shown: number } | null;
}

type ViewDelivery = (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;

export function deliveryLists(core: Core, outbound: Deliveries, view: ViewDelivery) {
  const { store, state } = core;

  /** The cursor is the next event to look at, and how many of its deliveries were shown already. Shard after shard, the last one first. */
  return async function list(filter: DeliveryFilter, page: PageRequest): Promise<Page<DeliveryView>> {
    const shards = shardsOf(filter);
    const last = shards.at(-1) ?? 0;
    const [place, shown] = page.cursor === null ? [placeOf(last, store.head(last)), 0] : deliveryCursor(page.cursor);
    const items: DeliveryView[] = [];
    for (let { shard, seq } = readPlace(place), skipped = shown; ; skipped = 0) {
      const found = await listIn(shard, filter, { first: seq, shown: skipped, limit: page.limit - items.length });
      items.push(...found.items);
      if (found.next !== null) {
        const next = placeOf(shard, found.next.seq);
        return { items, next_cursor: found.next.shown > 0 ? `${next}.${found.next.shown}` : `${next}` };
      }
      const before = shards.findLast((other) => other < shard);
      if (before === undefined) return { items, next_cursor: null };
      shard = before;
      seq = store.head(shard);
      if (items.length === page.limit) return { items, next_cursor: `${placeOf(shard, seq)}` };
    }
  };

  /** Where the changes of one object stand, or all that may be looked at. */
  function shardsOf({ object }: DeliveryFilter): Shard[] {
    const owner = object?.slice(0, object.indexOf('/')).toUpperCase();
    return owner ? [store.shardOf(owner)] : usedShards(store);
  }

  async function listIn(shard: Shard, filter: DeliveryFilter, { first, shown, limit }: Piece): Promise<Found> {
    const items: DeliveryView[] = [];
    const isKept = (seq: Seq) => seq > store.horizon(shard);
    const search: Search = { shard, next: null };
    const places = filter.state === 'DEAD' || filter.state === 'PENDING' ? await rowsIn(shard, filter, first) : null;
    const events = places && filter.state === 'DEAD' ? at(places, search) : backFrom(first, search);
    for await (const event of events) {
      const skipped = event.seq === first ? shown : 0;
      const found = (await deliveriesOf(event, filter, places)).slice(skipped);
      const room = limit - items.length;
      items.push(...found.slice(0, room));
      if (found.length > room) return { items, next: { seq: event.seq, shown: skipped + room } };
      if (found.length === room)
        return { items, next: isKept(event.seq - 1) ? { seq: event.seq - 1, shown: 0 } : null };
    }
    return { items, next: search.next === null ? null : { seq: search.next, shown: 0 } };
  }

  async function* backFrom(first: Seq, search: Search): AsyncGenerator<StoredEvent> {
    const { shard } = search;
    const isKept = (seq: Seq) => seq > store.horizon(shard);
    let seq = first;
    for (let steps = 0; isKept(seq) && steps < stepsMax; steps++) {
      const after = Math.max(store.horizon(shard), seq - step);
      const events = await store.read({ shard, after, limit: seq - after });
      yield* events.reverse();
      seq = after;
    }
    search.next = isKept(seq) ? seq : null;
  }

  async function* at(places: Places, search: Search): AsyncGenerator<StoredEvent> {
    const seqs = [...places.keys()].sort((a, b) => b - a);
    for (const seq of seqs.slice(0, looksMax)) {
      const event = await store.event(search.shard, seq);
      if (event) yield event;
    }
    search.next = seqs[looksMax] ?? null;
  }

  /** Rows of the wanted state up to an event, those that are not written yet included. */
  async function rowsIn(
    shard: Shard,
    { state: wanted, receiver, module }: DeliveryFilter,
    toSeq: Seq,
  ): Promise<Places> {
    const places = new Map<Seq, Set<PartyId>>();
    const known = [...state.partners()].flatMap(({ roles }) => roles.map(keyOf));
    const receivers = new Set(receiver ? [receiver] : known);
    const add = (row: DeliveryRow) => {
      if (row.state !== wanted || row.shard !== shard || row.seq > toSeq || !receivers.has(row.dest)) return;
      if (module && (row.data as { module: string }).module !== module) return;
      places.set(row.seq, (places.get(row.seq) ?? new Set()).add(row.dest));
    };
    for await (const row of openRows(core, receivers)) add(row);
    for (const row of outbound.unwritten()) add(row);
    return places;
  }

  async function deliveriesOf(
    event: StoredEvent,
    filter: DeliveryFilter,
    places: Places | null,
  ): Promise<DeliveryView[]> {
    if ((filter.from && event.at < filter.from) || (filter.to && event.at >= filter.to)) return [];
    const data = event.data as ObjectEventData;
    if (filter.module && data.module !== filter.module) return [];
    if (filter.object && objectName(data).toLowerCase() !== filter.object.toLowerCase()) return [];
    const found: DeliveryView[] = [];
    const open = places?.get(event.seq);
    for (const receiver of event.to) {
      if (filter.receiver && receiver !== filter.receiver) continue;
      // Without a row it may wait for its first attempt.
      if (places && !open?.has(receiver) && !(await outbound.awaits(receiver, event))) continue;
      const shown = await view(event, receiver);
      if (!filter.state || shown.state === filter.state) found.push(shown);
    }
    return found;
  }
}

function deliveryCursor(cursor: string): [seq: Seq, shown: number] {
  const [seq = '', shown = '0'] = cursor.split('.');
  return [cursorSeq(seq), cursorSeq(shown)];
}

export function cursorSeq(cursor: string): Seq {
  if (!/^\d{1,16}$/.test(cursor)) throw new HubError('invalid', { message: 'cursor: not one of ours' });
  return Number(cursor);
}
