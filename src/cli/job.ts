/**
 * Watches what the hub does until it ends: a progress line on a terminal, lines elsewhere. Ctrl-C asks the hub to cancel
 * a job.
 */
import type { JobView } from '../api/jobs.ts';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { Failure } from './client.ts';
import type { Screen } from './screen.ts';
import type { Context } from './verb.ts';

const lookEveryMs = 300;

/** Looks until it is no longer RUNNING; meanwhile shows it in `words`. Returns what was seen last. */
export async function watched<T extends { readonly state: string }>(
  screen: Pick<Screen, 'progress'>,
  first: T,
  look: () => Promise<T>,
  words: (now: T) => string,
): Promise<T> {
  const progress = screen.progress();
  let now = first;
  try {
    for (; now.state === 'RUNNING'; now = await look()) {
      progress.show(0, 0, words(now));
      await sleep(systemClock, lookEveryMs);
    }
  } finally {
    progress.end();
  }
  return now;
}

/** `total` is the count of the dry run, 0 when there was none. Throws a `Failure` when the job does not end as DONE. */
export async function watchJob({ hub, screen }: Context, started: JobView, total: number): Promise<void> {
  const path = `/redrives/${encodeURIComponent(started.id)}`;
  const progress = screen.progress();
  let job = started;
  let canceling = false;
  const cancel = () => {
    canceling = true;
  };
  const unseen = (error: unknown) => {
    // What refuses this look refuses `jobs show`, too.
    if (!(error instanceof Failure && error.isAway)) throw error;
    const { message, status, isAway } = error;
    const then = `the job ${started.id} has begun, and ocpi-hub jobs show ${started.id} shows how far it came`;
    throw new Failure(`${message}; ${then}`, { status, isAway });
  };
  process.on('SIGINT', cancel);
  try {
    for (
      ;
      job.state === 'RUNNING';
      job = await (canceling ? hub.send<JobView>('DELETE', path) : hub.get<JobView>(path)).catch(unseen)
    ) {
      progress.show(job.matched, total, wordsOf(job, total));
      if (!canceling) await sleep(systemClock, lookEveryMs);
    }
    progress.show(job.matched, Math.max(total, job.matched), wordsOf(job, total));
  } finally {
    progress.end();
    process.off('SIGINT', cancel);
  }
  screen.answer(job, ended);
  if (job.state === 'DONE' && job.queued === 0) screen.say(nothingOf(job));
  if (job.state !== 'DONE')
    throw new Failure([`the job ${job.id} ended ${job.state}`, job.error ?? nextOf(job)].filter(Boolean).join(': '));
}

/** What to do about a job that the end of the hub, or of the owner, cut off; null for others. */
export const nextOf = ({ state }: JobView): string | null =>
  state === 'INTERRUPTED' ? 'start it again for the rest; what it did last may not be counted' : null;

function wordsOf({ matched }: JobView, total: number): string {
  return total > 0 ? `${matched} of ${total}` : `${matched} so far`;
}

function nothingOf({ kind, matched }: JobView): string {
  const why = matched === 0 ? 'nothing matches' : 'every delivery that matches was skipped';
  return `Nothing was ${kind === 'discard' ? 'discarded' : 're-driven'}: ${why}.`;
}

const whyStale =
  'the receiver has a newer version, or may no longer have the object (--force sends it all the same, ocpi-hub discard gives it up)';
const whyNotSent = "deleted or changed meanwhile, or a person's names in the object were erased";

function ended({ id, kind, queued, skipped_stale, skipped_pending, skipped_unregistered }: JobView): string[] {
  if (kind === 'discard') return [`${queued} discarded by job ${id}`];
  const skipped = [
    ...(skipped_stale > 0 ? [`${skipped_stale} skipped: ${kind === 'resync' ? whyNotSent : whyStale}`] : []),
    ...(skipped_pending > 0 ? [`${skipped_pending} skipped: on their way already`] : []),
    ...(skipped_unregistered > 0
      ? [`${skipped_unregistered} skipped: the receiver is not registered, so nothing can be sent to it`]
      : []),
  ];
  return [`${queued} re-driven by job ${id}; ocpi-hub deliveries list shows how they go`, ...skipped];
}
