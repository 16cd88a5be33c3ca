/** `ocpi-hub jobs`: prints re-drives, replays, resyncs and discards, running and ended, and cancels them. */
import type { Command } from 'commander';
import type { JobView } from '../api/jobs.ts';
import { jobIds, kinds, pathOf } from './complete.ts';
import { nextOf } from './job.ts';
import { type Column, fields, type Page, when } from './table.ts';
import { count, noun, verb } from './verb.ts';

const columns: readonly Column<JobView>[] = [
  { title: 'id', of: ({ id }) => id },
  { title: 'kind', of: ({ kind }) => kind },
  { title: 'state', of: ({ state }) => state, colour: ({ state }) => (state === 'DONE' ? 'green' : 'yellow') },
  { title: 'done', of: ({ queued }) => queued, align: 'right' },
  { title: 'skipped', of: skipped, align: 'right' },
  { title: 'started', of: ({ started_at }, now) => when(started_at, now), shrinksTo: 20 },
  { title: 'ended', of: ({ ended_at }, now) => when(ended_at, now), shrinksTo: 20 },
];

export function command(): Command {
  return noun('jobs', 're-drives, replays, resyncs and discards', [
    verb<{ limit?: number }>({
      usage: 'list',
      summary: 'list jobs, newest first',
      options: [['--limit <count>', 'how many (default: 20)', count]],
      examples: ['jobs', 'jobs list --limit 5'],
      run: async ({ hub, screen }, _args, { limit = 20 }) => {
        const ids = (await jobIds(hub)).reverse().slice(0, limit);
        const items = await Promise.all(ids.map((id) => hub.get<JobView>(`/redrives/${encodeURIComponent(id)}`)));
        screen.list(
          { items, next_cursor: null },
          columns,
          'No job yet. ocpi-hub redrive --help says how to start one.',
        );
      },
    }),
    verb({
      usage: 'show <id>',
      summary: 'show how a job goes; the beginning of its id suffices',
      examples: ['jobs show 7f3a'],
      run: async ({ hub, screen }, [given = '']) => {
        screen.answer(await hub.get<JobView>(await pathOf(hub, kinds.job, given)), job);
      },
    }),
    verb({
      usage: 'cancel <id>',
      summary: 'end a job; what it has done stays done',
      examples: ['jobs cancel 7f3a'],
      run: async ({ hub, screen }, [given = '']) => {
        screen.answer(await hub.send<JobView>('DELETE', await pathOf(hub, kinds.job, given)), job);
      },
    }),
  ]);
}

function skipped({ skipped_stale, skipped_pending, skipped_unregistered }: JobView): number {
  return skipped_stale + skipped_pending + skipped_unregistered;
}

function job(item: JobView, page: Page): string[] {
  const { paint, now } = page;
  return fields(page, [
    ['job', paint('bold', item.id)],
    ['kind', item.kind],
    ['state', item.state],
    ['next', nextOf(item)],
    [item.kind === 'discard' ? 'discarded' : 're-driven', String(item.queued)],
    [
      'skipped',
      `${item.skipped_stale} stale, ${item.skipped_pending} on their way, ${item.skipped_unregistered} of receivers that are not registered`,
    ],
    ['started', when(item.started_at, now)],
    ['ended', when(item.ended_at, now)],
    ['error', item.error],
  ]);
}
