/**
 * The state chart of a live actor, with its active states highlighted.
 *
 * CHART-1  The layout depends on the definition alone: a change of state highlights other boxes and moves none.
 * CHART-2  A sentence names the active states for screen readers.
 */
import { useEffect, useState } from 'preact/hooks';
import { activePaths, stateName } from '../data/actors.ts';
import { type ChartRegion, type ChartState, regionsOf } from './chart-graph.ts';
import { type Layout, laidOut, type PlacedEdge, type PlacedState } from './chart-layout.ts';
import '../style/chart.css';

interface ChartProps {
  /** Heading: `Partner`, `Courier`. */
  readonly title: string;
  /** Definition of the machine as JSON; null until it has arrived. */
  readonly definition: unknown;
  /** State value of the actor. */
  readonly value: unknown;
}

type Tone = 'good' | 'wait' | 'bad' | 'off';

/** Colour of a state while it is active. */
const tones: Readonly<Record<string, Tone>> = {
  ...{ connected: 'good', offline: 'bad', suspended: 'off', registered: 'wait' },
  ...{ closed: 'good', open: 'bad', halfOpen: 'wait', ready: 'wait', trying: 'wait' },
  ...{ flowing: 'good', paused: 'off', none: 'good', backingOff: 'bad' },
};

export function StateChart({ title, definition, value }: ChartProps) {
  const regions = useLayouts(definition);
  const lit = new Set(activePaths(value));
  return (
    <section class="chart" aria-label={`State chart: ${title}`}>
      <h3 class="unseen">{title}</h3>
      <p class="unseen" role="status">
        {sentence(value)}
      </p>
      {regions === null && <p class="loading">Drawing …</p>}
      <div class="regions">
        {regions?.map(({ region, layout }) => (
          <Region key={region.name} title={title} region={region} layout={layout} lit={lit} />
        ))}
      </div>
    </section>
  );
}

/** `connection: connected; sync: closed; async: open`. */
function sentence(value: unknown): string {
  if (typeof value !== 'object' || value === null) return stateName(value);
  return Object.entries(value)
    .map(([region, inner]) => `${region}: ${stateName(inner)}`)
    .join('; ');
}

interface Drawn {
  readonly region: ChartRegion;
  readonly layout: Layout;
}

function useLayouts(definition: unknown): readonly Drawn[] | null {
  const [drawn, setDrawn] = useState<readonly Drawn[] | null>(null);
  useEffect(() => {
    if (definition === null) return;
    let isGone = false;
    const work = regionsOf(definition).map(async (region) => ({ region, layout: await laidOut(region) }));
    void Promise.all(work).then((all) => {
      if (!isGone) setDrawn(all);
    });
    return () => {
      isGone = true;
    };
  }, [definition]);
  return drawn;
}

/** Focusable, so that the keyboard can scroll a chart that does not fit. */
const scrollable = { tabIndex: 0 };

function Region({ title, region, layout, lit }: Drawn & { title: string; lit: ReadonlySet<string> }) {
  const { width, height, states, edges } = layout;
  const present = states.flatMap(({ state }) => (lit.has(state.path) ? [state.name] : [])).join(', ');
  return (
    <figure data-region={region.name}>
      <figcaption>{[title, region.name].filter(Boolean).join(' · ')}</figcaption>
      <section class="chart-scroll" aria-label={`Region ${region.name || title}`} {...scrollable}>
        <svg
          viewBox={`0 0 ${width} ${height}`}
          style={{ width: `${width}px`, minWidth: `${Math.round(width * 0.72)}px` }}
          role="img"
          aria-label={`${region.name || title}: ${present}`}
        >
          {states.map((placed) => (
            <StateBox key={placed.state.path} placed={placed} isLit={lit.has(placed.state.path)} />
          ))}
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

const shapes: Readonly<Record<ChartState['kind'], typeof Box>> = { state: Box, start: Start, any: Any };

function StateBox({ placed, isLit }: { placed: PlacedState; isLit: boolean }) {
  const Shape = shapes[placed.state.kind];
  return <Shape placed={placed} isLit={isLit} />;
}

function Box({ placed: { state, x, y, width, height }, isLit }: { placed: PlacedState; isLit: boolean }) {
  const isOuter = state.states.length > 0;
  const kind = ['state', isOuter && 'outer', isLit && 'lit', isLit && tones[state.name]].filter(Boolean).join(' ');
  return (
    <g class={kind} aria-current={isLit ? 'true' : undefined} data-state={state.path}>
      <rect x={x} y={y} width={width} height={height} rx="8" />
      <text x={x + width / 2} y={isOuter ? y + 20 : y + height / 2 + 4.5} text-anchor="middle">
        {state.name}
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
  const angle = (Math.atan2(end.y - before.y, end.x - before.x) * 180) / Math.PI;
  return (
    <g class="edge">
      <path d={`M${points.map(({ x, y }) => `${x} ${y}`).join('L')}`} />
      <path
        class="tip"
        d={`M0 0L${-arrow} ${arrow / 2}L${-arrow} ${-arrow / 2}Z`}
        transform={`translate(${end.x} ${end.y}) rotate(${angle})`}
      />
      {labels.map(({ text, x, y, width, height }) => (
        <text key={text} x={x + width / 2} y={y + height - 3.5} text-anchor="middle">
          {text}
        </text>
      ))}
    </g>
  );
}
