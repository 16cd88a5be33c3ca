/**
 * Curves over time, drawn by uPlot, which is loaded when the first of them is shown. The key below them has the figures of
 * the instant under the pointer, or of the last one. `Sparkline`, a line beside a number, is drawn without it.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import type uPlot from 'uplot';
import { day, orDash } from '../data/format.ts';
import { theme } from '../data/theme.ts';
import '../style/plot.css';

export interface Curve {
  readonly title: string;
  readonly tone: 'accent' | 'info' | 'wait' | 'bad' | 'good';
  /** Null: nothing is known of that instant. */
  readonly values: readonly (number | null)[];
  readonly shown: (value: number) => string;
}

interface PlotProps {
  readonly title: string;
  /** Epoch seconds, ascending. */
  readonly times: readonly number[];
  readonly curves: readonly Curve[];
  /** Upper end of the scale; else that of the curves. */
  readonly max?: number;
}

const heightPx = 140;
const gutterPx = 52;

export function Plot({ title, times, curves, max }: PlotProps) {
  const area = useRef<HTMLDivElement>(null);
  const key = useRef<HTMLUListElement>(null);
  const drawn = useRef<uPlot | null>(null);
  const [index, setIndex] = useState<number | null>(null);
  const data = [times, ...curves.map(({ values }) => values)] as uPlot.AlignedData;
  const present = useRef(data);
  present.current = data;
  const colours = useColours();

  // A canvas has no style sheet: another theme draws it again.
  useEffect(() => {
    let isGone = false;
    let watcher: ResizeObserver | undefined;
    void import('uplot').then(({ default: Chart }) => {
      const at = area.current;
      const tones = [...(key.current?.querySelectorAll('i') ?? [])].map((tone) => getComputedStyle(tone).color);
      if (isGone || !at) return;
      const chart = new Chart(optionsOf(at, curves, tones, max, setIndex), present.current, at);
      drawn.current = chart;
      watcher = new ResizeObserver(() => chart.setSize({ width: at.clientWidth, height: heightPx }));
      watcher.observe(at);
    });
    return () => {
      isGone = true;
      watcher?.disconnect();
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, [colours, curves.length]);
  useEffect(() => drawn.current?.setData(present.current), [times, curves]);

  const of = (values: readonly (number | null)[]) => (index === null ? lastOf(values) : (values[index] ?? null));
  return (
    <figure class="curves" aria-label={title}>
      <h3>{title}</h3>
      <div class="curves-area" ref={area} aria-hidden="true" />
      <ul class="curves-key" ref={key}>
        {curves.map(({ title: name, tone, values, shown }) => (
          <li key={name}>
            <i class={tone} />
            {name} {orDash(of(values), shown)}
          </li>
        ))}
        {index !== null && <li class="quiet">{new Date((times[index] ?? 0) * 1000).toLocaleString('en-GB')}</li>}
      </ul>
    </figure>
  );
}

const lastOf = (values: readonly (number | null)[]): number | null =>
  values.findLast((value) => value !== null) ?? null;

/** A name of the colours in use, which changes with the theme. */
function useColours(): string {
  const [isDark, setDark] = useState(() => matchMedia('(prefers-color-scheme: dark)').matches);
  useEffect(() => {
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    const changed = () => setDark(scheme.matches);
    scheme.addEventListener('change', changed);
    return () => scheme.removeEventListener('change', changed);
  }, []);
  return theme.value === 'auto' ? String(isDark) : theme.value;
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });

/** Of a tick, epoch seconds: the time, or the day where it begins. */
function timeText(seconds: number): string {
  const date = new Date(seconds * 1000);
  const isDay = date.getHours() === 0 && date.getMinutes() === 0;
  return (isDay ? day : clock).format(date);
}

/** One point alone has no line. */
const isAlone = ({ data }: uPlot, curve: number): boolean =>
  (data[curve] ?? []).filter((value) => typeof value === 'number').length === 1;

function optionsOf(
  at: HTMLElement,
  curves: readonly Curve[],
  tones: readonly string[],
  max: number | undefined,
  pointed: (index: number | null) => void,
): uPlot.Options {
  const { color: stroke, borderTopColor: line, fontFamily } = getComputedStyle(at);
  const axis = { stroke, font: `11px ${fontFamily}`, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const shown = curves[0]?.shown ?? String;
  return {
    width: at.clientWidth,
    height: heightPx,
    legend: { show: false },
    cursor: { y: false, drag: { setScale: false, x: false } },
    scales: { y: { range: (_chart, _min, top) => [0, max ?? Math.max(1, top * 1.1)] } },
    axes: [
      { ...axis, space: 60, size: 28, values: (_chart, ticks) => ticks.map(timeText) },
      { ...axis, size: gutterPx, space: 30, values: (_chart, ticks) => ticks.map(shown) },
    ],
    series: [
      {},
      ...curves.map(
        ({ title }, n): uPlot.Series => ({
          label: title,
          stroke: tones[n] ?? stroke,
          width: 1.5,
          spanGaps: true,
          points: { show: isAlone },
        }),
      ),
    ],
    hooks: { setCursor: [({ cursor: { idx } }) => pointed(idx ?? null)] },
  };
}

const width = 72;
const height = 16;

/** A small plot of a rate. Hidden from screen readers, because the number beside it says the same. */
export function Sparkline({ values }: { values: readonly number[] }) {
  const max = Math.max(...values, 0);
  if (max === 0) return <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} aria-hidden="true" />;
  const step = width / Math.max(1, values.length - 1);
  const points = values.map((value, at) => {
    return `${(at * step).toFixed(1)} ${(height - 1 - (value / max) * (height - 2)).toFixed(1)}`;
  });
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
      <path class="under" d={`M0 ${height}L${points.join('L')}L${width} ${height}Z`} />
      <path class="over" d={`M${points.join('L')}`} />
    </svg>
  );
}
