/** The report of a month of one partner: each day, as a page that prints well and as a file. */
import { Link, useParams } from 'wouter-preact';
import type { MonthlyReport } from '../../../api/history.ts';
import { useAction } from '../data/action.ts';
import { csvOf } from '../data/api.ts';
import { count, orDash, percent, spanMs } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { TableCard, useFilters } from '../parts/fields.tsx';
import { save } from '../parts/more.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import '../style/plot.css';

const columns = ['Day (UTC)', 'Pushes', 'Deliveries', 'Errors', 'p50', 'p95', 'Availability'];

const thisMonth = () => new Date().toISOString().slice(0, 7);

export function Month() {
  const { id = '' } = useParams<{ id: string }>();
  const known = decodeURIComponent(id).toUpperCase();
  const [{ month }, change] = useFilters(['month']);
  const chosen = month || thisMonth();
  const path = `/parties/${encodeURIComponent(known)}/report/${chosen}`;
  const query = useQuery<MonthlyReport>(path);
  const saving = useAction(async () => {
    save(await csvOf(path), `${known}-${chosen}.csv`);
    return null;
  });
  return (
    <div class="month stack">
      <div class="page-head">
        <h1>
          <Link class="mono" href={`/partners/${encodeURIComponent(known)}`}>
            {known}
          </Link>{' '}
          {query.data?.names.join(', ')} {chosen}
        </h1>
        <div class="filters">
          <label>
            Month{' '}
            <input
              type="month"
              value={chosen}
              max={thisMonth()}
              onChange={({ currentTarget }) => currentTarget.value && change({ month: currentTarget.value })}
            />
          </label>
          <button type="button" onClick={() => print()}>
            Print
          </button>
          <button type="button" onClick={saving.run} disabled={saving.isRunning}>
            Save as CSV
          </button>
        </div>
      </div>
      <Asked query={query} what="the report">
        {(report) =>
          report.days.length === 0 ? (
            <Empty
              title="Nothing is recorded for that month"
              hint="A minute is written when it has ended, and hours are kept for 90 days."
            />
          ) : (
            <Days report={report} />
          )
        }
      </Asked>
    </div>
  );
}

function Days({ report: { days, total } }: { report: MonthlyReport }) {
  return (
    <TableCard caption="What passed between the hub and the partner" columns={columns} numbers={columns.slice(1)}>
      {[...days, { ...total, day: 'Month' }].map(({ day, ...sums }) => (
        <tr key={day} class={day === 'Month' ? 'total' : undefined} data-row>
          <td class="instant">{day}</td>
          <td class="number">{count(sums.pushes)}</td>
          <td class="number">{count(sums.deliveries)}</td>
          <td class={sums.errors > 0 ? 'number urgent' : 'number'}>{count(sums.errors)}</td>
          <td class="number">{orDash(sums.latency_p50_ms, spanMs)}</td>
          <td class="number">{orDash(sums.latency_p95_ms, spanMs)}</td>
          <td class="number">{orDash(sums.availability, percent)}</td>
        </tr>
      ))}
    </TableCard>
  );
}
