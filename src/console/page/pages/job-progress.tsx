/** Progress and result of a re-drive, resync or discard. */
import { useEffect } from 'preact/hooks';
import type { JobView } from '../../../api/jobs.ts';
import { useAction } from '../data/action.ts';
import { type ApiError, call } from '../data/api.ts';
import { count, many } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { mayAct } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Since } from '../parts/time.tsx';

interface JobProgressProps {
  readonly id: string;
  /** Count of the dry run; null when the address has none. */
  readonly of: number | null;
  readonly onEnd?: () => void;
  readonly onClose: () => void;
}

/** A job that has ended, or is not there, is not asked for again. */
const untilEnd = (job: JobView | undefined, error: ApiError | null) =>
  (job === undefined || job.state === 'RUNNING') && error?.status !== 404 ? 500 : 0;
const titles: Readonly<Record<JobView['kind'], string>> = {
  redrive: 'Re-drive',
  resync: 'Progress of the resync',
  discard: 'Discard',
};

export function JobProgress({ id, of, onEnd, onClose }: JobProgressProps) {
  const path = `/redrives/${encodeURIComponent(id)}`;
  const { data: job, error, reload } = useQuery<JobView>(path, untilEnd);
  const isRunning = job?.state === 'RUNNING';
  const isEnded = job !== undefined && !isRunning;
  useEffect(() => {
    if (isEnded) onEnd?.();
    // Runs once, when the job ends, and not for each new `onEnd`.
  }, [isEnded]);
  const cancel = useAction(async () => {
    await call('DELETE', path);
    reload();
    return null;
  });
  return (
    <section class="card redrive" aria-labelledby="redrive">
      <header>
        <div class="row">
          <h2 id="redrive">{titles[job?.kind ?? 'redrive']}</h2>
          {job && <Badge state={job.state} />}
          {job && <Since instant={job.started_at} />}
        </div>
        {isRunning && mayAct.value && (
          <button type="button" disabled={cancel.isRunning} onClick={() => cancel.run()}>
            Cancel
          </button>
        )}
        {(isEnded || error) && (
          <button type="button" class="plain" onClick={onClose}>
            Dismiss
          </button>
        )}
      </header>
      <div class="inside stack">
        {isRunning && <Bar done={job.matched} of={of} />}
        <p role="status">{job ? resultOf(job, of) : error ? notFound(error.status, error.message) : 'Looking …'}</p>
      </div>
    </section>
  );
}

function Bar({ done, of }: { done: number; of: number | null }) {
  return <progress aria-label="How far it is" {...(of !== null && { max: Math.max(of, done), value: done })} />;
}

const notFound = (status: number, message: string) =>
  status === 404 ? 'The hub knows no such job.' : `Could not ask how it goes: ${message}`;

function resultOf(job: JobView, of: number | null): string {
  return [beginnings[job.state](job, of), ...skipped(job)].join(' ');
}

const deliveries = (number: number) => many(number, 'delivery', 'deliveries');
const outOf = ({ matched }: JobView, of: number | null) =>
  of === null ? deliveries(matched) : `${count(matched)} of ${deliveries(of)}`;

const verbs: Readonly<Record<JobView['kind'], string>> = {
  redrive: 're-driven',
  resync: 'put in line',
  discard: 'discarded',
};
const verbOf = ({ kind }: JobView) => verbs[kind];
const done = (job: JobView) => `${count(job.queued)} ${verbOf(job)}`;

const beginnings: Readonly<Record<JobView['state'], (job: JobView, of: number | null) => string>> = {
  RUNNING: (job, of) => `${outOf(job, of)} examined, ${done(job)}.`,
  DONE: (job) => (job.matched === 0 ? 'Done: nothing was found.' : `Done: ${deliveries(job.queued)} ${verbOf(job)}.`),
  CANCELED: (job, of) => `Cancelled after ${outOf(job, of)}: ${done(job)}; the others are unchanged.`,
  INTERRUPTED: (job, of) => `The hub was restarted after ${outOf(job, of)}: ${done(job)}. Start again for the rest.`,
  FAILED: (job, of) => `It failed after ${outOf(job, of)}, ${done(job)}: ${job.error ?? 'no reason given'}.`,
};

function skipped({ skipped_stale, skipped_pending, skipped_unregistered }: JobView): string[] {
  const reasons = [
    [skipped_stale, 'left out, because the receiver has a newer version, or may no longer have the object.'],
    [skipped_pending, 'on the way already.'],
    [skipped_unregistered, 'left out, because the receiver is not registered.'],
  ] as const;
  return reasons.flatMap(([number, reason]) => (number === 0 ? [] : [`${count(number)} ${reason}`]));
}
