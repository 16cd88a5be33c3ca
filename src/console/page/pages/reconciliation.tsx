/**
 * Page of billing: the sessions of a period beside the CDRs that bill them, by day and pair, and what does
 * not agree.
 */
import { useMemo } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { FindingView, Reconciliation as Found } from '../../../api/reconciliation.ts';
import { pathWith } from '../data/api.ts';
import { count } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { fieldOf, InstantField, partyPattern, SettledField, Table, TableCard, useFilters } from '../parts/fields.tsx';
import { Asked, Dash, Empty } from '../parts/states.tsx';

const defaultDays = 7;

const words: Readonly<Record<FindingView['kind'], string>> = {
  no_cdr: 'completed, no CDR',
  no_session: 'session not stored',
  no_session_id: 'CDR names no session',
  not_completed: 'session not COMPLETED',
  energy_differs: 'energy differs',
  token_differs: 'token differs',
  duplicate: 'further CDR of a session',
};

export function Reconciliation() {
  const [filters, change] = useFilters(['from', 'to', 'emsp', 'cpo']);
  const field = fieldOf(filters, change);
  const since = useMemo(() => new Date(Date.now() - defaultDays * 86_400_000).toISOString(), []);
  const { from, ...others } = filters;
  const query = useQuery<Found>(pathWith('/reconciliation', { from: from || since, ...others }));
  return (
    <>
      <div class="page-head">
        <h1>Billing</h1>
        <div class="filters">
          <InstantField label="From" value={from || since} onChange={(at) => change({ from: at })} />
          <InstantField label="Before" {...field('to')} />
          <SettledField label="CPO" {...field('cpo')} placeholder="NL-TNM" pattern={partyPattern} isFirst />
          <SettledField label="eMSP" {...field('emsp')} placeholder="NL-EMS" pattern={partyPattern} />
        </div>
      </div>
      <Asked query={query} what="sessions and CDRs">
        {(found) =>
          found.pairs.length === 0 ? (
            <Empty title="Nothing to compare" hint="No session ended in that time, and no CDR came." />
          ) : (
            <div class="stack">
              <Findings found={found} />
              <Pairs pairs={found.pairs} />
            </div>
          )
        }
      </Asked>
    </>
  );
}

function Findings({ found: { findings, omitted } }: { found: Found }) {
  if (findings.length === 0) {
    return (
      <Empty title="Nothing disagrees" hint="A session that ended within the last 24 hours may still lack its CDR." />
    );
  }
  return (
    <div class="card">
      <Table
        caption="What does not agree"
        columns={['Finding', 'Day', 'CPO', 'eMSP', 'Session', 'kWh of session', 'CDR', 'kWh of CDR']}
        numbers={['kWh of session', 'kWh of CDR']}
      >
        {findings.map(({ kind, day, cpo, emsp, session, cdr, session_kwh, cdr_kwh }) => (
          <tr key={`${kind} ${session} ${cdr}`} data-row>
            <td class="urgent">{words[kind]}</td>
            <td class="instant">{day}</td>
            <td class="mono">{cpo}</td>
            <td class="mono">{emsp ?? <Dash />}</td>
            <td>
              <Traced object={session} />
            </td>
            <td class="number">{session_kwh ?? <Dash />}</td>
            <td>
              <Traced object={cdr} />
            </td>
            <td class="number">{cdr_kwh ?? <Dash />}</td>
          </tr>
        ))}
      </Table>
      {omitted > 0 && <p class="quiet">{count(omitted)} more: take less time, or one pair.</p>}
    </div>
  );
}

function Traced({ object }: { object: string | null }) {
  if (object === null) return <Dash />;
  return (
    <Link class="mono" href={pathWith('/trace', { key: object })}>
      {object}
    </Link>
  );
}

function Pairs({ pairs }: { pairs: Found['pairs'] }) {
  return (
    <TableCard
      caption="By day, CPO and eMSP"
      columns={['Day', 'CPO', 'eMSP', 'Sessions', 'kWh of sessions', 'CDRs', 'kWh of CDRs', 'Findings']}
      numbers={['Sessions', 'kWh of sessions', 'CDRs', 'kWh of CDRs', 'Findings']}
    >
      {pairs.map(({ day, cpo, emsp, sessions, session_kwh, cdrs, cdr_kwh, findings }) => (
        <tr key={`${day} ${cpo} ${emsp}`}>
          <td class="instant">{day}</td>
          <td class="mono">{cpo}</td>
          <td class="mono">{emsp ?? <Dash />}</td>
          <td class="number">{count(sessions)}</td>
          <td class="number">{session_kwh}</td>
          <td class="number">{count(cdrs)}</td>
          <td class="number">{cdr_kwh}</td>
          <td class={findings > 0 ? 'number urgent' : 'number'}>{count(findings)}</td>
        </tr>
      ))}
    </TableCard>
  );
}
