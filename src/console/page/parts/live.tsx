/**
 * What a page needs of live actors while it is looked at: the watch is opened with it and closed with it.
 */
import { useEffect, useState } from 'preact/hooks';
import { type Interest, type Watch, watchActors } from '../data/actors.ts';
import { Badge } from './badge.tsx';

/** `interest` is taken once: it must not change while the page stands. */
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

/** Asks again when an actor comes or goes. */
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

/** Whether what is shown is of now. */
export function Liveness({ watch }: { watch: Watch | null }) {
  const [word, tone] = words[watch?.state.value ?? 'connecting'];
  return (
    <span role="status">
      <Badge state={word} tone={tone} />
    </span>
  );
}
