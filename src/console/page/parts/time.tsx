/** Instants and countdowns, driven by one clock for the whole page. */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { at, span } from '../data/format.ts';
import { Dash } from './states.tsx';

/** Epoch milliseconds, updated every second while a component reads it. */
const now = signal(Date.now());
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

export function useNow(): number {
  useEffect(() => {
    if (readers++ === 0) {
      timer = setInterval(() => {
        now.value = Date.now();
      }, 1_000);
    }
    return () => {
      if (--readers === 0) clearInterval(timer);
    };
  }, []);
  return now.value;
}

export function Instant({ value }: { value: string | null }) {
  if (value === null) return <Dash />;
  return (
    <time dateTime={value} title={value}>
      {at(value)}
    </time>
  );
}

/** Countdown to an instant in epoch milliseconds: `in 12 s`, or `due` once it has passed. */
export function Until({ instantMs }: { instantMs: number | null }) {
  const nowMs = useNow();
  if (instantMs === null) return <Dash />;
  return <span>{instantMs <= nowMs ? 'due' : `in ${span(Math.ceil((instantMs - nowMs) / 1000))}`}</span>;
}

export function Since({ instant }: { instant: string | null }) {
  const nowMs = useNow();
  if (instant === null) return <Dash />;
  return (
    <time dateTime={instant} title={instant}>
      {span(Math.max(0, (nowMs - Date.parse(instant)) / 1000))} ago
    </time>
  );
}
