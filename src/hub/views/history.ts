/**
 * What passed between the hub and its partners, as operators read it: minutes of the last 24 h, hours of the last 90 days,
 * and the days of a month.
 *
 * VIEWS-HISTORY-1  A point that is shown is the sum of what was recorded, whether its hour was written meanwhile or not.
 * VIEWS-HISTORY-2  The availability of a partner is a share of the time that the hub watched, from the first point of the
 *     partner on: neither time in which no hub ran nor the time before the partner came counts.
 */
import type {
  HistoryPoint,
  HistoryRange,
  HistoryView,
  MonthlyReport,
  PartnerHistory,
  PartnerPoint,
} from '../../api/history.ts';
import {
  type DayRecord,
  type HourRecord,
  nothing,
  type Point,
  percentile,
  pointOf,
  type Step,
  sumOf,
} from '../../domain/history.ts';
import { instantText } from '../../domain/instant.ts';
import type { Partner } from '../../domain/party.ts';
import { dayMs, hourMs, minuteMs } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import { type History, hoursKeptDays, hoursKind, hubOwner, minutesKind } from '../maintain/history.ts';

type Recorded = Pick<History, 'open' | 'minutesOf'>;
/** By begin, epoch ms. */
type Points = Map<number, Point>;

interface Span {
  readonly from: number;
  readonly to: number;
}

const sizes: Readonly<Record<Step, number>> = { minute: minuteMs, hour: hourMs };
const keptMs: Readonly<Record<Step, number>> = { minute: dayMs, hour: hoursKeptDays * dayMs };

/** Of the whole hub. */
export async function historyOf(context: Context, recorded: Recorded, range: HistoryRange): Promise<HistoryView> {
  const span = spanOf(context, range);
  const points = await pointsOf(context, recorded, hubOwner, range.step, span);
  return { ...headOf(range, span), points: inOrder(points).map(([at, point]) => hubPoint(at, point)) };
}

/** Throws `notFound`. */
export async function partnerHistoryOf(
  context: Context,
  recorded: Recorded,
  id: string,
  range: HistoryRange,
): Promise<PartnerHistory> {
  const partner = context.directory.known(id);
  const span = spanOf(context, range);
  const points = await partnerPoints(context, recorded, partner, range.step, span);
  const shown = points.map(([at, point]) => partnerPoint(at, point));
  return { party: partner.id, ...headOf(range, span), points: shown };
}

/** The report of a month `2026-10`, UTC. Throws `notFound`. */
export async function monthlyReportOf(
  context: Context,
  recorded: Recorded,
  id: string,
  month: string,
): Promise<MonthlyReport> {
  const partner = context.directory.known(id);
  const from = Date.parse(`${month}-01T00:00:00Z`);
  const begin = new Date(from);
  const to = Date.UTC(begin.getUTCFullYear(), begin.getUTCMonth() + 1);
  const earliest = context.ports.clock.wall() - keptMs.hour;
  const points = await partnerPoints(context, recorded, partner, 'hour', { from: Math.max(from, earliest), to });
  const days = new Map<string, Point[]>();
  for (const [at, point] of points) {
    const day = instantText(at).slice(0, 10);
    days.set(day, [...(days.get(day) ?? []), point]);
  }
  const names = partner.roles.flatMap(({ business_details }) => business_details?.name ?? []);
  return {
    party: partner.id,
    names: [...new Set(names)],
    month,
    from: instantText(from),
    to: instantText(to),
    total: totalOf(points.map(([, point]) => point)),
    days: [...days].map(([day, hours]) => ({ day, ...totalOf(hours) })),
  };
}

const headOf = ({ step }: HistoryRange, { from, to }: Span) => ({
  step,
  from: instantText(from),
  to: instantText(to),
});

/** What is kept of what is asked. */
function spanOf({ ports }: Context, { step, from, to }: HistoryRange): Span {
  const now = ports.clock.wall();
  const earliest = now - keptMs[step];
  const asked = from === undefined ? earliest : Math.max(Date.parse(from), earliest);
  return { from: asked, to: Math.max(asked, to === undefined ? now : Date.parse(to)) };
}

/** Points of a partner, each with the time for which the hub watched. [VIEWS-HISTORY-2] */
async function partnerPoints(
  context: Context,
  recorded: Recorded,
  { id }: Partner,
  step: Step,
  span: Span,
): Promise<[number, Point][]> {
  const hours = await pointsOf(context, recorded, id, 'hour', { from: 0, to: Number.POSITIVE_INFINITY });
  const first = Math.min(...hours.keys());
  const own = step === 'hour' ? within(hours, step, span) : await pointsOf(context, recorded, id, step, span);
  const hub = await pointsOf(context, recorded, hubOwner, step, span);
  const all: Points = new Map();
  for (const at of [...hub.keys(), ...own.keys()]) {
    if (at >= first) all.set(at, { ...(own.get(at) ?? nothing), watched: hub.get(at)?.watched ?? 0 });
  }
  return inOrder(all);
}

/** [VIEWS-HISTORY-1] */
async function pointsOf(context: Context, recorded: Recorded, owner: string, step: Step, span: Span): Promise<Points> {
  // Before the rows: an hour that is written meanwhile is then in both.
  const open = recorded.open(owner);
  const points = await rowsOf(context, owner, step);
  if (step === 'minute') for (const [at, point] of open) points.set(at, point);
  else {
    for (const hour of new Set([...open.keys()].map((at) => at - (at % hourMs)))) {
      points.set(hour, sumOf((await recorded.minutesOf(owner, hour)).values()));
    }
  }
  return within(points, step, span);
}

async function rowsOf({ store }: Context, owner: string, step: Step): Promise<Points> {
  const points: Points = new Map();
  for await (const { data } of store.scan(step === 'minute' ? minutesKind : hoursKind, owner)) {
    const record = data as HourRecord | DayRecord;
    for (const [nth, point] of Object.entries('minutes' in record ? record.minutes : record.hours)) {
      points.set(Date.parse(record.at) + Number(nth) * sizes[step], pointOf(point));
    }
  }
  return points;
}

/** The points that end after the begin of the span and begin before its end. */
function within(points: Points, step: Step, { from, to }: Span): Points {
  return new Map([...points].filter(([at]) => at + sizes[step] > from && at < to));
}

const inOrder = (points: Points): [number, Point][] => [...points].sort(([a], [b]) => a - b);

function sumsOf(point: Point): Omit<HistoryPoint, 'at'> {
  const { pushes, deliveries, errors } = point;
  return {
    pushes,
    deliveries,
    errors,
    latency_p50_ms: percentile(point, 0.5),
    latency_p95_ms: percentile(point, 0.95),
  };
}

const hubPoint = (at: number, point: Point): HistoryPoint => ({ at: instantText(at), ...sumsOf(point) });

const partnerPoint = (at: number, point: Point): PartnerPoint => {
  return { ...hubPoint(at, point), availability: availabilityOf(point) };
};

/** To 0.01 %, downwards, so that 1 says that it was never down. */
function availabilityOf({ down, watched }: Point): number | null {
  return watched === 0 ? null : Math.floor(Math.max(0, 1 - down / watched) * 10_000) / 10_000;
}

function totalOf(hours: readonly Point[]): MonthlyReport['total'] {
  const sum = sumOf(hours);
  return { ...sumsOf(sum), availability: availabilityOf(sum), hours: hours.length };
}
