/** Dead letters grouped by receiver, module and class; each group links to its list. */
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { DeadGroup } from '../../../api/deliveries.ts';
import { pathWith } from '../data/api.ts';
import { count, many } from '../data/format.ts';
import { Badge } from '../parts/badge.tsx';
import { Since } from '../parts/time.tsx';
import { TriageButton, TriageLine } from '../parts/triage.tsx';
import type { DeliveryFilterValues } from './deliveries-filter.tsx';
import { meaningOf } from './deliveries-words.ts';
import { DiscardGroup } from './delivery-discard.tsx';

const shownMax = 12;

interface DeadGroupsProps {
  readonly groups: readonly DeadGroup[];
  readonly chosen: DeliveryFilterValues;
  readonly onStarted: (started: { job: string; of: string }) => void;
  readonly onTriaged: () => void;
}

export function DeadGroups({ groups, chosen, onStarted, onTriaged }: DeadGroupsProps) {
  const [isWhole, setWhole] = useState(false);
  if (groups.length === 0) return null;
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  const listOf = ({ receiver, module, class: ended }: DeadGroup) => ({ state: 'DEAD', receiver, module, class: ended });
  const isChosen = (group: DeadGroup) =>
    Object.entries(listOf(group)).every(([name, value]) => chosen[name as keyof DeliveryFilterValues] === value);
  return (
    <section class="card dead-groups" aria-labelledby="dead-letters">
      <header>
        <h2 id="dead-letters">{many(total, 'dead letter')}</h2>
        <Link href="/deliveries?state=DEAD">All of them</Link>
      </header>
      <ul>
        {groups.slice(0, isWhole ? undefined : shownMax).map((group) => (
          <li key={`${group.receiver} ${group.module} ${group.class}`}>
            <Link href={pathWith('/deliveries', listOf(group))} aria-current={isChosen(group) ? 'true' : undefined}>
              <b>{count(group.count)}</b> {group.module} to {group.receiver}
            </Link>
            <Badge state={group.class} tone="bad" />
            <span class="quiet">
              {meaningOf(group.class)}; oldest <Since instant={group.oldest_at} />,{' '}
              <Link href={`/deliveries/${encodeURIComponent(group.sample)}`}>one of them</Link>
            </span>
            {group.triage && <TriageLine triage={group.triage} />}
            <TriageButton
              name={`${group.module} to ${group.receiver}`}
              triage={group.triage}
              path={`/dead-letters/${group.receiver}/${group.module}/${group.class}/triage`}
              onDone={onTriaged}
            />
            <DiscardGroup group={group} onStarted={onStarted} />
          </li>
        ))}
      </ul>
      {groups.length > shownMax && !isWhole && (
        <p class="inside">
          <button type="button" class="plain" onClick={() => setWhole(true)}>
            and {many(groups.length - shownMax, 'more group')}
          </button>
        </p>
      )}
    </section>
  );
}
