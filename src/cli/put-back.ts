/**
 * Puts deliveries back into their lanes by filter, for `redrive` and `replay`, or gives them up, for `discard`: a dry run
 * counts them, the user confirms, and the command watches the job.
 *
 * PUT-BACK-1  Nothing is done before its counts were printed and a person confirmed, on the terminal or by `--yes`; and
 *     nothing that was accepted after the count.
 */
import type { DeliveryView } from '../api/deliveries.ts';
import type { DiscardPlan, JobView, RedrivePlan } from '../api/jobs.ts';
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

/** Whether one delivery is named, else a filter is given. Throws a `Failure` when both are, or neither. */
export function namesOne(
  given: string | undefined,
  filter: object,
  { dryRun, rate }: Pick<PutBackFlags, 'dryRun' | 'rate'>,
  hint = '',
): given is string {
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  if (given === undefined && !isFiltered) {
    throw new Failure(`expected a delivery id or a filter${hint}`, { exitCode: 2 });
  }
  if (given !== undefined && (isFiltered || dryRun || rate !== undefined)) {
    throw new Failure('a delivery id excludes filters, --dry-run and --rate', { exitCode: 2 });
  }
  return given !== undefined;
}

export async function putBack(context: Context, filter: object, flags: PutBackFlags): Promise<void> {
  const { rate, force = false, routing } = flags;
  const guarded = force
    ? 'will be sent all the same (--force)'
    : 'will be skipped: the receiver has a newer version, or may no longer have the object';
  const asked = { filter, force, rate_per_s: rate, routing };
  await plannedJob<RedrivePlan>(context, flags, asked, {
    path: '/redrive',
    verb: 're-drive',
    done: 're-driven',
    also: ({ stale, unregistered }) =>
      `, ${stale} of them stale${stale > 0 ? ` and ${guarded}` : ''}` +
      (unregistered > 0 ? `, ${unregistered} for receivers that are not registered, and will be skipped` : ''),
  });
}

export function giveUp(context: Context, filter: object, flags: Pick<PutBackFlags, 'dryRun' | 'yes'>): Promise<void> {
  const act = { path: '/discard', verb: 'discard', done: 'discarded', also: () => '' } as const;
  return plannedJob<DiscardPlan>(context, flags, { filter }, act);
}

interface Act<Plan> {
  readonly path: '/redrive' | '/discard';
  readonly verb: string;
  readonly done: string;
  /** What the first line says behind the number. */
  also(plan: Plan): string;
}

/** [PUT-BACK-1] */
async function plannedJob<Plan extends DiscardPlan>(
  context: Context,
  { dryRun = false, yes = false }: Pick<PutBackFlags, 'dryRun' | 'yes'>,
  asked: { readonly filter: { readonly state?: string } },
  { path, verb, done, also }: Act<Plan>,
): Promise<void> {
  const { hub, screen } = context;
  const plan = await hub.send<Plan>('POST', path, { ...asked, dry_run: true });
  if (!screen.isJson) screen.lines(counts(plan, also(plan), screen.page));
  else if (dryRun || plan.matched === 0) screen.json(plan);
  if (plan.matched === 0) {
    const { state = 'DEAD' } = asked.filter;
    const listed = state === 'ANY' ? 'list' : `list --state ${state}`;
    return screen.say(`Nothing matches: nothing was ${done}. ocpi-hub deliveries ${listed} shows what could be.`);
  }
  if (dryRun) return screen.say(`Dry run: nothing was ${done}.`);
  if (!yes && !screen.isAnswerable) {
    throw new Failure(`nothing was ${done}: give --yes to ${verb} them, or run it on a terminal to be asked`, {
      exitCode: 2,
    });
  }
  const question = `${verb[0]?.toUpperCase()}${verb.slice(1)} ${plan.matched}?`;
  if (!yes && !(await screen.ask(question))) throw new Failure(`nothing was ${done}`);
  // What comes later is not in what was confirmed.
  const confirmed = { ...asked, filter: { ...asked.filter, to_seq: plan.to_seq }, dry_run: false };
  await watchJob(context, await hub.send<JobView>('POST', path, confirmed), plan.matched);
}

function counts({ matched, by_receiver, sample }: DiscardPlan, also: string, page: Page): string[] {
  const receivers = Object.entries(by_receiver).sort(([, a], [, b]) => b - a);
  return [
    `${matched} matched${also}`,
    ...(matched > 0 ? ['', ...table(receiverColumns, receivers, page)] : []),
    ...(sample.length > 0 ? ['', ...table(sampleColumns, sample.slice(0, sampleShown), page)] : []),
  ];
}
