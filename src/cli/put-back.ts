/**
 * Puts deliveries back into their lanes by filter, for `redrive` and `replay`: a dry run counts them, the user
 * confirms, and the command watches the job.
 *
 * PUT-BACK-1  Nothing is put back before its counts were printed and a person confirmed, on the terminal or by `--yes`.
 */
import type { DeliveryView } from '../api/deliveries.ts';
import type { JobView, RedrivePlan } from '../api/jobs.ts';
import { Failure } from './client.ts';
import { watchJob } from './job.ts';
import { type Column, type Page, table } from './table.ts';
import type { Context } from './verb.ts';

export interface PutBackFlags {
  readonly dryRun?: boolean;
  readonly rate?: number;
  readonly force?: boolean;
  readonly yes?: boolean;
  readonly routing?: string;
}

/** How many sample deliveries are printed at most below the counts. */
const sampleShown = 5;

const receiverColumns: readonly Column<readonly [receiver: string, count: number]>[] = [
  { title: 'receiver', of: ([receiver]) => receiver },
  { title: 'deliveries', of: ([, count]) => count, align: 'right' },
];

const sampleColumns: readonly Column<DeliveryView>[] = [
  { title: 'for example', of: ({ id }) => id },
  { title: 'state', of: ({ state }) => state },
  { title: 'what', of: ({ method, module, object }) => `${method} ${module} ${object}`, shrinksTo: 16 },
  { title: 'why', of: ({ reason }) => reason ?? '', shrinksTo: 12 },
];

export async function putBack(context: Context, filter: object, flags: PutBackFlags): Promise<void> {
  const { hub, screen } = context;
  const { dryRun = false, rate, force = false, yes = false, routing } = flags;
  const asked = {
    filter,
    force,
    ...(rate !== undefined && { rate_per_s: rate }),
    ...(routing !== undefined && { routing }),
  };
  const plan = await hub.send<RedrivePlan>('POST', '/redrive', { ...asked, dry_run: true });
  if (dryRun && screen.isJson) return screen.json(plan);
  if (!screen.isJson) screen.lines(counts(plan, force, screen.page));
  if (plan.matched === 0) {
    screen.say('Nothing was re-driven. ocpi-hub deliveries list --state DEAD shows what could be.');
    if (screen.isJson) screen.json(plan);
    return;
  }
  if (dryRun) return screen.say('Dry run: nothing was re-driven.');
  if (!yes && !screen.isAnswerable) {
    throw new Failure('nothing was re-driven: give --yes to re-drive them, or run it on a terminal to be asked', {
      exitCode: 2,
    });
  }
  if (!yes && !(await screen.ask(`Re-drive ${plan.matched}?`))) throw new Failure('nothing was re-driven');
  await watchJob(context, await hub.send<JobView>('POST', '/redrive', { ...asked, dry_run: false }), plan.matched);
}

function counts({ matched, by_receiver, stale, sample }: RedrivePlan, force: boolean, page: Page): string[] {
  const receivers = Object.entries(by_receiver).sort(([, a], [, b]) => b - a);
  const guarded = force ? 'will be sent all the same (--force)' : 'will be skipped: the receiver has a newer version';
  return [
    `${matched} matched, ${stale} of them stale${stale > 0 ? ` and ${guarded}` : ''}`,
    ...(matched > 0 ? ['', ...table(receiverColumns, receivers, page)] : []),
    ...(sample.length > 0 ? ['', ...table(sampleColumns, sample.slice(0, sampleShown), page)] : []),
  ];
}
