/**
 * Lists deliveries from the log, newest first. Rows, which are few, say which deliveries are dead or wait for another
 * attempt, so a list of dead deliveries skips the events of all others.
 */
import type { DeliveryRow, Range, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Page } from '../../api/common.ts';
import type { DeliveryView } from '../../api/deliveries.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import { objectName } from '../../domain/object.ts';
import { keyOf, type PartyId } from '../../domain/party.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { openRows } from '../delivery/outbox-writer.ts';
import type { Context } from '../kernel/context.ts';
import type { DeliveryFilter, PageRequest } from '../ports/operator.ts';
import { readCursor } from './cursor.ts';
import { LogWalk } from './log-walk.ts';

/** For each sequence the receivers that have a row of the wanted state. */
type Places = ReadonlyMap<Seq, ReadonlySet<PartyId>>;

type ViewDelivery = (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;

export function deliveryLists(context: Context, outbound: Dispatcher, view: ViewDelivery) {
  const { store, directory } = context;

  return async function list(filter: DeliveryFilter, page: PageRequest): Promise<Page<DeliveryView>> {
    // A page starts at an event, of which some deliveries may have been listed.
    const [upTo = store.head(), shown = 0] = readCursor(page.cursor);
    const range = { after: store.horizon(), upTo: Math.min(store.head(), upTo) };
    const places = filter.state === 'DEAD' || filter.state === 'PENDING' ? await rowsIn(range, filter) : null;
    const looked = places && filter.state === 'DEAD' ? at(places) : [range];
    const walk = new LogWalk(store, looked, 'newest', (event) => fits(event, filter));
    const items: DeliveryView[] = [];
    while (items.length < page.limit) {
      const room = page.limit - items.length;
      const event = await walk.next();
      if (!event) break;
      const skipped = event.seq === upTo ? shown : 0;
      const found = (await deliveriesOf(event, filter, places)).slice(skipped);
      items.push(...found.slice(0, room));
      if (found.length > room) return { items, next_cursor: `${event.seq}.${skipped + room}` };
    }
    return { items, next_cursor: walk.rest === null ? null : String(walk.rest) };
  };

  /** Rows of the wanted state, including those not written yet. */
  async function rowsIn({ upTo }: Range, { state: wanted, receiver, module }: DeliveryFilter): Promise<Places> {
    const places = new Map<Seq, Set<PartyId>>();
    const known = [...directory.partners()].flatMap(({ roles }) => roles.map(keyOf));
    const receivers = new Set(receiver ? [receiver] : known);
    const add = (row: DeliveryRow) => {
      const { seq, dest } = row;
      if (row.state !== wanted || seq > upTo || !receivers.has(dest)) return;
      if (module && (row.data as { module: string }).module !== module) return;
      places.set(seq, (places.get(seq) ?? new Set()).add(dest));
    };
    // Read before the store: a row that is written in between would be in neither.
    for (const row of outbound.unwritten()) add(row);
    for await (const row of openRows(store, receivers)) add(row);
    return places;
  }

  async function deliveriesOf(
    event: StoredEvent,
    filter: DeliveryFilter,
    places: Places | null,
  ): Promise<DeliveryView[]> {
    const found: DeliveryView[] = [];
    const open = places?.get(event.seq);
    for (const receiver of event.to) {
      if (filter.receiver && receiver !== filter.receiver) continue;
      // A delivery without a row may wait for its first attempt.
      if (places && !open?.has(receiver) && !outbound.isPending(receiver, event.seq)) continue;
      const shown = await view(event, receiver);
      if (!filter.state || shown.state === filter.state) found.push(shown);
    }
    return found;
  }
}

/** One range for each sequence, newest first. */
function at(places: Places): Range[] {
  return [...places.keys()].sort((a, b) => b - a).map((seq) => ({ after: seq - 1, upTo: seq }));
}

function fits({ at: accepted, to: receivers, data }: StoredEvent, filter: DeliveryFilter): boolean {
  const { module, object, from, to, receiver } = filter;
  if (receivers.length === 0 || (receiver && !receivers.includes(receiver))) return false;
  if ((from && accepted < from) || (to && accepted >= to)) return false;
  const change = data as ObjectEventData;
  if (module && change.module !== module) return false;
  return !object || objectName(change).toLowerCase() === object.toLowerCase();
}
