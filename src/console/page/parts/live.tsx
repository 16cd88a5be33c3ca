/** Hooks for live actors: a watch opens when its component mounts and closes when it unmounts. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Interest, type Watch, watchActors } from '../data/actors.ts';
import { Badge } from './badge.tsx';

/** Reads `interest` once: it must not change while the component is mounted. */
export function useWatch(interest: Interest): Watch | null {
  const [watch, setWatch] = useState<Watch | null>(null);
  const [asked] = useState(interest);
  useEffect(() => {
    const opened = watchActors(asked);
    setWatch(opened);
    return () => opened.close();
  }, [asked]);
  return watch;
}

/** Actors may start and end many times a second. */
const reloadMs = 500;

/** Reloads when an actor starts or ends, at most once in `reloadMs`. */
export function useReload(watch: Watch | null, reload: () => void): void {
  const ids = watch?.ids.value;
  const due = useRef<ReturnType<typeof setTimeout>>();
  useEffect(() => {
    if (!ids) return;
    const fire = () => {
      due.current = document.visibilityState === 'visible' ? undefined : setTimeout(fire, reloadMs);
      if (due.current === undefined) reload();
    };
    due.current ??= setTimeout(fire, reloadMs);
  }, [ids, reload]);
  useEffect(() => () => clearTimeout(due.current), []);
}

const words = {
  connecting: ['connecting', 'wait'],
  live: ['live', 'good'],
  lost: ['not live, connecting again', 'bad'],
} as const;

/** Shows whether the live data is up to date. */
export function Liveness({ watch }: { watch: Watch | null }) {
  const [word, tone] = words[watch?.state.value ?? 'connecting'];
  return (
    <span role="status">
      <Badge state={word} tone={tone} />
    </span>
  );
}
