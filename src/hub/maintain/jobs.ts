/**
 * Runs long operator work (re-drive, resync) as jobs with durable progress: each job has a row, written at its start,
 * every `writeEvery` steps or `writeAfterMs`, whichever comes first, and at its end.
 *
 * JOBS-1  A job takes one step at a time, and those that queue something at the requested rate; a cancel takes effect before the next step.
 * JOBS-2  A job that a restart or the death of the owner cut off is shown as INTERRUPTED, with the progress that was
 *     written last. Each step is atomic, so nothing is half done.
 */
import type { Put } from '../../../storage/contract.ts';
import type { JobView } from '../../api/jobs.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import { sleep } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import { listed, rowData } from '../kernel/row-codecs.ts';

/**
 * `full`: memory has no room for the work; the job repeats the step after `fullMs`. `unmatched`: the work does not
 * belong to the job, or not yet, and it goes on at once.
 */
export type StepResult = 'queued' | 'stale' | 'pending' | 'unregistered' | 'full' | 'unmatched';

export interface JobPlan {
  readonly kind: JobView['kind'];
  /** The party or partner that the job's events concern, so that filters by party find them; null for none. */
  readonly receiver: PartyId | null;
  readonly ratePerS: number;
  /** Each element does one piece of work when it is called with the id of the job. */
  readonly steps: AsyncIterable<(job: string) => Promise<StepResult>>;
}

interface Run {
  view: JobView;
  /** State in which the job ends early; null while nothing stops it. */
  stopped: 'CANCELED' | 'INTERRUPTED' | null;
  /** The operator who canceled it, whom its last event names; else that is the one who started it. */
  canceledBy?: string | undefined;
  /** Aborted when the job is to stop, which ends its pause. */
  readonly ending: AbortController;
  done: Promise<void>;
}

const counters = {
  queued: 'queued',
  stale: 'skipped_stale',
  pending: 'skipped_pending',
  unregistered: 'skipped_unregistered',
} as const;
/** Steps between two writes of progress; after a kill the counts that are shown lack fewer steps than this. */
const writeEvery = 500;
/** And the longest time between two, ms: a slow job takes minutes for that many steps. */
const writeAfterMs = 2000;
const fullMs = 1_000;

/** Row of a job. `receiver` is left out: only the events carry it, for filters by party. */
export function jobRow({ receiver: _, ...view }: JobView & { readonly receiver?: PartyId }): Put {
  return listed('jobs', view.id, view.started_at, view);
}

export class Jobs {
  readonly #context: Context;
  readonly #running = new Map<string, Run>();

  constructor(context: Context) {
    this.#context = context;
  }

  async start(plan: JobPlan, trace: Trace): Promise<JobView> {
    const { ports, recorder } = this.#context;
    const view: JobView = {
      id: ports.secrets.newId(),
      kind: plan.kind,
      state: 'RUNNING',
      matched: 0,
      queued: 0,
      skipped_stale: 0,
      skipped_pending: 0,
      skipped_unregistered: 0,
      started_at: recorder.instant(),
      ended_at: null,
      error: null,
    };
    await this.#write(view, plan, trace);
    const run: Run = { view, stopped: null, ending: new AbortController(), done: Promise.resolve() };
    this.#running.set(view.id, run);
    run.done = this.#run(run, plan, trace).finally(() => this.#running.delete(view.id));
    return view;
  }

  async view(id: string): Promise<JobView> {
    const running = this.#running.get(id)?.view;
    const view = running ?? (await rowData<JobView>(this.#context.store, { kind: 'jobs', owner: '', id }));
    if (!view) throw new HubError('notFound');
    return !running && view.state === 'RUNNING' ? { ...view, state: 'INTERRUPTED' } : view;
  }

  async cancel(id: string, { operator }: Trace): Promise<JobView> {
    const run = this.#running.get(id);
    if (run) {
      if (run.stopped === null) run.canceledBy = operator;
      await this.#stop(run, 'CANCELED');
    }
    return this.view(id);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running.values()].map((run) => this.#stop(run, 'INTERRUPTED')));
  }

  #stop(run: Run, state: 'CANCELED' | 'INTERRUPTED'): Promise<void> {
    run.stopped ??= state;
    run.ending.abort();
    return run.done;
  }

  async #run(run: Run, plan: JobPlan, trace: Trace): Promise<void> {
    const { ports, recorder } = this.#context;
    const count = (field: 'matched' | (typeof counters)[keyof typeof counters]) => {
      run.view = { ...run.view, [field]: run.view[field] + 1 };
    };
    let writtenAt = ports.clock.monotonic();
    let ended: Pick<JobView, 'state' | 'error'> = { state: 'DONE', error: null };
    try {
      for await (const step of plan.steps) {
        if (run.stopped) break;
        const result = await this.#step(run, step);
        if (result === 'full') break;
        if (result === 'unmatched') continue;
        count('matched');
        count(counters[result]);
        const now = ports.clock.monotonic();
        if (run.view.matched % writeEvery === 0 || now - writtenAt >= writeAfterMs) {
          await this.#write(run.view, plan, trace);
          writtenAt = now;
        }
        if (result === 'queued' && !run.stopped) await this.#pause(run, 1000 / plan.ratePerS);
      }
      if (run.stopped) ended = { state: run.stopped, error: null };
    } catch (error) {
      ports.log.error({ err: error, job: run.view.id }, 'a job failed');
      ended = { state: 'FAILED', error: error instanceof Error ? error.message : String(error) };
    }
    run.view = { ...run.view, ...ended, ended_at: recorder.instant() };
    const { canceledBy: operator = trace.operator } = run;
    await this.#write(run.view, plan, { ...trace, ...(operator && { operator }) }).catch((error: unknown) =>
      ports.log.error({ err: error, job: run.view.id }, 'could not record the end of a job'),
    );
  }

  /** Repeats a step until memory has room; resolves with `full` only when the job is stopped meanwhile. */
  async #step(run: Run, step: (job: string) => Promise<StepResult>): Promise<StepResult> {
    for (;;) {
      const result = await step(run.view.id);
      if (result !== 'full' || run.stopped) return result;
      await this.#pause(run, fullMs);
      if (run.stopped) return result;
    }
  }

  #pause(run: Run, ms: number): Promise<void> {
    return sleep(this.#context.ports.clock, ms, run.ending.signal);
  }

  async #write(view: JobView, { receiver }: JobPlan, trace: Trace): Promise<void> {
    const { recorder } = this.#context;
    const [ongoing, isNew] = [view.state === 'RUNNING', view.matched === 0];
    const type = ongoing ? (isNew ? ('job.started' as const) : ('job.progressed' as const)) : ('job.ended' as const);
    const facts = [
      {
        stream: `job:${view.id}`,
        event: { type, data: { ...view, ...(receiver !== null && { receiver }) } },
        party: null,
      },
    ];
    await recorder.record({ facts, puts: [jobRow(view)], trace });
  }
}
