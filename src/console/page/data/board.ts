/**
 * All partners at a glance, kept fresh: what has changed since the last answer is asked for, and rates are worked out from counts.
 *
 * BOARD-1  Every partner is a signal of its own: an answer that says nothing about it changes nothing of it.
 * BOARD-2  Nothing is asked for while nobody looks.
 */
import { batch, type Signal, signal } from '@preact/signals';
import type { Operations } from '../../../hub/ports/operator.ts';
import { ApiError, call, pathWith } from './api.ts';

type OverviewView = ReturnType<Operations['overview']>;
export type OverviewRow = OverviewView['rows'][number];
export type OverviewTotals = OverviewView['totals'];

/** A partner, and how many deliveries a second reached it of late, oldest first. */
export interface Line {
  readonly row: OverviewRow;
  readonly rates: readonly number[];
}

export interface Board {
  /** In no order; the same array until a partner is added. */
  readonly ids: Signal<readonly string[]>;
  /** Moves with every answer that changed a row. */
  readonly version: Signal<number>;
  /** Null until the first answer. */
  readonly totals: Signal<OverviewTotals | null>;
  /** Of all partners together, deliveries a second of late, oldest first. */
  readonly rates: Signal<readonly number[]>;
  readonly error: Signal<ApiError | null>;
  line(id: string): Signal<Line> | undefined;
  /** The hub's clock, epoch milliseconds. */
  now(): number;
  /** Asks now. */
  reload(): void;
  close(): void;
}

const everyMs = 2_000;
/** Two minutes. */
const ratesMax = 60;

export function watchBoard(): Board {
  const lines = new Map<string, Signal<Line>>();
  const ids = signal<readonly string[]>([]);
  const version = signal(0);
  const totals = signal<OverviewTotals | null>(null);
  const rates = signal<readonly number[]>([]);
  const error = signal<ApiError | null>(null);
  /** Those to whom anything was delivered of late. */
  const flowing = new Set<string>();
  const abort = new AbortController();
  let revision: string | null = null;
  let askedAt = 0;
  let aheadMs = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const take = (answer: OverviewView) => {
    const hubAt = Date.parse(answer.at);
    // Counts of another start of the hub tell nothing about the time since the last answer.
    const elapsedS = revision !== null && !answer.full ? (hubAt - askedAt) / 1000 : 0;
    const deltas = new Map<string, number>();
    for (const row of answer.rows) {
      const line = lines.get(row.id);
      if (line) deltas.set(row.id, row.delivered - line.peek().row.delivered);
      if (line) line.value = { ...line.peek(), row };
      else lines.set(row.id, signal<Line>({ row, rates: [] }));
    }
    if (elapsedS > 0) advance(deltas, elapsedS);
    if (ids.peek().length !== lines.size) ids.value = [...lines.keys()];
    if (answer.rows.length > 0) version.value++;
    if (JSON.stringify(totals.peek()) !== JSON.stringify(answer.totals)) totals.value = answer.totals;
    [revision, askedAt, aheadMs] = [answer.revision, hubAt, hubAt - Date.now()];
  };

  /** One step of every plot that is not flat. */
  const advance = (deltas: ReadonlyMap<string, number>, elapsedS: number) => {
    let sum = 0;
    for (const [id, delta] of deltas) if (delta > 0) flowing.add(id);
    for (const id of flowing) {
      const line = lines.get(id);
      if (!line) continue;
      const rate = Math.max(0, deltas.get(id) ?? 0) / elapsedS;
      sum += rate;
      const of = stepped(line.peek().rates, rate);
      const isFlat = of.every((one) => one === 0);
      if (isFlat) flowing.delete(id);
      line.value = { ...line.peek(), rates: isFlat ? [] : of };
    }
    rates.value = stepped(rates.peek(), sum);
  };

  const ask = async () => {
    clearTimeout(timer);
    if (document.visibilityState === 'visible') {
      try {
        const answer = await call<OverviewView>(
          'GET',
          pathWith('/overview', { after: revision }),
          undefined,
          abort.signal,
        );
        batch(() => {
          error.value = null;
          take(answer);
        });
      } catch (failure) {
        if (abort.signal.aborted) return;
        if (!(failure instanceof ApiError)) throw failure;
        error.value = failure;
      }
    }
    clearTimeout(timer);
    if (!abort.signal.aborted) timer = setTimeout(ask, everyMs);
  };
  void ask();

  return {
    ...{ ids, version, totals, rates, error },
    line: (id) => lines.get(id),
    now: () => Date.now() + aheadMs,
    reload: () => void ask(),
    close() {
      abort.abort();
      clearTimeout(timer);
    },
  };
}

function stepped(rates: readonly number[], rate: number): number[] {
  const before = rates.length === 0 ? new Array<number>(ratesMax - 1).fill(0) : rates.slice(-(ratesMax - 1));
  return [...before, rate];
}
