/**
 * Hooks for live actors: a watch opens when its component mounts and closes when it unmounts.
 */
import { useEffect, useState } from 'preact/hooks';
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

/** Reloads when an actor starts or ends. */
export function useReload(watch: Watch | null, reload: () => void): void {
  const ids = watch?.ids.value;
  useEffect(() => {
    if (ids) reload();
  }, [ids, reload]);
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
