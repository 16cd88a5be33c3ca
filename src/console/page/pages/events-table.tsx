/**
 * A table of events; rows on display are not rendered again when others arrive.
 */
import type { VNode } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { EventView } from '../../../api/events.ts';
import { pathWith } from '../data/api.ts';
import { Table } from '../parts/fields.tsx';
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
    <div class="card">
      <Table caption={`Events, ${isOldestFirst ? 'oldest' : 'newest'} first`} columns={columns}>
        {shown.map(rowOf)}
      </Table>
    </div>
  );
}

function EventRow({ event }: { event: EventView }) {
  const [isOpen, setOpen] = useState(false);
  const { seq, at, type, by, who, party, object, correlation_id } = event;
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
          {object === null ? (
            about(event)
          ) : (
            <Link href={pathWith('/trace', { key: keyOf(event) })}>{about(event)}</Link>
          )}
        </td>
        <td class="mono request">
          {correlation_id === null ? (
            <span class="quiet">–</span>
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

const telling = [
  ...['command', 'result', 'reason', 'class', 'session', 'emsp', 'cpo', 'circuit', 'module', 'kind', 'state'],
  ...['from', 'to', 'allowed', 'note'],
];

const wordsOf = ({ data }: EventView) => (data ?? {}) as Readonly<Record<string, unknown>>;

function keyOf(event: EventView): string {
  const { module } = wordsOf(event);
  return typeof module === 'string' ? `${module}/${event.object}` : (event.object ?? '');
}

/** The subject of an event, and the telling fields of its data. */
function about(event: EventView): string {
  const words = wordsOf(event);
  if (event.type.startsWith('object.')) return [words.method, words.module, event.object].filter(Boolean).join(' ');
  const named = telling.flatMap((name) => (typeof words[name] === 'string' ? [words[name]] : []));
  return [event.about, ...named, ...changedIn(event.type, words)].join(' · ');
}

/** What an operator set: a rule active or not, settings of a partner. */
function changedIn(type: string, { active, settings }: ReturnType<typeof wordsOf>): string[] {
  if (type === 'route.set') return [active === true ? 'active' : 'inactive'];
  if (type !== 'partner.changed') return [];
  return Object.entries(settings ?? {}).map(([name, value]) => `${name}=${value ?? 'none'}`);
}
