/**
 * What a partner does wrong, as its own engineer needs it: refused pushes, warnings, quirks, dead letters by reason.
 */
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { ReportView } from '../../../api/report.ts';
import { pathWith } from '../data/api.ts';
import { count } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { isPortal } from '../data/session.ts';
import { Card } from '../parts/card.tsx';
import { Table } from '../parts/fields.tsx';
import { PageLink } from '../parts/page-link.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';

const everyMs = 10_000;
/** Rows of each table until all are asked for. */
const shown = 8;

const firstOf = ({ refused, warnings, quirks, dead_letters }: ReportView): ReportView => ({
  refused: refused.slice(0, shown),
  warnings: warnings.slice(0, shown),
  quirks: quirks.slice(0, shown),
  dead_letters: dead_letters.slice(0, shown),
});

const rowsOf = (report: ReportView): number => Object.values(report).reduce((sum, part) => sum + part.length, 0);

export function Report({ id }: { id: string }) {
  const query = useQuery<ReportView>(`/parties/${encodeURIComponent(id)}/report`, everyMs);
  const [isAll, setAll] = useState(false);
  return (
    <Card
      title="Data quality"
      beside={!isPortal && <Link href={pathWith('/events', { type: 'push.refused', party: id })}>Events</Link>}
    >
      <Asked query={query} what="the report">
        {(report) =>
          Object.values(report).every((part) => part.length === 0) ? (
            <Empty title="Nothing to report" hint="No push was refused, no warning met, no delivery is dead." />
          ) : (
            <>
              <Parts report={isAll ? report : firstOf(report)} />
              {Object.values(report).some((part) => part.length > shown) && (
                <footer class="more">
                  <button type="button" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
                    {isAll ? `Show the first ${shown} of each` : `Show all ${count(rowsOf(report))} rows`}
                  </button>
                </footer>
              )}
            </>
          )
        }
      </Asked>
    </Card>
  );
}

function Parts({ report: { refused, warnings, quirks, dead_letters } }: { report: ReportView }) {
  return (
    <>
      {refused.length > 0 && (
        <Table caption="Refused pushes" columns={['Last', 'Times', 'Refused push', 'Reason']} numbers={['Times']}>
          {refused.map(({ method, path, reason, count: times, last_at, object }) => (
            <tr key={`${method} ${path} ${reason}`}>
              <td>
                <Instant value={last_at} />
              </td>
              <td class="number">{count(times)}</td>
              <td class="mono">
                {object === null ? (
                  `${method} ${path}`
                ) : (
                  <PageLink href={traceOf(object)}>{`${method} ${object}`}</PageLink>
                )}
              </td>
              <td>{reason}</td>
            </tr>
          ))}
        </Table>
      )}
      <Tallies caption="Warnings" noun="Field" items={warnings.map(({ field: name, ...one }) => ({ name, ...one }))} />
      <Tallies caption="Quirks" noun="Quirk" items={quirks.map((one) => ({ ...one, name: one.quirk }))} />
      {dead_letters.length > 0 && (
        <Table
          caption="Dead letters by reason"
          columns={['Count', 'From', 'To', 'Module', 'Reason of dead letters']}
          numbers={['Count']}
        >
          {dead_letters.map(({ sender, receiver, module, class: met, reason, count: times, sample }) => (
            <tr key={`${sender} ${receiver} ${module} ${met} ${reason}`}>
              <td class="number">{count(times)}</td>
              <td class="mono">{sender}</td>
              <td class="mono">{receiver}</td>
              <td>{module}</td>
              <td>
                <PageLink href={`/deliveries/${encodeURIComponent(sample)}`}>{reason || met}</PageLink>
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

/** A warning or a quirk. */
type Tally = Omit<ReportView['warnings'][number], 'field'> & {
  readonly name: string;
  /** Of a quirk: learnt, or set by an operator. */
  readonly source?: string;
};

function Tallies({ caption, noun, items }: { caption: string; noun: string; items: readonly Tally[] }) {
  if (items.length === 0) return null;
  const hasSource = items.some(({ source }) => source !== undefined);
  return (
    <Table
      caption={caption}
      columns={['Last', 'Times', 'Module', noun, ...(hasSource ? ['From'] : []), 'Example']}
      numbers={['Times']}
    >
      {items.map(({ module, name, count: times, last_at, object, example, source }) => (
        <tr key={`${module} ${name}`}>
          <td>
            <Instant value={last_at} />
          </td>
          <td class="number">{count(times)}</td>
          <td>{module}</td>
          <td class="mono">{name}</td>
          {hasSource && <td>{source}</td>}
          <td>{object === null ? example : <PageLink href={traceOf(object)}>{example}</PageLink>}</td>
        </tr>
      ))}
    </Table>
  );
}

const traceOf = (object: string) => pathWith('/trace', { key: object });
