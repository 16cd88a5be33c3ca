/**
 * Page of all partners at a glance, those that need attention first.
 *
 * PAGES-OVERVIEW-1  States come live from the actors, counts with the next answer; a change of one partner renders one
 *     row.
 * PAGES-OVERVIEW-2  Only an answer changes the order, so that rows do not jump while they are read.
 */

import { useComputed } from '@preact/signals';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { OverviewRow } from '../../../api/overview.ts';
import { moduleNames } from '../../../domain/modules.ts';
import { liveState, liveStatus, type Watch } from '../data/actors.ts';
import { type Board, watchBoard } from '../data/board.ts';
import { brief, count, many, perSecond, span } from '../data/format.ts';
import { mayAdminister } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Choice, fieldOf, TextFilter, useFilters } from '../parts/fields.tsx';
import { errorText } from '../parts/last-error.tsx';
import { Liveness, useWatch } from '../parts/live.tsx';
import { Sparkline } from '../parts/plot.tsx';
import { Empty, Failed } from '../parts/states.tsx';
import { useNow } from '../parts/time.tsx';
import { Rows } from '../parts/window.tsx';
import { Attention, Running } from './overview-attention.tsx';
import { Numbers } from './overview-numbers.tsx';
import {
  type Column,
  circuitTitles,
  columnOf,
  isHealthy,
  lastRate,
  ordered,
  shows,
  type Wanted,
} from './overview-order.ts';
import { HubTraffic } from './traffic.tsx';
import '../style/overview.css';

const shownKinds = { kinds: ['partner', 'circuit'] } as const;
const rowPx = 22;

interface ColumnEntry {
  readonly title: string;
  readonly sort?: Column;
  /** CSS class of its cells. */
  readonly of: string;
}

const columns: readonly ColumnEntry[] = [
  { title: 'Partner', sort: 'partner', of: 'id' },
  { title: 'Name', of: 'name' },
  { title: 'Roles', of: 'roles' },
  { title: 'State', sort: 'state', of: 'state' },
  { title: circuitTitles.sync, of: 'circuit' },
  { title: circuitTitles.results, of: 'circuit results' },
  { title: circuitTitles.async, of: 'circuit' },
  { title: 'Backlog', sort: 'depth', of: 'number' },
  { title: 'Oldest', sort: 'oldest', of: 'number age' },
  { title: 'Sent/s', sort: 'rate', of: 'number rate' },
  { title: 'Last 2 min', of: 'plot' },
  { title: 'Dead', sort: 'dead', of: 'number dead' },
];

export function Overview() {
  const [board, setBoard] = useState<Board | null>(null);
  const watch = useWatch(shownKinds);
  useEffect(() => {
    const opened = watchBoard();
    setBoard(opened);
    return () => opened.close();
  }, []);
  return (
    <div class="overview">
      <h1 class="unseen">Overview</h1>
      {board && <Notes board={board} />}
      {board?.totals.value && watch && <Whole board={board} watch={watch} />}
      {board && !board.totals.value && !board.error.value && <p class="loading">Loading partners …</p>}
    </div>
  );
}

function Notes({ board: { error, totals, reload } }: { board: Board }) {
  if (!error.value) return null;
  const shown = totals.value ? ' Showing the last data received.' : '';
  return <Failed text={`Could not load the overview: ${error.value.message}${shown}`} onRetry={reload} />;
}

function Whole({ board, watch }: { board: Board; watch: Watch }) {
  if (board.ids.value.length === 0) return <Nobody />;
  return (
    <>
      <Numbers board={board} />
      <div class="columns">
        <Partners board={board} watch={watch} />
        <aside aria-label="What needs attention and what runs">
          <Attention board={board} />
          <Running board={board} />
          <HubTraffic />
        </aside>
      </div>
    </>
  );
}

function Nobody() {
  const hint = mayAdminister.value
    ? 'Add the first one, send it its initial token, and watch it connect.'
    : 'An administrator can add the first one under Onboarding.';
  return (
    <Empty title="No partner yet" hint={hint}>
      {mayAdminister.value && <Link href="/onboarding">Add a partner</Link>}
    </Empty>
  );
}

function Partners({ board, watch }: { board: Board; watch: Watch }) {
  const [filters, change] = useFilters(['q', 'show', 'role', 'sort']);
  const field = fieldOf(filters, change);
  const { q, show, role, sort } = filters;
  const version = board.version.value;
  const ids = useStable(
    useMemo(
      () => ordered(board, { text: q, show, role, sort } satisfies Wanted),
      [board, version, q, show, role, sort],
    ),
  );
  const total = board.ids.value.length;
  return (
    <section class="card partners" aria-label="Partners">
      <header class="filters">
        <TextFilter label="Find" {...field('q')} placeholder="id or name" isFirst />
        <Choice
          label="Show"
          {...field('show')}
          options={[['', 'All'], ...Object.entries(shows).map(([key, [title]]) => [key, title] as const)]}
        />
        <Choice
          label="Role"
          {...field('role')}
          options={[
            ['', 'All'],
            ['CPO', 'CPO'],
            ['EMSP', 'eMSP'],
          ]}
        />
        <p class="quiet counted">
          {ids.length === total ? `${count(total)} partners` : `${count(ids.length)} of ${count(total)} partners`}
        </p>
        <Liveness watch={watch} />
      </header>
      <table aria-rowcount={ids.length + 1}>
        <Head sort={columnOf(sort)} onSort={(column) => change({ sort: column === 'attention' ? '' : column })} />
        <Rows ids={ids} rowPx={rowPx}>
          {(id, index) => <PartnerRow key={id} id={id} index={index} board={board} watch={watch} />}
        </Rows>
      </table>
      {ids.length === 0 && <Empty title="No partner fits" hint="Change what is shown, or empty the filter." />}
    </section>
  );
}

/** A click on a column sorts by it; a click on the sorted column sorts by attention again. */
function Head({ sort, onSort }: { sort: Column; onSort: (column: Column) => void }) {
  return (
    <thead>
      <tr>
        {columns.map(({ title, sort: by, of }) => (
          <th key={title} scope="col" class={of} aria-sort={by && by === sort ? 'descending' : undefined}>
            {by ? (
              <button type="button" class="plain" onClick={() => onSort(by === sort ? 'attention' : by)}>
                {title}
                {by === sort && <span aria-hidden="true"> ▾</span>}
              </button>
            ) : (
              title
            )}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** Returns the previous array while the ids are equal, so that the rows do not render again. */
function useStable(ids: readonly string[]): readonly string[] {
  const [kept] = useState<{ ids: readonly string[] }>({ ids });
  const isSame = kept.ids.length === ids.length && kept.ids.every((id, at) => id === ids[at]);
  if (!isSame) kept.ids = ids;
  return kept.ids;
}

interface RowProps {
  readonly id: string;
  readonly index: number;
  readonly board: Board;
  readonly watch: Watch;
}

function PartnerRow({ id, index, board, watch }: RowProps) {
  // A text, so that a change of an actor's counters renders nothing.
  const live = useComputed(() => liveStatus(watch, id));
  const liveSync = useComputed(() => liveState(watch, id, ['sync']));
  const liveResults = useComputed(() => liveState(watch, id, ['results']));
  const liveAsync = useComputed(() => liveState(watch, id, moduleNames));
  const line = board.line(id)?.value;
  if (!line) return null;
  const { row, rates } = line;
  const status = live.value ?? row.status;
  const rate = lastRate(line);
  const name = row.names.join(', ');
  const marks = [row.silent_since !== null && 'no pushes', row.paused && 'paused'].filter((mark) => mark !== false);
  return (
    <tr data-row aria-rowindex={index + 2}>
      <td class="id mono">
        <Link href={`/partners/${id}`}>{id}</Link>
      </td>
      <td class="name" title={[name, errorText(row.last_error)].filter(Boolean).join(' · ')}>
        {name}
        {!isHealthy(row) && row.last_error && <span class="urgent"> {errorText(row.last_error)}</span>}
      </td>
      <td class="roles">{row.roles.map((role) => (role === 'EMSP' ? 'eMSP' : role)).join(', ')}</td>
      <td class="state" title={[status, ...marks].join(', ')}>
        <div>
          <Badge state={status} />
          {marks.map((mark) => (
            <Badge key={mark} state={mark} tone={mark === 'paused' ? 'off' : 'wait'} />
          ))}
        </div>
      </td>
      <Circuit state={liveSync.value ?? row.sync} />
      <Circuit state={liveResults.value ?? row.results} of="circuit results" />
      <Circuit state={liveAsync.value ?? row.async} />
      <td class="number">
        <Backlog row={row} />
      </td>
      <td class="number age">{row.oldest_at && <Age since={row.oldest_at} board={board} />}</td>
      <td class="number rate">{rate > 0 ? perSecond(rate) : <span class="quiet">0</span>}</td>
      <td class="plot">{rates.length > 0 && <Sparkline values={rates} />}</td>
      <td class="number dead">{row.dead > 0 && <Dead row={row} />}</td>
    </tr>
  );
}

/** A closed circuit is shown in a quiet style; `half-open` is a badge without the explanation that other pages give. */
function Circuit({ state, of = 'circuit' }: { state: string; of?: string }) {
  const shown = state === 'halfOpen' ? <Badge state="half-open" tone="wait" /> : <Badge state={state} />;
  return <td class={of}>{state === 'closed' ? <span class="quiet">closed</span> : shown}</td>;
}

function Backlog({ row: { depth, behind, overdue } }: { row: OverviewRow }) {
  if (depth === 0 && !behind) return <span class="quiet">0</span>;
  const exact = `${count(depth)}${behind ? '+' : ''}`;
  return (
    <span class={overdue > 0 ? 'urgent' : ''} title={overdue > 0 ? `${exact}, ${count(overdue)} overdue` : exact}>
      {brief(depth)}
      {behind && '+'}
    </span>
  );
}

function Dead({ row: { id, dead } }: { row: OverviewRow }) {
  return (
    <Link
      class="urgent"
      href={`/deliveries?state=DEAD&partner=${id}`}
      aria-label={`${many(dead, 'dead letter')} of ${id}`}
    >
      {brief(dead)}
    </Link>
  );
}

function Age({ since, board }: { since: string; board: Board }) {
  useNow();
  return <>{span(Math.max(0, Math.floor((board.now() - Date.parse(since)) / 1000)))}</>;
}
