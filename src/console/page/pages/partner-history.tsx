/** Recent history of a partner: live transitions, and below them the events that the log recorded before. */
import { Link } from 'wouter-preact';
import type { EventView } from '../../../api/events.ts';
import type { Transition, Watch } from '../data/actors.ts';
import { type Page, pathWith } from '../data/api.ts';
import { actorsOf } from '../data/circuits.ts';
import { at } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { Card } from '../parts/card.tsx';
import { Table } from '../parts/fields.tsx';
import { Dash, Empty } from '../parts/states.tsx';

const shownMax = 30;

interface Line {
  readonly key: string;
  readonly at: string;
  readonly event: string;
  readonly from: string;
  readonly to: string;
  /** Who caused it; '' for a live transition, which does not say. */
  readonly by: string;
}

export function History({ id, watch }: { id: string; watch: Watch | null }) {
  const live = actorsOf(id).flatMap((actor) => {
    const transitions = watch?.actor(actor).value?.transitions ?? [];
    return transitions.map((one, index, all) => lineOf(actor, one, all.length - index));
  });
  const lines = [...live, ...useRecorded(id, 'partner'), ...useRecorded(id, 'circuit')]
    .sort((a, b) => (a.at < b.at ? 1 : -1))
    .slice(0, shownMax);
  return (
    <Card title="Last transitions" beside={<Link href={`/events?party=${id}`}>Events</Link>}>
      {lines.length === 0 ? (
        <Empty title="No recent transitions" hint="What happens from now on is shown here as it happens." />
      ) : (
        <Table caption="Last transitions" columns={['Time', 'Event', 'From → to', 'By']}>
          {lines.map((line) => (
            <tr key={line.key}>
              <td>
                <time dateTime={line.at}>{at(line.at)}</time>
              </td>
              <td class="mono">{line.event}</td>
              <td>
                {line.from && <span class="quiet">{line.from} → </span>}
                {line.to}
              </td>
              <td class="mono">{line.by || <Dash />}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

/** For a machine with regions, only the regions that changed. */
function lineOf(actor: string, { at: instant, event, from, to }: Transition, number: number): Line {
  const [before, after] = [from.split(' · '), to.split(' · ')];
  const changed = after.flatMap((region, index) => (region === before[index] ? [] : [index]));
  const only = (regions: readonly string[]) => changed.map((index) => regions[index]).join(', ');
  const key = `${actor} ${instant} ${number}`;
  const circuit = actor.startsWith('circuit:') ? `${actor.split('/').pop()} ` : '';
  return {
    key,
    at: new Date(instant).toISOString(),
    event: `${circuit}${event ?? ''}`,
    from: only(before),
    to: only(after),
    by: '',
  };
}

/**
 * Recorded changes of the partner or of its circuits, as of when the page was opened. What else is about a partner, such
 * as `report.noted`, changes no state.
 */
function useRecorded(id: string, type: 'partner' | 'circuit'): Line[] {
  const path = pathWith('/events', { about: `partner:${id}`, type, order: 'newest', limit: shownMax });
  const { data } = useQuery<Page<EventView>>(path);
  return (data?.items ?? []).map(({ seq, at: instant, type: event, by, who, data: of }) => {
    const { circuit, module, reason } = of as { circuit?: string; module?: string; reason?: string };
    const to = [module ?? circuit, reason].filter(Boolean).join(': ');
    return { key: `event ${seq}`, at: instant, event, from: '', to, by: who ?? by };
  });
}
