/** Key figures of the hub, large enough to read from across the room; each links to what it counts. */
import type { ComponentChildren } from 'preact';
import { Link } from 'wouter-preact';
import type { OverviewRow } from '../../../api/overview.ts';
import type { Board } from '../data/board.ts';
import { count, perSecond, span } from '../data/format.ts';
import { Sparkline } from '../parts/plot.tsx';
import { isHealthy, openCircuits } from './overview-order.ts';

export function rowsOf(board: Board): OverviewRow[] {
  return board.ids.value.flatMap((id) => board.line(id)?.peek().row ?? []);
}

export function Numbers({ board }: { board: Board }) {
  // Subscribes to changes of any row; the rows themselves are read without a subscription each.
  void board.version.value;
  const rows = rowsOf(board);
  const sum = (of: (row: OverviewRow) => number) => rows.reduce((total, row) => total + of(row), 0);
  const healthy = rows.filter(isHealthy).length;
  const oldest = rows.reduce<string | null>(
    (first, { oldest_at: at }) => (at && (!first || at < first) ? at : first),
    null,
  );
  const dead = sum((row) => row.dead);
  const circuits = sum((row) => openCircuits(row).length);
  const totals = board.totals.value;
  const commands = Object.values(totals?.commands ?? {}).reduce((total, one) => total + one, 0);
  return (
    <section class="numbers" aria-label="In numbers">
      <Figure title="Healthy" href="/?show=healthy" beside={`of ${count(rows.length)}`}>
        {count(healthy)}
      </Figure>
      <Rate board={board} />
      <Figure
        title="Backlog"
        href="/?show=backlog"
        beside={oldest ? `oldest ${span(Math.max(0, Math.floor((board.now() - Date.parse(oldest)) / 1000)))}` : ''}
      >
        {count(sum((row) => row.depth))}
        {rows.some(({ behind }) => behind) && '+'}
      </Figure>
      <Figure title="Dead letters" href="/deliveries?state=DEAD" isBad={dead > 0}>
        {count(dead)}
      </Figure>
      <Figure title="Open circuits" href="/?show=circuit" isBad={circuits > 0}>
        {count(circuits)}
      </Figure>
      <Figure title="Commands running" href="/commands">
        {count(commands)}
      </Figure>
      <Figure title="Open cases" href="/orphans?state=OPEN" isBad={(totals?.open_cases ?? 0) > 0}>
        {count(totals?.open_cases ?? 0)}
      </Figure>
    </section>
  );
}

function Rate({ board }: { board: Board }) {
  const rates = board.rates.value;
  return (
    <Figure title="Deliveries per second" href="/deliveries" beside={<Sparkline values={rates} />}>
      {perSecond(rates.at(-1) ?? 0)}
    </Figure>
  );
}

interface FigureProps {
  readonly title: string;
  readonly href: string;
  readonly beside?: ComponentChildren;
  readonly isBad?: boolean;
  readonly children: ComponentChildren;
}

function Figure({ title, href, beside, isBad = false, children }: FigureProps) {
  return (
    <Link href={href} class={`figure ${isBad ? 'bad' : ''}`}>
      <span class="title">{title}</span>
      <span class="value">{children}</span>
      <span class="beside">{beside}</span>
    </Link>
  );
}
