/** A table of events; rows on display are not rendered again when others arrive. */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { EventView } from '../../../api/events.ts';
import { eventWords } from '../../../domain/event-words.ts';
import { pathWith } from '../data/api.ts';
import { TableCard } from '../parts/fields.tsx';
import { Dash } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';

const columns = ['Event', 'At', 'Type', 'By', 'About', 'Request'];

/** Rendered rows by event: an event never changes, so neither does its row. */
const rows = new WeakMap<EventView, VNode>();

function rowOf(event: EventView): VNode {
  const known = rows.get(event);
  if (known) return known;
  const made = <EventRow key={event.seq} event={event} />;
  rows.set(event, made);
  return made;
}

export function EventTable({ events, isOldestFirst }: { events: readonly EventView[]; isOldestFirst: boolean }) {
  const shown = isOldestFirst ? events.toReversed() : events;
  return (
    <TableCard caption={`Events, ${isOldestFirst ? 'oldest' : 'newest'} first`} columns={columns}>
      {shown.map(rowOf)}
    </TableCard>
  );
}

function EventRow({ event }: { event: EventView }) {
  const [isOpen, setOpen] = useState(false);
  const { seq, at, type, by, who, party, object, correlation_id } = event;
  const words = eventWords(event).join(' · ');
  return (
    <>
      <tr data-row>
        <td>
          <button
            type="button"
            class="plain seq"
            aria-expanded={isOpen}
            aria-label={`Event ${seq}, ${type}`}
            onClick={() => setOpen(!isOpen)}
          >
            {seq}
          </button>
        </td>
        <td class="instant">
          <Instant value={at} />
        </td>
        <td>
          <span class="chip">{type}</span>
        </td>
        <td class="mono">{who ?? (by === 'partner' && party !== null ? party : <span class="quiet">{by}</span>)}</td>
        <td class="about">
          {object === null ? words : <Link href={pathWith('/trace', { key: keyOf(event, object) })}>{words}</Link>}
        </td>
        <td class="mono request">
          {correlation_id === null ? (
            <Dash />
          ) : (
            <Link href={pathWith('/trace', { key: correlation_id })} title={correlation_id}>
              {correlation_id}
            </Link>
          )}
        </td>
      </tr>
      {isOpen && (
        <tr class="event-detail">
          <td colSpan={columns.length}>
            <pre>{JSON.stringify(event, null, 2)}</pre>
          </td>
        </tr>
      )}
    </>
  );
}

function keyOf({ data }: EventView, object: string): string {
  const { module } = (data ?? {}) as { readonly module?: unknown };
  return typeof module === 'string' ? `${module}/${object}` : object;
}
