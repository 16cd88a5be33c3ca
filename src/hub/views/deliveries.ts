/**
 * Lists deliveries from the log. Rows, which are few, say which deliveries are dead or wait for another
 * attempt, so a list of dead deliveries skips the events of all others.
 */
import type { DeliveryRow, Range, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Page } from '../../api/common.ts';
import type { DeliveryFilter, DeliveryView } from '../../api/deliveries.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import { objectName } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { openRows } from '../delivery/outbox-writer.ts';
import type { Context } from '../kernel/context.ts';
import { isWithin, logSpan } from '../kernel/log-reads.ts';
import type { Order, PageRequest } from '../ports/operator.ts';
import { LogWalk, readCursor } from './log-walk.ts';

/** For each sequence the receivers that have a row of the wanted state. */
type Places = ReadonlyMap<Seq, ReadonlySet<PartyId>>;

/** The receivers of a filter; null for all. */
type Receivers = ReadonlySet<PartyId> | null;

type ViewDelivery = (event: StoredEvent, receiver: PartyId) => Promise<DeliveryView>;

export function deliveryLists(context: Context, outbound: Dispatcher, view: ViewDelivery) {
  const { store, directory } = context;

  return async function list(
    filter: DeliveryFilter,
    page: PageRequest & { readonly order: Order },
  ): Promise<Page<DeliveryView>> {
    const isNewestFirst = page.order === 'newest';

    // A page starts at an event, of which some deliveries may have been listed.
    const [start, shown = 0] = readCursor(page.cursor);
    const receivers = directory.receiversOf(filter);
    const range = rest(await logSpan(store, filter), start, isNewestFirst);
    const places =
      filter.state !== undefined && filter.state !== 'DELIVERED' ? await rowsIn(range, filter, receivers) : null;
    // A delivery without a row may be pending.
    const looked = places && filter.state !== 'PENDING' ? at(places, isNewestFirst) : [range];
    const walk = new LogWalk(store, looked, page.order, (event) => fits(event, filter, receivers));
    const items: DeliveryView[] = [];
    while (items.length < page.limit) {
      const room = page.limit - items.length;
      const event = await walk.next();
      if (!event) break;
      const skipped = event.seq === start ? shown : 0;
      const found = (await deliveriesOf(event, filter, { receivers, places })).slice(skipped);
      items.push(...found.slice(0, room));
      if (found.length > room) return { items, next_cursor: `${event.seq}.${skipped + room}` };
    }
    return { items, next_cursor: walk.rest === null ? null : String(walk.rest) };
  };

  /** Rows of the wanted state, including those not written yet. */
  async function rowsIn(
    { after, upTo }: Range,
    { state: wanted, module }: DeliveryFilter,
    selected: Receivers,
  ): Promise<Places> {
    const places = new Map<Seq, Set<PartyId>>();
    const receivers = selected ?? directory.parties();
    const add = (row: DeliveryRow) => {
      const { seq, dest } = row;
      if (row.state !== wanted || seq <= after || seq > upTo || !receivers.has(dest)) return;
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
    { receivers, places }: { receivers: Receivers; places: Places | null },
  ): Promise<DeliveryView[]> {
    const found: DeliveryView[] = [];
    const open = places?.get(event.seq);
    for (const receiver of event.to) {
      if (receivers && !receivers.has(receiver)) continue;
      // A delivery without a row may wait for its first attempt.
      if (places && !open?.has(receiver) && !outbound.isPending(receiver, event.seq)) continue;
      const shown = await view(event, receiver);
      if ((filter.state ?? shown.state) === shown.state && (filter.class ?? shown.class) === shown.class)
        found.push(shown);
    }
    return found;
  }
}

/** The part of a range that begins with the event at which a page starts. */
function rest({ after, upTo }: Range, start: Seq | undefined, isNewestFirst: boolean): Range {
  if (start === undefined) return { after, upTo };
  return isNewestFirst ? { after, upTo: Math.min(upTo, start) } : { after: Math.max(after, start - 1), upTo };
}

/** One range for each sequence, in the order of the list. */
function at(places: Places, isNewestFirst: boolean): Range[] {
  const sequences = [...places.keys()].sort((a, b) => (isNewestFirst ? b - a : a - b));
  return sequences.map((seq) => ({ after: seq - 1, upTo: seq }));
}

function fits({ at: accepted, to, data }: StoredEvent, filter: DeliveryFilter, receivers: Receivers): boolean {
  const { sender, module, object } = filter;
  if (to.length === 0 || (receivers && !to.some((receiver) => receivers.has(receiver)))) return false;
  if (!isWithin(accepted, filter)) return false;
  const change = data as ObjectEventData;
  if (sender && change.owner !== sender) return false;
  if (module && change.module !== module) return false;
  return !object || objectName(change).toLowerCase() === object.toLowerCase();
}
