/**
 * Page of deliveries, open and ended. The address holds the whole view, including a running re-drive, so that it can be
 * shared and survives a reload.
 */
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import type { DeadGroup } from '../../../api/deliveries.ts';
import { type DeliveryList, freshMax, useDeliveryList } from '../data/delivery-list.ts';
import { count } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { mayAct } from '../data/session.ts';
import { useFilters } from '../parts/fields.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { DeadGroups } from './deliveries-dead.tsx';
import { DeliveryFilters } from './deliveries-filter.tsx';
import { DeliveryTable } from './deliveries-table.tsx';
import { RedriveDialog } from './redrive.tsx';
import { RedriveProgress } from './redrive-progress.tsx';
import '../style/deliveries.css';

const names = ['state', 'receiver', 'module', 'object', 'from', 'to', 'job', 'of'] as const;

export function Deliveries() {
  const [{ job, of, ...filters }, change] = useFilters(names);
  const list = useDeliveryList(filters);
  const dead = useQuery<{ items: readonly DeadGroup[] }>('/dead-letters', 10_000);
  const [isRedriving, setRedriving] = useState(false);
  const isReplay = filters.state === 'DELIVERED';
  const hasDead = dead.data !== undefined && dead.data.items.length > 0;
  const reload = () => {
    list.reload();
    dead.reload();
  };
  return (
    <div class="stack deliveries">
      <div class="page-head">
        <h1>Deliveries</h1>
        {mayAct.value && (isReplay || (hasDead && filters.state !== 'PENDING')) && (
          <button type="button" onClick={() => setRedriving(true)}>
            {isReplay ? 'Send again what is listed …' : 'Re-drive dead letters …'}
          </button>
        )}
      </div>
      {job !== '' && (
        <RedriveProgress id={job} of={Number(of) || null} onEnd={reload} onClose={() => change({ job: '', of: '' })} />
      )}
      <Asked query={dead} what="the dead letters">
        {({ items }) => <DeadGroups groups={items} chosen={filters} />}
      </Asked>
      <DeliveryFilters values={filters} change={change} receivers={receiversOf(list, dead.data?.items)} />
      <Asked query={list} what="the deliveries">
        {(loaded) =>
          loaded.items.length === 0 && loaded.cursor === null ? (
            <NothingFound isFiltered={Object.values(filters).some((value) => value !== '')} />
          ) : (
            <section class="card" aria-label="Deliveries found" aria-busy={list.isLoading}>
              <DeliveryTable items={loaded.items} />
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

function receiversOf({ data }: DeliveryList, groups: readonly DeadGroup[] = []): string[] {
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
      title="No delivery fits this filter"
      hint="Take a condition away, or look under Trace: it tells also why something was forwarded to nobody."
    >
      <p class="row">
        <button type="button" onClick={() => navigate('/deliveries')}>
          Clear the filter
        </button>
        <Link href="/trace">Trace</Link>
      </p>
    </Empty>
  );
}

/**
 * Button to load more. One request scans a limited range of the log; where few events match the filter, the search goes
 * on range by range.
 */
function More({ list: { data, more, isGrowing, isLoading } }: { list: DeliveryList }) {
  if (!data) return null;
  return (
    <footer class="more">
      <span class="quiet" role="status">
        {count(data.items.length)} shown{data.cursor === null ? ', all of them' : ''}
        {data.items.length >= freshMax && '; a list this long is not refreshed by itself'}
      </span>
      {data.cursor !== null && (
        <button type="button" onClick={more} disabled={isGrowing || isLoading}>
          {data.items.length === 0 ? 'Nothing in the newest part of the log: search further back' : 'Load more'}
        </button>
      )}
    </footer>
  );
}
