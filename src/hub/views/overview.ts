/**
 * Overview for pages that poll: one row per partner, and totals of actors, commands, cases and store health.
 *
 * VIEWS-OVERVIEW-1  The overview is computed at most once per `freshMs`, for any number of readers.
 * VIEWS-OVERVIEW-2  A reader that sends its revision gets only the rows that have changed since.
 * VIEWS-OVERVIEW-3  A row holds instants, not ages, so the row of an idle partner does not change.
 */
import type { OverviewRow, OverviewTotals } from '../../api/overview.ts';
import { instantText } from '../../domain/instant.ts';
import { keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import { isSnoozed } from '../../domain/triage.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { OrphanCases } from '../exchange/orphan-cases.ts';
import type { Context } from '../kernel/context.ts';
import type { DeadGroups } from '../maintain/dead-groups.ts';
import type { Retention } from '../maintain/retention.ts';
import type { Notifier } from '../notify/notifier.ts';
import type { Operations } from '../ports/operator.ts';
import { actorCounts } from './actor-feed.ts';

const freshMs = 1_000;
/** A delivery that is due and not blocked is overdue after this long, ms: four times the default attempt time-out. */
export const overdueAfterMs = 60_000;

/** Fields of a row that change without the partner's record; `oldestAt` and `silentSince` are hub time. */
type Moving = Pick<
  OverviewRow,
  | 'sync'
  | 'results'
  | 'async'
  | 'depth'
  | 'behind'
  | 'dead'
  | 'dead_snoozed'
  | 'overdue'
  | 'delivered'
  | 'received'
  | 'last_error'
> & {
  readonly oldestAt: number | null;
  readonly silentSince: number | null;
};

interface Entry {
  readonly partner: Partner;
  readonly moving: Moving;
  readonly row: OverviewRow;
  /** Revision in which the row last changed. */
  readonly since: number;
}

export function overview(
  context: Context,
  dispatcher: Dispatcher,
  retention: Pick<Retention, 'held'>,
  matters: {
    readonly groups: Pick<DeadGroups, 'snoozed'>;
    readonly orphans: Pick<OrphanCases, 'openCases'>;
    readonly notifier: Pick<Notifier, 'failing'>;
  },
): Pick<Operations, 'overview'> {
  const { directory, supervisor, circuits, contacts, ports, store } = context;
  /** Prefix of revisions: those of another start of the process are not comparable, and get all rows. */
  const start = ports.clock.now().toString(36);
  const entries = new Map<PartyId, Entry>();
  let revision = 0;
  let made: { readonly at: number; readonly totals: OverviewTotals } | null = null;

  function refreshed(now: number): OverviewTotals {
    if (made && Math.abs(now - made.at) < freshMs) return made.totals;
    revision++;
    const snoozed = matters.groups.snoozed();
    for (const partner of directory.partners()) refresh(partner, now, snoozed.get(partner.id) ?? 0);
    made = { at: now, totals: totalsOf() };
    return made.totals;
  }

  function refresh(partner: Partner, now: number, snoozed: number): void {
    const before = entries.get(partner.id);
    const moving = movingOf(partner, now, snoozed);
    if (before?.partner === partner && isSame(before.moving, moving)) return;
    const { oldestAt, silentSince, ...others } = moving;
    const shown = (at: number | null) => (at === null ? null : instantText(ports.clock.stamp(at)));
    const row = { ...standing(partner), ...others, oldest_at: shown(oldestAt), silent_since: shown(silentSince) };
    entries.set(partner.id, { partner, moving, row, since: revision });
  }

  /** Plain literals without spread, for speed: it runs once a second for every partner. */
  function movingOf(partner: Partner, now: number, dead_snoozed: number): Moving {
    const { id } = partner;
    const { depth, oldestAt, dead, delivered, behind } = dispatcher.backlog(id);
    return {
      sync: circuits.state(id, 'sync'),
      results: circuits.state(id, 'results'),
      async: circuits.worst(id),
      depth,
      oldestAt,
      dead,
      dead_snoozed,
      delivered,
      behind,
      overdue: depth > 0 || behind ? dispatcher.overdue(id, now - overdueAfterMs) : 0,
      received: contacts.received(id),
      silentSince: contacts.silentSince(partner, now),
      last_error: contacts.lastError(id),
    };
  }

  function snoozedCases(): number {
    const now = context.recorder.instant();
    let found = 0;
    for (const { triage } of matters.orphans.openCases()) if (isSnoozed(triage, now)) found++;
    return found;
  }

  function totalsOf(): OverviewTotals {
    const { counts, quarantined } = actorCounts(supervisor);
    const watches = [counts['orphan-stop'] ?? {}, counts['orphan-cdr'] ?? {}];
    const { state: storeState, reason } = store.health();
    return {
      partners: entries.size,
      commands: counts.command ?? {},
      watches: watches.reduce((sum, { grace = 0, due = 0 }) => sum + grace + due, 0),
      open_cases: watches.reduce((sum, { open = 0 }) => sum + open, 0),
      snoozed_cases: snoozedCases(),
      quarantined,
      store: { state: storeState, reason },
      untold: matters.notifier.failing(),
      log_held: retention.held(),
    };
  }

  return {
    overview(after) {
      const now = ports.clock.now();
      const totals = refreshed(now);
      const [ofStart, known] = after?.split('.') ?? [];
      const since = ofStart === start ? Number(known) : Number.NaN;
      const all = [...entries.values()];
      const changed = Number.isInteger(since) ? all.filter((entry) => entry.since > since) : all;
      return {
        revision: `${start}.${revision}`,
        full: changed === all,
        at: instantText(ports.clock.wall()),
        rows: changed.map(({ row }) => row),
        totals,
      };
    },
  };
}

/** Fields of a row that change only with the partner's record. */
function standing({ id, status, roles, settings, hostChange }: Partner) {
  return {
    id,
    status,
    paused: settings.paused,
    host_change: hostChange ?? null,
    parties: [...new Set(roles.map(keyOf))],
    names: [...new Set(roles.flatMap(({ business_details }) => business_details?.name ?? []))],
    roles: [...new Set(roles.map(({ role }) => role))],
  };
}

const isSame = (a: Moving, b: Moving): boolean =>
  (Object.keys(a) as (keyof Moving)[]).every((name) => a[name] === b[name]);
