/** Page of the audit log: who acted, why, from where and with what outcome, and whether the log is whole. */
import { useState } from 'preact/hooks';
import type { AuditCheck, AuditEntry } from '../../../api/audit.ts';
import { useAction } from '../data/action.ts';
import { call, pathWith } from '../data/api.ts';
import { count } from '../data/format.ts';
import type { ListOrder } from '../data/loaded.ts';
import { usePagedList } from '../data/paged-list.ts';
import { fieldOf, InstantField, SettledField, TableCard, useFilters } from '../parts/fields.tsx';
import { More } from '../parts/more.tsx';
import { Asked, Dash, Empty } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';

const order: ListOrder<AuditEntry> = {
  idOf: ({ n }) => String(n),
  placeOf: ({ n }) => String(n).padStart(12, '0'),
  isDescending: true,
};

export function Audit() {
  const [filters, change] = useFilters(['operator', 'verb', 'about', 'from', 'to']);
  const field = fieldOf(filters, change);
  const query = usePagedList<AuditEntry>(pathWith('/audit', filters), order);
  return (
    <>
      <div class="page-head">
        <div class="row">
          <h1>Audit</h1>
          <Whole />
        </div>
        <div class="filters">
          <SettledField label="Operator" placeholder="anna" {...field('operator')} isFirst />
          <SettledField label="Act" placeholder="suspend" {...field('verb')} />
          <SettledField label="About" placeholder="NL-CPO" {...field('about')} />
          <InstantField label="From" {...field('from')} />
          <InstantField label="Before" {...field('to')} />
        </div>
      </div>
      <Asked query={query} what="the audit log">
        {({ items }) => (
          <>
            <Entries items={items} />
            <More list={query} />
          </>
        )}
      </Asked>
    </>
  );
}

/** Checks the chain on demand: it reads every entry. */
function Whole() {
  const [found, setFound] = useState<AuditCheck | null>(null);
  const { isRunning, run } = useAction(async () => {
    setFound(await call<AuditCheck>('GET', '/audit/check'));
    return null;
  });
  return (
    <>
      <button type="button" disabled={isRunning} onClick={() => run()}>
        {isRunning ? 'Checking …' : 'Check'}
      </button>
      {found?.broken === null && <span class="quiet">{count(found.entries)} entries, none missing or changed</span>}
      {found?.broken && (
        <strong class="urgent" role="alert">
          Entry {found.broken.n} is {found.broken.reason}
        </strong>
      )}
    </>
  );
}

function Entries({ items }: { items: readonly AuditEntry[] }) {
  if (items.length === 0) {
    return <Empty title="No acts match" hint="Every act of an operator is shown here, also one that was refused." />;
  }
  return (
    <TableCard
      caption="Acts, newest first"
      columns={['At', 'Operator', 'Act', 'About', 'Reason', 'Status', 'From', 'N']}
    >
      {items.map(({ n, at, operator, role, verb, about, reason, status, address }) => (
        <tr key={n} data-row>
          <td>
            <Instant value={at} />
          </td>
          <td>
            {operator} {role !== null && role !== operator && <span class="quiet">{role}</span>}
          </td>
          <td class="mono">{verb}</td>
          <td class="mono">{about}</td>
          <td>{reason ?? <Dash />}</td>
          <td class={status < 400 ? undefined : 'urgent'}>{status}</td>
          <td class="mono">{address ?? <Dash />}</td>
          <td>{n}</td>
        </tr>
      ))}
    </TableCard>
  );
}
