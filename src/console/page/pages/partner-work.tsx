/** Long-running work for a partner, with progress: resyncs of present objects, and pulls of a CPO's lists. */
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { JobView } from '../../../api/jobs.ts';
import type { PartyView } from '../../../api/parties.ts';
import type { PullView } from '../../../api/pulls.ts';
import { moduleNames } from '../../../domain/modules.ts';
import { useAction } from '../data/action.ts';
import { call, type Page, pathWith } from '../data/api.ts';
import { at, count, many } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { mayOperate } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { Form, Table } from '../parts/fields.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { JobProgress } from './job-progress.tsx';

const pulled = ['locations', 'tariffs'] as const;
const progressMs = 500;
const idleMs = 5_000;
const pullsShown = 6;
/** The largest page that the hub serves. */
const pullsMax = 1000;

export function Resync({ id }: { id: string }) {
  const [job, setJob] = useState<string | null>(null);
  const { isRunning, run } = useAction(async (module: string) => {
    const started = await call<JobView>('POST', `/parties/${id}/resync`, { module });
    setJob(started.id);
    return null;
  });
  return (
    <>
      <Card title="Resync">
        <Form class="inside stack" onSubmit={(form) => run(String(form.get('module')))}>
          <p class="quiet">Sends {id} the present objects of a module that it is entitled to.</p>
          <div class="row">
            <select name="module" aria-label="Module to send">
              {moduleNames.map((module) => (
                <option key={module} value={module}>
                  {module}
                </option>
              ))}
            </select>
            <button type="submit" disabled={isRunning}>
              Resync
            </button>
          </div>
        </Form>
      </Card>
      {job && <JobProgress key={job} id={job} of={null} onClose={() => setJob(null)} />}
    </>
  );
}

const soonerWhilePulling = (page: Page<PullView> | undefined) =>
  page?.items.some(({ state }) => state === 'RUNNING') ? progressMs : idleMs;

/** Pulls of a partner that is a CPO; nothing for others. */
export function Pulls({ party: { id, roles } }: { party: PartyView }) {
  const isCpo = roles.some(({ role }) => role === 'CPO');
  const [shown, setShown] = useState(pullsShown);
  const query = useQuery<Page<PullView>>(
    isCpo ? pathWith('/pulls', { party: id, limit: shown }) : null,
    soonerWhilePulling,
  );
  const start = useAction(async (module: string, form: FormData) => {
    const asked = { full: form.get('full') === 'on', forward: form.get('forward') === 'on' };
    await call('POST', `/parties/${id}/pull/${module}`, asked);
    query.reload();
    return null;
  });
  if (!isCpo) return null;
  return (
    <Card title="Pulls" beside={<Link href="/events?type=pull">Events</Link>}>
      {mayOperate.value && <PullForm isRunning={start.isRunning} onPull={start.run} />}
      <Asked query={query} what="the pulls">
        {({ items, next_cursor }) =>
          items.length === 0 ? (
            <Empty
              title={next_cursor === null ? 'Nothing was pulled' : 'Nothing was pulled recently'}
              hint="A pull reads the list that the CPO itself offers."
            />
          ) : (
            <Table caption="Pulls" columns={['Started', 'Module', 'State', 'Progress']}>
              {items.map((pull) => (
                <PullRow key={pull.id} pull={pull} onEnd={query.reload} />
              ))}
              {next_cursor !== null && shown < pullsMax && (
                <tr>
                  <td colSpan={4}>
                    <button type="button" onClick={() => setShown(Math.min(pullsMax, shown * 5))}>
                      Load more
                    </button>
                  </td>
                </tr>
              )}
            </Table>
          )
        }
      </Asked>
    </Card>
  );
}

function PullForm({ isRunning, onPull }: { isRunning: boolean; onPull: (module: string, form: FormData) => void }) {
  return (
    <Form
      class="inside row"
      onSubmit={(form, submitter) => {
        const module = submitter?.getAttribute('value');
        if (module) onPull(module, form);
      }}
    >
      {pulled.map((module) => (
        <button key={module} type="submit" name="module" value={module} disabled={isRunning}>
          Pull {module}
        </button>
      ))}
      <label>
        <input type="checkbox" name="full" />
        the whole list
      </label>
      <label>
        <input type="checkbox" name="forward" />
        forward what is new
      </label>
    </Form>
  );
}

function PullRow({ pull, onEnd }: { pull: PullView; onEnd: () => void }) {
  const cancel = useAction(async () => {
    await call('DELETE', `/pulls/${encodeURIComponent(pull.id)}`);
    onEnd();
    return null;
  });
  const { started_at, module, state, full, pages, received, stored, unchanged, invalid, deleted, error, note } = pull;
  const parts = [
    `${count(received)} received in ${many(pages, 'page')}`,
    `${count(stored)} stored`,
    `${count(unchanged)} unchanged`,
    deleted > 0 && `${count(deleted)} deleted`,
  ];
  return (
    <tr>
      <td>
        <time dateTime={started_at}>{at(started_at)}</time>
      </td>
      <td>
        {module}
        {full && <span class="quiet"> whole</span>}
      </td>
      <td>
        <Badge state={state} />
        {state === 'RUNNING' && mayOperate.value && (
          <button
            type="button"
            aria-label={`Cancel the pull of ${module}`}
            disabled={cancel.isRunning}
            onClick={() => cancel.run()}
          >
            Cancel
          </button>
        )}
      </td>
      <td>
        {parts.filter(Boolean).join(', ')}
        {invalid > 0 && <span class="urgent">, {count(invalid)} invalid</span>}
        {(error ?? note) && <div class="quiet">{error ?? note}</div>}
      </td>
    </tr>
  );
}
