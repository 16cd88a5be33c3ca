/**
 * Page of deliveries, open and ended. The address holds the whole view, including a running re-drive, so that it can be
 * shared and survives a reload.
 */
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import type { DeadGroup, DeliveryView } from '../../../api/deliveries.ts';
import { pathWith } from '../data/api.ts';
import { type PagedList, usePagedList } from '../data/paged-list.ts';
import { useQuery } from '../data/query.ts';
import { mayAct } from '../data/session.ts';
import { useFilters } from '../parts/fields.tsx';
import { More } from '../parts/more.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { DeadGroups } from './deliveries-dead.tsx';
import { DeliveryFilters, filterNames, isFilteredBy } from './deliveries-filter.tsx';
import { DeliveryTable } from './deliveries-table.tsx';
import { JobProgress } from './job-progress.tsx';
import { RedriveDialog } from './redrive.tsx';
import '../style/deliveries.css';

const names = [...filterNames, 'job', 'of'] as const;

const placed = {
  idOf: ({ id }: DeliveryView) => id,
  placeOf: ({ seq }: DeliveryView) => String(seq).padStart(16, '0'),
};

export function Deliveries() {
  const [{ job, of, ...filters }, change] = useFilters(names);
  const isDescending = filters.order !== 'oldest';
  const list = usePagedList(pathWith('/deliveries', filters), { ...placed, isDescending });
  const dead = useQuery<{ items: readonly DeadGroup[] }>('/dead-letters', 10_000);
  const [isRedriving, setRedriving] = useState(false);
  const isListed = filters.state === 'DELIVERED' || filters.state === 'DISCARDED';
  const hasDead = dead.data !== undefined && dead.data.items.length > 0;
  const reload = () => {
    list.reload();
    dead.reload();
  };
  return (
    <div class="stack deliveries">
      <div class="page-head">
        <h1>Deliveries</h1>
        {mayAct.value && (isListed || (hasDead && filters.state !== 'PENDING')) && (
          <button type="button" onClick={() => setRedriving(true)}>
            {isListed ? 'Send again what is listed …' : 'Re-drive dead letters …'}
          </button>
        )}
      </div>
      {job !== '' && (
        <JobProgress
          key={job}
          id={job}
          of={Number(of) || null}
          onEnd={reload}
          onClose={() => change({ job: '', of: '' })}
        />
      )}
      <Asked query={dead} what="the dead letters">
        {({ items }) => <DeadGroups groups={items} chosen={filters} onStarted={change} onTriaged={dead.reload} />}
      </Asked>
      <DeliveryFilters values={filters} change={change} receivers={receiversOf(list, dead.data?.items)} />
      <Asked query={list} what="the deliveries">
        {(loaded) =>
          loaded.items.length === 0 && loaded.cursor === null ? (
            <NothingFound isFiltered={isFilteredBy(filters)} />
          ) : (
            <section class="card" aria-label="Deliveries found">
              <DeliveryTable items={loaded.items} isOldestFirst={!isDescending} />
              <More list={list} />
            </section>
          )
        }
      </Asked>
      {isRedriving && (
        <RedriveDialog
          filters={filters}
          onClose={() => setRedriving(false)}
          onStarted={(started) => {
            setRedriving(false);
            change(started);
          }}
        />
      )}
    </div>
  );
}

function receiversOf({ data }: PagedList<DeliveryView>, groups: readonly DeadGroup[] = []): string[] {
  const found = [...groups, ...(data?.items ?? [])].map(({ receiver }) => receiver);
  return [...new Set(found)].sort();
}

function NothingFound({ isFiltered }: { isFiltered: boolean }) {
  const [, navigate] = useLocation();
  if (!isFiltered) {
    return (
      <Empty
        title="No delivery yet"
        hint="As soon as a partner sends something that another one is entitled to, it is shown here."
      />
    );
  }
  return (
    <Empty
      title="No deliveries match"
      hint="Remove a filter, or look under Trace, which also says why something was not forwarded."
    >
      <p class="row">
        <button type="button" onClick={() => navigate('/deliveries')}>
          Clear filters
        </button>
        <Link href="/trace">Trace</Link>
      </p>
    </Empty>
  );
}
