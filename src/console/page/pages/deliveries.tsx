/**
 * Page of deliveries, open and ended. The address holds the whole view, including a running re-drive, so that it can be
 * shared and survives a reload.
 */
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import type { DeadGroup, DeliveryView } from '../../../api/deliveries.ts';
import { pathWith } from '../data/api.ts';
import { count, many } from '../data/format.ts';
import { type PagedList, usePagedList } from '../data/paged-list.ts';
import { useQuery } from '../data/query.ts';
import { mayAct } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Table, useFilters } from '../parts/fields.tsx';
import { More } from '../parts/more.tsx';
import { Asked, Dash, Empty } from '../parts/states.tsx';
import { Instant, Since, Until } from '../parts/time.tsx';
import { TriageButton, TriageLine } from '../parts/triage.tsx';
import { DeliveryFilters, type DeliveryFilterValues, filterNames, isFilteredBy } from './deliveries-filter.tsx';
import { meaningOf } from './deliveries-words.ts';
import { DiscardGroup } from './delivery-acts.tsx';
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

const shownMax = 12;

interface DeadGroupsProps {
  readonly groups: readonly DeadGroup[];
  readonly chosen: DeliveryFilterValues;
  readonly onStarted: (started: { job: string; of: string }) => void;
  readonly onTriaged: () => void;
}

/** Dead letters grouped by receiver, module and class; each group links to its list. */
function DeadGroups({ groups, chosen, onStarted, onTriaged }: DeadGroupsProps) {
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

const columns = ['State', 'Receiver', 'Module', 'Object', 'Method', 'Accepted', 'Due', 'Attempts', 'Reason'];

interface DeliveryTableProps {
  readonly items: readonly DeliveryView[];
  readonly isOldestFirst: boolean;
}

function DeliveryTable({ items, isOldestFirst }: DeliveryTableProps) {
  return (
    <Table
      caption={`Deliveries, ${isOldestFirst ? 'oldest' : 'newest'} first`}
      columns={columns}
      numbers={['Attempts']}
    >
      {items.map((delivery) => (
        <DeliveryRow key={delivery.id} delivery={delivery} />
      ))}
    </Table>
  );
}

function DeliveryRow({ delivery }: { delivery: DeliveryView }) {
  const { id, state, receiver, module, object, method, accepted_at, due_at, attempts } = delivery;
  return (
    <tr data-row>
      <td>
        <Badge state={state} />
      </td>
      <td class="mono">{receiver}</td>
      <td>{module}</td>
      <td class="mono object">
        <Link href={`/deliveries/${encodeURIComponent(id)}`} aria-label={`${object} to ${receiver}, delivery ${id}`}>
          {object}
        </Link>
      </td>
      <td>{method}</td>
      <td class="instant">
        <Instant value={accepted_at} />
      </td>
      <td class="instant">
        {state === 'PENDING' && due_at !== null ? <Until instantMs={Date.parse(due_at)} /> : <Dash />}
      </td>
      <td class="number">{attempts.length}</td>
      <td class="reason">{reasonOf(delivery)}</td>
    </tr>
  );
}

/** Why the delivery is in its state; nothing for a delivered one. */
function reasonOf({ state, class: met, reason, attempts }: DeliveryView) {
  if (state === 'DELIVERED') return <Dash />;
  const cause = reason ?? attempts.at(-1)?.excerpt ?? '';
  if (met === null) return <span class="quiet">{attempts.length === 0 ? 'not tried yet' : '–'}</span>;
  return (
    <span title={cause}>
      <b>{met}</b> {cause}
    </span>
  );
}
