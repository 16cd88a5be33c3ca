/**
 * The state chart of a live actor, with its active states highlighted.
 *
 * CHART-1  The layout depends on the machine alone: a change of state highlights other boxes and moves none.
 * CHART-2  A sentence names the active states for screen readers.
 */
import { activePaths, stateName } from '../data/actors.ts';
import type { Tone } from './badge.tsx';
import type { Chart, DrawnKind, PlacedEdge, PlacedState } from './charts.ts';
import { charts } from './charts-drawn.ts';
import '../style/chart.css';

interface ChartProps {
  /** Heading: `Partner`, `Courier`. */
  readonly title: string;
  readonly kind: DrawnKind;
  /** State value of the actor. */
  readonly value: unknown;
}

/** Colour of a state while it is active. */
const tones: Readonly<Record<string, Tone>> = {
  connected: 'good',
  offline: 'bad',
  suspended: 'off',
  registered: 'wait',
  closed: 'good',
  open: 'bad',
  halfOpen: 'wait',
  ready: 'wait',
  trying: 'wait',
  flowing: 'good',
  paused: 'off',
  none: 'good',
};

export function StateChart({ title, kind, value }: ChartProps) {
  const lit = new Set(activePaths(value));
  return (
    <section class="chart" aria-label={`State chart: ${title}`}>
      <h3 class="unseen">{title}</h3>
      <p class="unseen" role="status">
        {sentence(value)}
      </p>
      <div class="regions">
        {charts[kind].map((chart) => (
          <Region key={chart.name} title={title} chart={chart} lit={lit} />
        ))}
      </div>
    </section>
  );
}

/** `door: flowing; hold: none`. */
export function sentence(value: unknown): string {
  if (typeof value !== 'object' || value === null) return stateName(value);
  return Object.entries(value)
    .map(([region, inner]) => `${region}: ${stateName(inner)}`)
    .join('; ');
}

/** Focusable, so that the keyboard can scroll a chart that does not fit. */
const scrollable = { tabIndex: 0 };

function Region({ title, chart, lit }: { title: string; chart: Chart; lit: ReadonlySet<string> }) {
  const { name: region, width, height, states, edges } = chart;
  const present = states.flatMap(({ path, name }) => (lit.has(path) ? [name] : [])).join(', ');
  return (
    <figure data-region={region}>
      <figcaption>{[title, region].filter(Boolean).join(' · ')}</figcaption>
      <section class="chart-scroll" aria-label={`Region ${region || title}`} {...scrollable}>
        <svg
          viewBox={`0 0 ${width} ${height}`}
          style={{ width: `${width}px`, minWidth: `${Math.round(width * 0.72)}px` }}
          role="img"
          aria-label={`${region || title}: ${present}`}
        >
          {states.map((placed) => {
            const Shape = shapes[placed.kind];
            return <Shape key={placed.path} placed={placed} isLit={lit.has(placed.path)} />;
          })}
          <g class="edges">
            {edges.map((edge) => (
              <Edge key={`${edge.from} ${edge.to}`} edge={edge} />
            ))}
          </g>
        </svg>
      </section>
    </figure>
  );
}

const shapes: Readonly<Record<PlacedState['kind'], typeof Box>> = { state: Box, start: Start, any: Any };

function Box({ placed, isLit }: { placed: PlacedState; isLit: boolean }) {
  const { path, name, isOuter, x, y, width, height } = placed;
  const kind = ['state', isOuter && 'outer', isLit && 'lit', isLit && tones[name]].filter(Boolean).join(' ');
  return (
    <g class={kind} aria-current={isLit ? 'true' : undefined} data-state={path}>
      <rect x={x} y={y} width={width} height={height} rx="8" />
      <text x={x + width / 2} y={isOuter ? y + 20 : y + height / 2 + 4.5} text-anchor="middle">
        {name}
      </text>
    </g>
  );
}

function Start({ placed: { x, y, width, height } }: { placed: PlacedState; isLit: boolean }) {
  return <circle class="start" cx={x + width / 2} cy={y + height / 2} r={width / 2 - 1} />;
}

/** The mark from which transitions start that any state of the region takes. */
function Any({ placed: { x, y, width, height } }: { placed: PlacedState; isLit: boolean }) {
  return (
    <g class="any">
      <rect x={x} y={y} width={width} height={height} rx="10" />
      <text x={x + width / 2} y={y + height / 2 + 4} text-anchor="middle">
        any
      </text>
    </g>
  );
}

const arrow = 6;

function Edge({ edge: { points, labels } }: { edge: PlacedEdge }) {
  const [end, before] = [points.at(-1), points.at(-2)];
  if (!end || !before) return null;
  const angle = (Math.atan2(end[1] - before[1], end[0] - before[0]) * 180) / Math.PI;
  return (
    <g class="edge">
      <path d={`M${points.map(([x, y]) => `${x} ${y}`).join('L')}`} />
      <path
        class="tip"
        d={`M0 0L${-arrow} ${arrow / 2}L${-arrow} ${-arrow / 2}Z`}
        transform={`translate(${end[0]} ${end[1]}) rotate(${angle})`}
      />
      {labels.map(({ text, x, y, width, height }) => (
        <text key={text} x={x + width / 2} y={y + height - 3.5} text-anchor="middle">
          {text}
        </text>
      ))}
    </g>
  );
}
