/**
 * What passed through the hub, or between it and a partner: charts of the last 24 hours by minute and of the last 90 days
 * by hour, with the same figures as a table.
 */
import { useMemo, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { HistoryPoint, HistoryView, PartnerHistory, PartnerPoint } from '../../../api/history.ts';
import { count, at as instant, orDash, percent, spanMs } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { Card } from '../parts/card.tsx';
import { Choice, Table } from '../parts/fields.tsx';
import { type Curve, Plot } from '../parts/plot.tsx';
import { Asked, Empty } from '../parts/states.tsx';

const everyMs = 60_000;
/** Rows of the table; the command line and the API have all. */
const rowsMax = 120;

const steps = { minute: '24 hours', hour: '90 days' } as const;
type Step = keyof typeof steps;
const stepMs: Readonly<Record<Step, number>> = { minute: 60_000, hour: 3_600_000 };

type AnyPoint = HistoryPoint & Partial<Pick<PartnerPoint, 'availability'>>;

export function HubTraffic() {
  return <Traffic path="/history" />;
}

export function PartnerTraffic({ id }: { id: string }) {
  return <Traffic path={`/parties/${encodeURIComponent(id)}/history`} partner={id} />;
}

function Traffic({ path, partner }: { path: string; partner?: string }) {
  const [step, setStep] = useState<Step>('minute');
  const query = useQuery<HistoryView | PartnerHistory>(`${path}?step=${step}`, everyMs);
  return (
    <Card
      title="Traffic"
      class="traffic"
      beside={
        <div class="row">
          <Choice
            label="Period"
            value={step}
            options={Object.entries(steps)}
            onChange={(value) => setStep(value as Step)}
          />
          {partner !== undefined && (
            <Link href={`/partners/${encodeURIComponent(partner)}/report`}>Monthly report</Link>
          )}
        </div>
      }
    >
      <Asked query={query} what="the history">
        {(view) =>
          view.points.length === 0 ? (
            <Empty title="Nothing recorded yet" hint="The first minute with traffic appears when it is over." />
          ) : (
            <Charts view={view} isPartner={partner !== undefined} />
          )
        }
      </Asked>
    </Card>
  );
}

function Charts({ view, isPartner }: { view: HistoryView | PartnerHistory; isPartner: boolean }) {
  const { times, points } = useMemo(() => gridOf(view), [view]);
  const { step } = view;
  const curves = useMemo(() => {
    // Nothing was counted where there is no point; what else was measured is not known there.
    const of = (
      title: string,
      tone: Curve['tone'],
      shown: Curve['shown'],
      value: (point: AnyPoint) => number | null,
    ) => {
      const without = shown === count ? 0 : null;
      return { title, tone, shown, values: points.map((point) => (point === undefined ? without : value(point))) };
    };
    return {
      counts: [
        of('Pushes', 'info', count, ({ pushes }) => pushes),
        of('Deliveries', 'accent', count, ({ deliveries }) => deliveries),
        of('Errors', 'bad', count, ({ errors }) => errors),
      ],
      latencies: [
        of('p50', 'accent', spanMs, ({ latency_p50_ms }) => latency_p50_ms),
        of('p95', 'wait', spanMs, ({ latency_p95_ms }) => latency_p95_ms),
      ],
      availability: [of('Availability', 'good', percent, ({ availability }) => availability ?? null)],
    };
  }, [points]);
  return (
    <>
      <Plot title={`Pushes, deliveries and errors by ${step}`} times={times} curves={curves.counts} />
      {isPartner && <Plot title="Latency of deliveries" times={times} curves={curves.latencies} />}
      {isPartner && <Plot title="Availability" times={times} curves={curves.availability} max={1} />}
      <Figures points={view.points} isPartner={isPartner} />
    </>
  );
}

/** Every minute or hour of the span, and its point where there is one. */
function gridOf({ step, from, to, points }: HistoryView | PartnerHistory) {
  const size = stepMs[step];
  const known = new Map<number, AnyPoint>(points.map((point) => [Date.parse(point.at), point]));
  const times: number[] = [];
  for (let begin = Math.ceil(Date.parse(from) / size) * size; begin < Date.parse(to); begin += size) times.push(begin);
  return { times: times.map((begin) => begin / 1000), points: times.map((begin) => known.get(begin)) };
}

function Figures({ points, isPartner }: { points: readonly AnyPoint[]; isPartner: boolean }) {
  const [isOpen, setOpen] = useState(false);
  const columns = ['Begin', 'Pushes', 'Deliveries', 'Errors', 'p50', 'p95', ...(isPartner ? ['Availability'] : [])];
  const newest = isOpen ? points.slice(-rowsMax).reverse() : [];
  return (
    <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Figures</summary>
      {isOpen && (
        <Table caption={`The last ${count(newest.length)} with traffic`} columns={columns} numbers={columns.slice(1)}>
          {newest.map(({ at, pushes, deliveries, errors, latency_p50_ms, latency_p95_ms, availability = null }) => (
            <tr key={at}>
              <td class="instant">{instant(at)}</td>
              <td class="number">{count(pushes)}</td>
              <td class="number">{count(deliveries)}</td>
              <td class="number">{count(errors)}</td>
              <td class="number">{orDash(latency_p50_ms, spanMs)}</td>
              <td class="number">{orDash(latency_p95_ms, spanMs)}</td>
              {isPartner && <td class="number">{orDash(availability, percent)}</td>}
            </tr>
          ))}
        </Table>
      )}
    </details>
  );
}
