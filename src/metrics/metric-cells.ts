/**
 * Counters and histograms that add up in plain numbers until a scrape. By itself prom-client makes a text of all labels for each count, and
 * the name of a property of the bound; a push counts nine times.
 *
 * METRIC-CELLS-1  A scrape shows what it would show if prom-client had counted: the same series, in order of their first count.
 */
import { Counter, type Histogram, type Registry } from 'prom-client';

type Labels<L extends string> = Readonly<Record<L, string | number>>;

interface CellCounter<L extends string> {
  inc(labels: Labels<L>, by?: number): void;
}

interface CellHistogram<L extends string> {
  observe(labels: Labels<L>, value: number): void;
}

export interface Cells {
  counter<L extends string>(name: string, help: string, labels: readonly L[]): CellCounter<L>;
  histogram<L extends string>(
    name: string,
    help: string,
    bounds: readonly number[],
    labels?: readonly L[],
  ): CellHistogram<L>;
}

export function cellsIn(registry: Registry): Cells {
  const fullName = (name: string) => `ocpi_hub_${name}`;
  return {
    counter(name, help, labelNames) {
      const sums = new ByLabels(labelNames, (labels) => ({ labels, more: 0 }));
      const counter = new Counter({
        name: fullName(name),
        help,
        labelNames: [...labelNames],
        registers: [],
        collect() {
          for (const sum of sums.all) {
            this.inc(sum.labels, sum.more);
            sum.more = 0;
          }
        },
      });
      registry.registerMetric(counter);
      return {
        inc(labels, by = 1) {
          sums.of(labels).more += by;
        },
      };
    },
    histogram(name, help, bounds, labelNames = []) {
      const spread = new Spread(fullName(name), help, bounds, labelNames);
      // The registry reads its name and calls `get`.
      registry.registerMetric(spread as unknown as Histogram);
      return spread;
    },
  };
}

/** A branch of the tree in which the values of one label after the other lead to a cell. */
interface Branch<Cell> {
  readonly next: Map<string | number, Branch<Cell>>;
  cell: Cell | null;
}

/** One cell for each combination of label values. */
class ByLabels<L extends string, Cell> {
  /** In the order in which they were made. */
  readonly all: Cell[] = [];
  readonly #names: readonly L[];
  readonly #make: (labels: Labels<L>) => Cell;
  readonly #root: Branch<Cell> = { next: new Map(), cell: null };

  constructor(names: readonly L[], make: (labels: Labels<L>) => Cell) {
    this.#names = names;
    this.#make = make;
  }

  of(labels: Labels<L>): Cell {
    let branch = this.#root;
    // By index: a loop over the items of lists of several kinds makes an object for each item.
    for (let at = 0; at < this.#names.length; at++) {
      const value = labels[this.#names[at] as L];
      let next = branch.next.get(value);
      if (next === undefined) {
        next = { next: new Map(), cell: null };
        branch.next.set(value, next);
      }
      branch = next;
    }
    if (branch.cell === null) {
      branch.cell = this.#make(labels);
      this.all.push(branch.cell);
    }
    return branch.cell;
  }
}

/** A histogram as a registry reads it. */
class Spread<L extends string> implements CellHistogram<L> {
  readonly name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #cells: ByLabels<L, { labels: Labels<L>; sum: number; count: number; readonly within: Float64Array }>;

  constructor(name: string, help: string, bounds: readonly number[], labelNames: readonly L[]) {
    this.name = name;
    this.#help = help;
    this.#bounds = bounds;
    // One more for what is beyond the last bound.
    const within = () => new Float64Array(bounds.length + 1);
    this.#cells = new ByLabels(labelNames, (labels) => ({ labels, sum: 0, count: 0, within: within() }));
    if (labelNames.length === 0) this.#cells.of({} as Labels<L>);
  }

  observe(labels: Labels<L>, value: number): void {
    const cell = this.#cells.of(labels);
    let at = 0;
    while (value > (this.#bounds[at] ?? Number.POSITIVE_INFINITY)) at += 1;
    cell.within[at] = (cell.within[at] ?? 0) + 1;
    cell.sum += value;
    cell.count += 1;
  }

  async get() {
    const { name } = this;
    const metricName = `${name}_bucket`;
    const values = this.#cells.all.flatMap(({ labels, sum, count, within }) => {
      let upTo = 0;
      const buckets = this.#bounds.map((le, at) => {
        upTo += within[at] ?? 0;
        return { metricName, labels: { le, ...labels }, value: upTo };
      });
      return [
        ...buckets,
        { metricName, labels: { le: '+Inf', ...labels }, value: count },
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: count },
      ];
    });
    return { name, help: this.#help, type: 'histogram', aggregator: 'sum', values };
  }
}
