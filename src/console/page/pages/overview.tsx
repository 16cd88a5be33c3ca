/**
 * Page of all partners at a glance, those that need attention first.
 *
 * PAGES-OVERVIEW-1  States come live from the actors, counts with the next answer; a change of one partner renders one
 *     row.
 * PAGES-OVERVIEW-2  Only an answer changes the order, so that rows do not jump while they are read.
 */
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { Watch } from '../data/actors.ts';
import { type Board, watchBoard } from '../data/board.ts';
import { count } from '../data/format.ts';
import { mayAdminister } from '../data/session.ts';
import { Choice, fieldOf, TextFilter, useFilters } from '../parts/fields.tsx';
import { Liveness, useWatch } from '../parts/live.tsx';
import { Empty, Failed } from '../parts/states.tsx';
import { Rows } from '../parts/window.tsx';
import { Attention, Running } from './overview-attention.tsx';
import { Numbers } from './overview-numbers.tsx';
import { type Column, circuitTitles, columnOf, ordered, shows, type Wanted } from './overview-order.ts';
import { PartnerRow } from './overview-row.tsx';
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
