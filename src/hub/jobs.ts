/**
 * Long work of operators, with progress that outlives it: each job is a row, written when it starts, now and then, and when it ends.
 *
 * O1  One step at a time, at the rate that was asked for; a cancel takes effect before the next step.
 * O2  A job that a restart cut off is shown as INTERRUPTED; its steps are safe one by one, so nothing is half done.
 */
import type { Put } from '../../storage/contract.ts';
import { HubError } from '../domain/errors.ts';
import type { PartyId } from '../domain/party.ts';
import { type Core, rowData } from './core.ts';
import type { JobView, Trace } from './hub.ts';

export type StepResult = 'queued' | 'stale' | 'pending';

export interface JobPlan {
  readonly kind: JobView['kind'];
  readonly shardOf: PartyId;
  readonly ratePerS: number;
  /** Each call of a step does one piece of work. */
  readonly steps: AsyncIterable<(job: string) => Promise<StepResult>>;
}

const counters = { queued: 'queued', stale: 'skipped_stale', pending: 'skipped_pending' } as const;
/** Progress is written every so many steps. */
const writeEvery = 500;

export class Jobs {
  readonly #core: Core;
  readonly #running = new Map<string, { view: JobView; canceled: boolean; done: Promise<void> }>();

  constructor(core: Core) {
    this.#core = core;
  }

  async start(plan: JobPlan, trace: Trace): Promise<JobView> {
    const { ports, recorder } = this.#core;
    const view: JobView = {
      ...{ id: ports.secrets.newId(), kind: plan.kind, state: 'RUNNING', matched: 0, queued: 0 },
      ...{ skipped_stale: 0, skipped_pending: 0, started_at: recorder.instant(), ended_at: null, error: null },
    };
    await this.#write(view, plan, trace);
    const run = { view, canceled: false, done: Promise.resolve() };
    this.#running.set(view.id, run);
    run.done = this.#run(run, plan, trace).finally(() => this.#running.delete(view.id));
    return view;
  }

  async view(id: string): Promise<JobView> {
    const running = this.#running.get(id)?.view;
    const view = running ?? (await rowData<JobView>(this.#core.store, { kind: 'jobs', owner: '', id }));
    if (!view) throw new HubError('notFound');
    return !running && view.state === 'RUNNING' ? { ...view, state: 'INTERRUPTED' } : view;
  }

  async cancel(id: string): Promise<JobView> {
    const run = this.#running.get(id);
    if (run) {
      run.canceled = true;
      await run.done;
    }
    return this.view(id);
  }

  async close(): Promise<void> {
    for (const run of this.#running.values()) run.canceled = true;
    await Promise.all([...this.#running.values()].map(({ done }) => done));
  }

  async #run(run: { view: JobView; canceled: boolean }, plan: JobPlan, trace: Trace): Promise<void> {
    const { ports, recorder } = this.#core;
    const count = (field: 'matched' | (typeof counters)[StepResult]) => {
      run.view = { ...run.view, [field]: run.view[field] + 1 };
    };
    let ended: Pick<JobView, 'state' | 'error'> = { state: 'DONE', error: null };
    try {
      for await (const step of plan.steps) {
        if (run.canceled) break;
        count('matched');
        count(counters[await step(run.view.id)]);
        if (run.view.matched % writeEvery === 0) await this.#write(run.view, plan, trace);
        await this.#pause(1000 / plan.ratePerS);
      }
      if (run.canceled) ended = { state: 'CANCELED', error: null };
    } catch (error) {
      ports.log.error({ err: error, job: run.view.id }, 'a job failed');
      ended = { state: 'FAILED', error: error instanceof Error ? error.message : String(error) };
    }
    run.view = { ...run.view, ...ended, ended_at: recorder.instant() };
    await this.#write(run.view, plan, trace).catch((error: unknown) =>
      ports.log.error({ err: error, job: run.view.id }, 'could not record the end of a job'),
    );
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#core.ports.clock.setTimeout(() => resolve(), ms));
  }

  async #write(view: JobView, { shardOf }: JobPlan, trace: Trace): Promise<void> {
    const { recorder } = this.#core;
    const { id, kind, state, started_at: upd } = view;
    const type = state === 'RUNNING' ? ('job.started' as const) : ('job.ended' as const);
    const put: Put = { kind: 'jobs', owner: '', id, shelf: 'jobs', upd, data: view, body: null };
    const facts = [{ stream: `job:${id}`, event: { type, data: { id, kind, state } }, party: null }];
    await recorder.record({ shardOf, facts, puts: [put], trace, at: recorder.instant() });
  }
}
