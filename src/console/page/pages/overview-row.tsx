/** One partner as one row. It subscribes only to its own signals. */
import { useComputed } from '@preact/signals';
import { Link } from 'wouter-preact';
import type { OverviewRow } from '../../../api/overview.ts';
import { moduleNames } from '../../../domain/modules.ts';
import { liveStatus, type Watch } from '../data/actors.ts';
import type { Board } from '../data/board.ts';
import { liveState } from '../data/circuits.ts';
import { brief, count, many, perSecond, span } from '../data/format.ts';
import { Badge } from '../parts/badge.tsx';
import { errorText } from '../parts/last-error.tsx';
import { Sparkline } from '../parts/sparkline.tsx';
import { useNow } from '../parts/time.tsx';
import { isHealthy, lastRate } from './overview-order.ts';

interface RowProps {
  readonly id: string;
  readonly index: number;
  readonly board: Board;
  readonly watch: Watch;
}

export function PartnerRow({ id, index, board, watch }: RowProps) {
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
