/**
 * Runs the backups that operators start, one at a time. [interface, Admin backup]
 *
 * BACKUPS-1  A backup that cannot begin is refused at once with a reason. One that has begun is a job with progress and
 *     records its start and end as events.
 * BACKUPS-2  Closing the hub aborts the backup: nothing exists under its name then, and it is shown as INTERRUPTED.
 */
import type { Put } from '../../../storage/contract.ts';
import type { BackupView } from '../../api/hub.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import type { Context } from '../kernel/context.ts';
import { listed, rowData } from '../kernel/row-codecs.ts';
import type { BackupVerbs } from '../ports/operator.ts';

interface Run {
  view: BackupView;
  readonly stop: AbortController;
  ended: Promise<void>;
}

export class Backups implements BackupVerbs {
  readonly #context: Context;
  #run: Run | null = null;

  constructor(context: Context) {
    this.#context = context;
  }

  async startBackup(directory: string, trace: Trace): Promise<BackupView> {
    if (this.#run)
      throw new HubError('conflict', { message: `a backup into ${this.#run.view.directory} is being made` });
    const { ports, recorder } = this.#context;
    const view: BackupView = {
      id: ports.secrets.newId(),
      directory,
      state: 'RUNNING',
      step: 'copying',
      records: 0,
      bytes: null,
      sequence: null,
      sealed_for: null,
      started_at: recorder.instant(),
      ended_at: null,
      error: null,
    };
    const run: Run = { view, stop: new AbortController(), ended: Promise.resolve() };
    this.#run = run;
    try {
      // The store checks before the first progress whether the backup is possible: an error up to then is the caller's.
      await new Promise<void>((begun, refused) => {
        run.ended = this.#make(run, begun).then(begun, refused);
      });
      await this.#write(run.view, trace);
    } catch (error) {
      run.stop.abort();
      await run.ended;
      this.#run = null;
      throw refusalOf(error);
    }
    run.ended = run.ended.then(() => this.#end(run, trace));
    return run.view;
  }

  async backup(id: string): Promise<BackupView> {
    if (this.#run?.view.id === id) return this.#run.view;
    const view = await rowData<BackupView>(this.#context.store, { kind: 'backups', owner: '', id });
    if (!view) throw new HubError('notFound');
    // Backups of an earlier version say nothing of a key.
    const known = { ...view, sealed_for: view.sealed_for ?? null };
    return view.state === 'RUNNING' ? { ...known, state: 'INTERRUPTED', step: null } : known;
  }

  async lastBackup(): Promise<string | null> {
    let last: string | null = null;
    for await (const { data } of this.#context.store.scan('backups')) {
      const { state, ended_at: at } = data as BackupView;
      if (state === 'DONE' && at !== null && (last === null || at > last)) last = at;
    }
    return last;
  }

  async close(): Promise<void> {
    this.#run?.stop.abort();
    await this.#run?.ended;
  }

  /** Rejects only when the backup could not begin; a later failure is in the view. */
  async #make(run: Run, begun: () => void): Promise<void> {
    const { store, ports } = this.#context;
    let isBegun = false;
    const progress = (step: 'copying' | 'verifying', records: number) => {
      isBegun = true;
      begun();
      run.view = { ...run.view, step, records };
    };
    try {
      const made = await store.backup(run.view.directory, { progress, signal: run.stop.signal });
      const { head, bytes, records, sealed_for = null } = made;
      run.view = { ...run.view, state: 'DONE', step: null, records, bytes, sequence: head, sealed_for };
    } catch (error) {
      if (!isBegun) throw error;
      const state = run.stop.signal.aborted ? 'INTERRUPTED' : 'FAILED';
      run.view = { ...run.view, state, step: null, error: error instanceof Error ? error.message : String(error) };
      ports.log.error({ err: error, backup: run.view.id }, 'a backup failed');
    }
  }

  async #end(run: Run, trace: Trace): Promise<void> {
    const { recorder, ports } = this.#context;
    run.view = { ...run.view, ended_at: recorder.instant() };
    await this.#write(run.view, trace).catch((error: unknown) =>
      ports.log.error({ err: error, backup: run.view.id }, 'could not record the end of a backup'),
    );
    this.#run = null;
  }

  async #write(view: BackupView, trace: Trace): Promise<void> {
    const { recorder } = this.#context;
    const type = view.state === 'RUNNING' ? ('backup.started' as const) : ('backup.ended' as const);
    const facts = [{ stream: `backup:${view.id}`, event: { type, data: { ...view } }, party: null }];
    await recorder.record({ facts, puts: [backupRow(view)], trace });
  }
}

export function backupRow(view: BackupView): Put {
  return listed('backups', view.id, view.started_at, view);
}

function refusalOf(error: unknown): unknown {
  if (error instanceof HubError || !(error instanceof Error)) return error;
  if (error.name === 'StoreUnavailable') return new HubError('unavailable', { message: error.message, retryAfterS: 1 });
  return new HubError('invalid', { message: error.message });
}
