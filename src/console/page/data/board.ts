/**
 * All partners of the overview, polled: each request asks for the rows changed since the last answer, and rates are
 * computed from the counts.
 *
 * BOARD-1  Each partner is a signal of its own: an answer without its row leaves the signal unchanged.
 */
import { batch, type Signal, signal } from '@preact/signals';
import type { OverviewRow, OverviewTotals, OverviewView } from '../../../api/overview.ts';
import { type ApiError, call, pathWith } from './api.ts';
import { polling } from './polling.ts';

/** A partner and its recent delivery rates per second, oldest first. */
export interface Line {
  readonly row: OverviewRow;
  readonly rates: readonly number[];
}

export interface Board {
  /** Unordered; the array changes only when a partner is added. */
  readonly ids: Signal<readonly string[]>;
  /** Incremented by every answer that changed a row. */
  readonly version: Signal<number>;
  /** Null until the first answer. */
  readonly totals: Signal<OverviewTotals | null>;
  /** Recent delivery rates of all partners together, per second, oldest first. */
  readonly rates: Signal<readonly number[]>;
  readonly error: Signal<ApiError | null>;
  line(id: string): Signal<Line> | undefined;
  /** The hub's clock, epoch milliseconds. */
  now(): number;
  /** Requests an answer now. */
  reload(): void;
  close(): void;
}

const everyMs = 2_000;
/** Samples per sparkline: two minutes at one sample per 2 s. The column title "Last 2 min" names it. */
const ratesMax = 60;

export function watchBoard(): Board {
  const lines = new Map<string, Signal<Line>>();
  const ids = signal<readonly string[]>([]);
  const version = signal(0);
  const totals = signal<OverviewTotals | null>(null);
  const rates = signal<readonly number[]>([]);
  const error = signal<ApiError | null>(null);
  /** Partners with a sample above 0. */
  const flowing = new Set<string>();
  let revision: string | null = null;
  let askedAt = 0;
  let aheadMs = 0;

  const take = (answer: OverviewView) => {
    const hubAt = Date.parse(answer.at);
    // After a restart of the hub the counts begin again: their difference to the last answer is no rate.
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

  /** Appends a sample to every sparkline that is not flat. */
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

  const asked = polling({
    async ask(signal) {
      const answer = await call<OverviewView>('GET', pathWith('/overview', { after: revision }), undefined, signal);
      batch(() => {
        error.value = null;
        take(answer);
      });
    },
    failed(failure) {
      error.value = failure;
    },
    pauseMs: () => everyMs,
  });

  return {
    ids,
    version,
    totals,
    rates,
    error,
    line: (id) => lines.get(id),
    now: () => Date.now() + aheadMs,
    reload: asked.now,
    close: asked.close,
  };
}

function stepped(rates: readonly number[], rate: number): number[] {
  const before = rates.length === 0 ? new Array<number>(ratesMax - 1).fill(0) : rates.slice(-(ratesMax - 1));
  return [...before, rate];
}
