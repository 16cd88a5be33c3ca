/**
 * Filters and orders the partners of the overview: those that need attention first, unless another column is chosen.
 */
import type { OverviewRow } from '../../../api/overview.ts';
import type { Board, Line } from '../data/board.ts';

export type Column = 'attention' | 'partner' | 'state' | 'depth' | 'oldest' | 'rate' | 'dead';

export interface Wanted {
  /** Part of an id, a party or a name. */
  readonly text: string;
  readonly show: string;
  readonly role: string;
  readonly sort: string;
}

/** Circuits of a row, by what their calls do. */
export const circuitTitles = {
  sync: 'Commands & authorize',
  results: 'Results of commands',
  async: 'Deliveries',
} as const;
const circuits = Object.keys(circuitTitles) as (keyof typeof circuitTitles)[];
/** The circuits of a partner that are open or half-open. */
export const openCircuits = (row: OverviewRow) => circuits.filter((circuit) => row[circuit] !== 'closed');
/** Whether a change of host waits for an operator to say that it was the partner. */
export const hasHostChange = ({ host_change }: OverviewRow): boolean =>
  host_change !== null && host_change.state !== 'confirmed';
export const lastRate = ({ rates }: Line) => rates.at(-1) ?? 0;

/** Rules of urgency, most urgent first; a row that matches none needs no attention. */
const urgencies: readonly ((row: OverviewRow) => boolean)[] = [
  ({ dead, dead_snoozed }) => dead > dead_snoozed,
  ({ overdue }) => overdue > 0,
  hasHostChange,
  ({ status }) => status === 'OFFLINE',
  (row) => openCircuits(row).length > 0,
  ({ paused, depth }) => paused && depth > 0,
  ({ silent_since }) => silent_since !== null,
];

/** Connected, and nothing about it needs attention. */
export const isHealthy = (row: OverviewRow): boolean =>
  row.status === 'CONNECTED' && !row.paused && urgencyOf(row) === urgencies.length;

const urgencyOf = (row: OverviewRow) => {
  const at = urgencies.findIndex((fits) => fits(row));
  return at === -1 ? urgencies.length : at;
};

/** Choices of the filter "Show". */
export const shows: Readonly<Record<string, readonly [title: string, fits: (row: OverviewRow) => boolean]>> = {
  attention: ['Need attention', (row) => urgencyOf(row) < urgencies.length],
  healthy: ['Healthy', isHealthy],
  connected: ['Connected', ({ status }) => status === 'CONNECTED'],
  offline: ['Offline', ({ status }) => status === 'OFFLINE'],
  registered: ['Registered', ({ status }) => status === 'REGISTERED'],
  suspended: ['Suspended', ({ status }) => status === 'SUSPENDED'],
  host: ['Change of host', hasHostChange],
  silent: ['Silent', ({ silent_since }) => silent_since !== null],
  circuit: ['Open circuits', (row) => openCircuits(row).length > 0],
  paused: ['Paused', ({ paused }) => paused],
  backlog: ['With backlog', ({ depth, behind }) => depth > 0 || behind],
  dead: ['With dead letters', ({ dead }) => dead > 0],
  overdue: ['Overdue', ({ overdue }) => overdue > 0],
};

const statuses = ['CONNECTED', 'OFFLINE', 'REGISTERED', 'SUSPENDED'];

/** Sort keys; the smaller comes first. */
const keys: Readonly<Record<Column, (line: Line) => number>> = {
  attention: ({ row }) => urgencyOf(row) * 10 + statuses.indexOf(row.status),
  partner: () => 0,
  state: ({ row }) => statuses.indexOf(row.status),
  depth: ({ row }) => -row.depth,
  oldest: ({ row }) => (row.oldest_at === null ? Number.POSITIVE_INFINITY : Date.parse(row.oldest_at)),
  rate: (line) => -lastRate(line),
  dead: ({ row }) => -row.dead,
};

export const columnOf = (sort: string): Column =>
  (Object.keys(keys) as Column[]).find((key) => key === sort) ?? 'attention';

export function ordered(board: Board, wanted: Wanted): string[] {
  const text = wanted.text.trim().toLowerCase();
  const fits = shows[wanted.show]?.[1] ?? (() => true);
  const keyOf = keys[columnOf(wanted.sort)];
  const found: { id: string; key: number }[] = [];
  for (const id of board.ids.peek()) {
    const line = board.line(id)?.peek();
    if (!line || !fits(line.row) || !names(line.row, text) || !holds(line.row, wanted.role)) continue;
    found.push({ id, key: keyOf(line) });
  }
  return found.sort((a, b) => a.key - b.key || (a.id < b.id ? -1 : 1)).map(({ id }) => id);
}

function names({ id, parties, names: called }: OverviewRow, text: string): boolean {
  return text === '' || [id, ...parties, ...called].some((one) => one.toLowerCase().includes(text));
}

function holds({ roles }: OverviewRow, role: string): boolean {
  return role === '' || roles.some((one) => one === role);
}
