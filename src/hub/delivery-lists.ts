/**
 * Lists of deliveries, newest first, as the log has them. Where one is dead or waits for another attempt stands in the rows, which
 * are few; so what an operator looks for most is found without a look at everything that arrived.
 */
import type { DeliveryRow, Range, Shard, StoredEvent } from '../../storage/contract.ts';
import type { ObjectEventData } from '../domain/events.ts';
import { objectName } from '../domain/object.ts';
import { keyOf, type PartyId } from '../domain/party.ts';
import type { Core } from './core.ts';
import type { Deliveries } from './deliveries.ts';
import { awaits } from './delivery-state.ts';
import { cursorSeq, Merge, type Positions, placeOf, readPlace, readPositions, writePositions } from './log-order.ts';
import type { DeliveryFilter, DeliveryView, Page, PageRequest } from './operator.ts';
import { openRows } from './outbox.ts';

/** Receivers by the place of the event that they have a row of. */
type Places = ReadonlyMap<number, ReadonlySet<PartyId>>;

/** Where a list goes on: in each shard, and so many deliveries of one event behind. */
interface Cursor {
  readonly upTo: Positions;
  readonly shown: number;
  /** Of that event. */
  readonly shard: Shard;
}

type ViewDelivery = (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;

export function deliveryLists(core: Core, outbound: Deliveries, view: ViewDelivery) {
  const { store, state } = core;

  return async function list(filter: DeliveryFilter, page: PageRequest): Promise<Page<DeliveryView>> {
    const heads = await store.heads();
    const { upTo, shown, shard: shownOf } = page.cursor === null ? fromEnd(heads) : await readCursor(page.cursor);
    const ranges = shardsOf(filter, heads).map((shard) => {
      return { shard, after: store.horizon(shard), upTo: Math.min(heads.get(shard) ?? 0, upTo.get(shard) ?? 0) };
    });
    const places = filter.state === 'DEAD' || filter.state === 'PENDING' ? await rowsIn(ranges, filter) : null;
    const looked = places && filter.state === 'DEAD' ? at(places) : ranges;
    const merge = new Merge(store, looked, 'newest', (event) => fits(event, filter));
    const items: DeliveryView[] = [];
    while (items.length < page.limit) {
      const room = page.limit - items.length;
      const event = await merge.next(room);
      if (!event) break;
      const skipped = event.shard === shownOf && event.seq === upTo.get(shownOf) ? shown : 0;
      const found = (await deliveriesOf(event, filter, places)).slice(skipped);
      items.push(...found.slice(0, room));
      if (found.length > room) {
        const rest = new Map([...merge.rest(), [event.shard, event.seq]]);
        const cut = [skipped + room, ...(event.shard > 0 ? [event.shard] : [])];
        return { items, next_cursor: [writePositions(store, rest), ...cut].join('.') };
      }
    }
    const rest = merge.rest();
    return { items, next_cursor: rest.size > 0 ? `${writePositions(store, rest)}` : null };
  };

  /** Where the changes of one object stand, or all that may be looked at. */
  function shardsOf({ object }: DeliveryFilter, heads: Positions): Shard[] {
    const owner = object?.slice(0, object.indexOf('/')).toUpperCase();
    return owner ? [store.shardOf(owner)] : [...heads.keys()];
  }

  async function readCursor(cursor: string): Promise<Cursor> {
    const [positions = '', shown = '0', shard = '0'] = cursor.split('.');
    return { upTo: await readPositions(store, positions), shown: cursorSeq(shown), shard: cursorSeq(shard) };
  }

  /** Rows of the wanted state, those that are not written yet included. */
  async function rowsIn(
    ranges: readonly Range[],
    { state: wanted, receiver, module }: DeliveryFilter,
  ): Promise<Places> {
    const places = new Map<number, Set<PartyId>>();
    const ends = new Map(ranges.map(({ shard, upTo }) => [shard, upTo]));
    const known = [...state.partners()].flatMap(({ roles }) => roles.map(keyOf));
    const receivers = new Set(receiver ? [receiver] : known);
    const add = (row: DeliveryRow) => {
      const { shard, seq, dest } = row;
      if (row.state !== wanted || seq > (ends.get(shard) ?? 0) || !receivers.has(dest)) return;
      if (module && (row.data as { module: string }).module !== module) return;
      const place = placeOf(row);
      places.set(place, (places.get(place) ?? new Set()).add(dest));
    };
    // Before the store is read: what is written meanwhile would be in neither.
    for (const row of outbound.unwritten()) add(row);
    for await (const row of openRows(core, receivers)) add(row);
    return places;
  }

  async function deliveriesOf(
    event: StoredEvent,
    filter: DeliveryFilter,
    places: Places | null,
  ): Promise<DeliveryView[]> {
    const found: DeliveryView[] = [];
    const open = places?.get(placeOf(event));
    for (const receiver of event.to) {
      if (filter.receiver && receiver !== filter.receiver) continue;
      // Without a row it may wait for its first attempt.
      if (places && !open?.has(receiver) && !(await awaits(core, outbound, receiver, event))) continue;
      const shown = await view(event, receiver);
      if (!filter.state || shown.state === filter.state) found.push(shown);
    }
    return found;
  }
}

const fromEnd = (upTo: Positions): Cursor => ({ upTo, shown: 0, shard: 0 });

/** Each for itself, the last ones first. */
function at(places: Places): Range[] {
  const sorted = [...places.keys()].sort((a, b) => b - a).map(readPlace);
  return sorted.map(({ shard, seq }) => ({ shard, after: seq - 1, upTo: seq }));
}

function fits({ at: accepted, to: receivers, data }: StoredEvent, filter: DeliveryFilter): boolean {
  const { module, object, from, to, receiver } = filter;
  if (receivers.length === 0 || (receiver && !receivers.includes(receiver))) return false;
  if ((from && accepted < from) || (to && accepted >= to)) return false;
  const change = data as ObjectEventData;
  if (module && change.module !== module) return false;
  return !object || objectName(change).toLowerCase() === object.toLowerCase();
}
