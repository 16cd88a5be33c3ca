/**
 * Dead letters grouped by receiver, module and class; each group links to its list.
 */
import { Link } from 'wouter-preact';
import type { DeadGroup } from '../../../api/deliveries.ts';
import { pathWith } from '../data/api.ts';
import { count } from '../data/format.ts';
import { Badge } from '../parts/badge.tsx';
import { Since } from '../parts/time.tsx';
import type { DeliveryFilterValues } from './deliveries-filter.tsx';
import { meaningOf } from './deliveries-words.ts';

const shownMax = 12;

export function DeadGroups({ groups, chosen }: { groups: readonly DeadGroup[]; chosen: DeliveryFilterValues }) {
  if (groups.length === 0) return null;
  const total = groups.reduce((sum, group) => sum + group.count, 0);
  const isChosen = ({ receiver, module }: DeadGroup) =>
    chosen.state === 'DEAD' && chosen.receiver === receiver && chosen.module === module;
  return (
    <section class="card dead-groups" aria-labelledby="dead-letters">
      <header>
        <h2 id="dead-letters">
          {count(total)} dead {total === 1 ? 'letter' : 'letters'}
        </h2>
        <Link href="/deliveries?state=DEAD">All of them</Link>
      </header>
      <ul>
        {groups.slice(0, shownMax).map((group) => (
          <li key={`${group.receiver} ${group.module} ${group.class}`}>
            <Link
              href={pathWith('/deliveries', { state: 'DEAD', receiver: group.receiver, module: group.module })}
              aria-current={isChosen(group) ? 'true' : undefined}
            >
              <b>{count(group.count)}</b> {group.module} to {group.receiver}
            </Link>
            <Badge state={group.class} tone="bad" />
            <span class="quiet">
              {meaningOf(group.class)}; oldest <Since instant={group.oldest_at} />,{' '}
              <Link href={`/deliveries/${encodeURIComponent(group.sample)}`}>one of them</Link>
            </span>
          </li>
        ))}
      </ul>
      {groups.length > shownMax && <p class="quiet inside">and {count(groups.length - shownMax)} more groups</p>}
    </section>
  );
}
