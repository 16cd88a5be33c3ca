/** Page of orphan cases: sessions that did not end as they should, and the timers that watch the other ones. */
import { useCallback, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { OrphanView } from '../../../api/orphans.ts';
import { useAction } from '../data/action.ts';
import type { Watch } from '../data/actors.ts';
import { call, type Page, pathWith } from '../data/api.ts';
import type { ListOrder, Loaded } from '../data/loaded.ts';
import { type PagedList, usePagedList } from '../data/paged-list.ts';
import { useQuery } from '../data/query.ts';
import { mayAct } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { Choice, Form, fieldOf, SettledField, TableCard, useFilters } from '../parts/fields.tsx';
import { Liveness, useReload, useWatch } from '../parts/live.tsx';
import { More } from '../parts/more.tsx';
import { Asked, Dash, Empty } from '../parts/states.tsx';
import { Instant, Since, Until } from '../parts/time.tsx';
import { TriageButton, TriageLine } from '../parts/triage.tsx';

/** Sessions in their grace period that are shown after all cases. */
const graceMax = 1000;
const everyMs = 5_000;
const order: ListOrder<OrphanView> = {
  idOf: ({ id }) => id,
  placeOf: ({ opened_at, id }) => `${opened_at ?? '~'} ${id}`,
  isDescending: false,
};
const kinds: Readonly<Record<string, string>> = {
  stop_without_complete: 'stopped, never COMPLETED',
  complete_without_cdr: 'COMPLETED, no CDR',
};
const hints: Readonly<Record<string, string>> = {
  OPEN: 'Nothing to do: every stopped session was completed.',
  GRACE: 'No session is waiting for its end at the moment.',
  RESOLVED: 'No case has been resolved yet.',
  '': 'Cases are opened when a session was stopped and its end never came.',
};

export function Orphans() {
  const watch = useWatch({ kinds: ['orphan-stop', 'orphan-cdr'] });
  const [filters, change] = useFilters(['state', 'assignee']);
  const field = fieldOf(filters, change);
  const { state, assignee } = filters;
  const query = useCases(state, assignee);
  useReload(watch, query.reload);

  return (
    <>
      <div class="page-head">
        <div class="row">
          <h1>Orphan cases</h1>
          <Liveness watch={watch} />
        </div>
        <div class="filters">
          <Choice
            label="State"
            {...field('state')}
            options={[
              ['', 'all'],
              ['OPEN', 'open'],
              ['GRACE', 'grace period'],
              ['RESOLVED', 'resolved'],
            ]}
          />
          <SettledField label="Assigned to" {...field('assignee')} />
        </div>
      </div>
      <Asked query={query} what="the cases">
        {(page) => (
          <>
            <CaseList items={page.items} watch={watch} hint={hintOf(state, assignee)} onDone={query.reload} />
            <More list={query} />
          </>
        )}
      </Asked>
    </>
  );
}

/** Without a filter, all cases, and after them the watches in grace, which are no cases yet. */
function useCases(state: string, assignee: string): PagedList<OrphanView> {
  const cases = usePagedList<OrphanView>(pathWith('/orphans', { state, assignee }), order);
  const path = state === '' && assignee === '' ? pathWith('/orphans', { state: 'GRACE', limit: graceMax }) : null;
  const watches = useQuery<Page<OrphanView>>(path, everyMs);
  const [reloadCases, reloadWatches] = [cases.reload, watches.reload];
  const reload = useCallback(() => {
    reloadCases();
    reloadWatches();
  }, [reloadCases, reloadWatches]);
  if (path === null || !cases.data || cases.data.cursor !== null) return cases;
  const data: Loaded<OrphanView> = { ...cases.data, items: [...cases.data.items, ...(watches.data?.items ?? [])] };
  return { ...cases, data, error: cases.error ?? watches.error, reload };
}

interface CaseListProps {
  readonly items: readonly OrphanView[];
  readonly watch: Watch | null;
  readonly hint: string;
  readonly onDone: () => void;
}

const hintOf = (state: string, assignee: string): string =>
  assignee === '' ? (hints[state] ?? '') : `None is assigned to ${assignee}.`;

function CaseList({ items, watch, hint, onDone }: CaseListProps) {
  if (items.length === 0) return <Empty title="No case" hint={hint} />;
  const columns = ['State', 'What', 'Session', 'CPO', 'eMSP', 'Opened', 'Last queried', 'Note', 'Assigned to', ''];
  return (
    <TableCard caption="Orphan cases" columns={mayAct.value ? columns : columns.slice(0, -1)}>
      {items.map((one) => (
        <CaseRow key={one.id} one={one} watch={watch} onDone={onDone} />
      ))}
    </TableCard>
  );
}

function CaseRow({ one, watch, onDone }: { one: OrphanView; watch: Watch | null; onDone: () => void }) {
  const { kind, state, session, cpo, emsp, opened_at, pulled_at, note, triage } = one;
  const due = state === 'GRACE' ? watch?.actor(actorOf(one)).value?.snapshot.context.due : null;
  return (
    <tr data-row>
      <td>
        <Badge state={state} />
      </td>
      <td>{kinds[kind] ?? kind}</td>
      <td class="mono">
        <Link href={pathWith('/trace', { key: session })}>{session}</Link>
      </td>
      <td class="mono">{cpo}</td>
      <td class="mono">{emsp}</td>
      <td>
        {state === 'GRACE' ? <Until instantMs={typeof due === 'number' ? due : null} /> : <Since instant={opened_at} />}
      </td>
      <td>
        <Instant value={pulled_at} />
      </td>
      <td class="words">{note ?? <Dash />}</td>
      <td>
        <TriageLine triage={triage} />
      </td>
      {mayAct.value && <td>{state === 'OPEN' && <CaseActions one={one} onDone={onDone} />}</td>}
    </tr>
  );
}

/** Id of the actor that watches the session. */
function actorOf({ kind, session, cpo }: OrphanView): string {
  const actorKind = kind === 'complete_without_cdr' ? 'orphan-cdr' : 'orphan-stop';
  return `${actorKind}:${cpo}/${session.slice(cpo.length + 1).toLowerCase()}`;
}

function CaseActions({ one: { id, session, cpo, triage }, onDone }: { one: OrphanView; onDone: () => void }) {
  const [isResolving, setResolving] = useState(false);
  const path = `/orphans/${encodeURIComponent(id)}`;
  const pull = useAction(async () => {
    await call<OrphanView>('POST', `${path}/pull`);
    onDone();
    return `${cpo} is being queried about ${session}: its answer will be the note of the case.`;
  });
  const resolve = useAction(async (note: string) => {
    // The note is the reason of the act, too.
    await call<OrphanView>('POST', pathWith(`${path}/resolve`, { reason: note }), note === '' ? {} : { note });
    setResolving(false);
    onDone();
    return `The case of ${session} is resolved.`;
  });
  return (
    <div class="row">
      <button
        type="button"
        aria-label={`Query CPO about ${session}`}
        disabled={pull.isRunning}
        onClick={() => pull.run()}
      >
        Query CPO
      </button>
      <TriageButton name={`the case of ${session}`} triage={triage} path={`${path}/triage`} onDone={onDone} />
      <button type="button" aria-label={`Resolve … the case of ${session}`} onClick={() => setResolving(true)}>
        Resolve …
      </button>
      {isResolving && (
        <Dialog title={`Resolve the case of ${session}`} onClose={() => setResolving(false)}>
          <Form class="stack" onSubmit={(form) => resolve.run(String(form.get('note') ?? '').trim())}>
            <p>The session stays as the CPO sent it: closing a case changes nothing but the case.</p>
            <label>
              Note, for those who look later
              <textarea name="note" rows={3} maxLength={500} />
            </label>
            <button type="submit" class="main" disabled={resolve.isRunning}>
              Resolve the case
            </button>
          </Form>
        </Dialog>
      )}
    </div>
  );
}
