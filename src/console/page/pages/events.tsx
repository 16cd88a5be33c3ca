/** Page of the live end of the log, with a filter and a pause. */

import type { VNode } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { EventView } from '../../../api/events.ts';
import { eventWords } from '../../../domain/event-words.ts';
import { pathWith } from '../data/api.ts';
import { type EventTail, useEventTail } from '../data/event-tail.ts';
import { count } from '../data/format.ts';
import { keptMax } from '../data/tail.ts';
import { Badge } from '../parts/badge.tsx';
import { Choice, fieldOf, InstantField, SettledField, TableCard, useFilters } from '../parts/fields.tsx';
import { Dash, Empty } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';
import '../style/events.css';

const names = ['type', 'party', 'object', 'correlation_id', 'from', 'to', 'first'] as const;
type Values = Readonly<Record<(typeof names)[number], string>>;

const types = [
  ...['object', 'object.put', 'object.patched', 'object.deleted', 'object.resent', 'object.missed'],
  ...['delivery', 'delivery.dead', 'delivery.redriven', 'delivery.discarded', 'token.authorized'],
  ...[
    'command',
    'command.requested',
    'command.answered',
    'command.resultReceived',
    'command.relayed',
    'command.silent',
  ],
  ...[
    'partner',
    'circuit',
    'circuit.opened',
    'circuit.closed',
    'route',
    'orphan',
    'triage',
    'pull',
    'job',
    'actor.quarantined',
  ],
];
const orders = [
  ['', 'newest first'],
  ['oldest', 'oldest first'],
] as const;

export function Events() {
  const [values, change] = useFilters(names);
  const { first, ...filter } = values;
  const tail = useEventTail(filter);
  const isOldestFirst = first === 'oldest';
  useFollowedEnd(isOldestFirst && !tail.isPaused, tail.events[0]?.seq);
  return (
    <div class="stack events">
      <div class="page-head">
        <div class="row">
          <h1>Events</h1>
          <TailState tail={tail} />
        </div>
        <Pause tail={tail} />
      </div>
      <EventFilters values={values} change={change} />
      {tail.passedOver > 0 && (
        <p class="finding wait" role="status">
          The log grows faster than anyone reads: {count(tail.passedOver)} events were passed over, and this is a sample
          of it. A filter narrows it; <b>Trace</b> and <code>ocpi-hub events</code> miss nothing.
        </p>
      )}
      <Found
        tail={tail}
        isOldestFirst={isOldestFirst}
        isFiltered={Object.values(filter).some((value) => value !== '')}
      />
    </div>
  );
}

function TailState({ tail: { isPaused, error, isLoading } }: { tail: EventTail }) {
  const [word, tone] =
    error !== null
      ? (['not live, asking again', 'bad'] as const)
      : isPaused
        ? (['paused', 'off'] as const)
        : isLoading
          ? (['connecting', 'wait'] as const)
          : (['live', 'good'] as const);
  return (
    <span role="status">
      <Badge state={word} tone={tone} />
    </span>
  );
}

function Pause({ tail: { isPaused, waiting, pause, resume } }: { tail: EventTail }) {
  if (!isPaused) {
    return (
      <button type="button" onClick={pause}>
        Pause
      </button>
    );
  }
  const many = waiting.length >= keptMax ? `${count(keptMax)} or more` : count(waiting.length);
  return (
    <span class="row">
      <span class="fresh">{many} new</span>
      <button type="button" class="main" onClick={resume}>
        Resume
      </button>
    </span>
  );
}

function EventFilters({ values, change }: { values: Values; change: (changes: Partial<Values>) => void }) {
  const field = fieldOf(values, change);
  const isFiltered = names.some((name) => name !== 'first' && values[name] !== '');
  return (
    <search class="filters" aria-label="Filter of events">
      <SettledField label="Type or group" placeholder="delivery.dead" {...field('type')} options={types} isFirst />
      <SettledField
        label="Party"
        placeholder="NL-CPO"
        value={values.party}
        onChange={(party) => change({ party: party.toUpperCase() })}
      />
      <SettledField label="Object" placeholder="NL-CPO/101" {...field('object')} />
      <SettledField label="Correlation id" {...field('correlation_id')} />
      <InstantField label="From" {...field('from')} />
      <InstantField label="Before" {...field('to')} />
      <Choice label="Order" {...field('first')} options={orders} />
      {isFiltered && (
        <button
          type="button"
          class="plain"
          onClick={() => change({ type: '', party: '', object: '', correlation_id: '', from: '', to: '' })}
        >
          Clear
        </button>
      )}
    </search>
  );
}

interface FoundProps {
  readonly tail: EventTail;
  readonly isOldestFirst: boolean;
  readonly isFiltered: boolean;
}

function Found({ tail, isOldestFirst, isFiltered }: FoundProps) {
  const { events, error, isLoading, older } = tail;
  if (isLoading) return <p class="loading">Loading the events …</p>;
  const back = <Back tail={tail} />;
  return (
    <>
      {error !== null && (
        <p class="error" role="alert">
          Could not load the events: {error}
        </p>
      )}
      {events.length === 0 && older === null && error === null && (
        <Empty
          title={isFiltered ? 'No events match' : 'Nothing has happened yet'}
          hint={
            isFiltered
              ? 'Events that fit are shown here as they happen.'
              : 'The first one comes with the first partner.'
          }
        />
      )}
      {isOldestFirst && back}
      {events.length > 0 && <EventTable events={events} isOldestFirst={isOldestFirst} />}
      {!isOldestFirst && back}
    </>
  );
}

function Back({ tail: { events, older, keptFrom, isSearching, searchBack } }: { tail: EventTail }) {
  if (older === null && keptFrom > 1) {
    return <p class="quiet">The log is kept from event {count(keptFrom)} on.</p>;
  }
  if (older === null) return null;
  if (events.length >= keptMax) {
    return <p class="quiet">Only the newest {count(keptMax)} are kept here. A filter reaches further back.</p>;
  }
  return (
    <p class="row">
      <button type="button" onClick={searchBack} disabled={isSearching}>
        Search further back
      </button>
      {/^\d+$/.test(older) && <span class="quiet">looked at down to event {count(Number(older) + 1)}</span>}
    </p>
  );
}

const nearPx = 80;

/**
 * With the newest event at the bottom, keeps the page scrolled to the bottom, unless the operator has scrolled up to
 * read.
 */
function useFollowedEnd(isFollowing: boolean, newest: number | undefined): void {
  const wasNear = useRef(true);
  const page = document.documentElement;
  useLayoutEffect(() => {
    const onScroll = () => {
      wasNear.current = page.scrollHeight - page.scrollTop - page.clientHeight < nearPx;
    };
    document.addEventListener('scroll', onScroll, { passive: true });
    return () => document.removeEventListener('scroll', onScroll);
  }, [page]);
  useLayoutEffect(() => {
    if (isFollowing && newest !== undefined && wasNear.current) page.scrollTop = page.scrollHeight;
  }, [isFollowing, newest, page]);
}

const columns = ['Event', 'At', 'Type', 'By', 'About', 'Request'];

/** Rendered rows by event: an event never changes, so its row is not rendered again when others arrive. */
const rows = new WeakMap<EventView, VNode>();

function rowOf(event: EventView): VNode {
  const known = rows.get(event);
  if (known) return known;
  const made = <EventRow key={event.seq} event={event} />;
  rows.set(event, made);
  return made;
}

function EventTable({ events, isOldestFirst }: { events: readonly EventView[]; isOldestFirst: boolean }) {
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
