/**
 * A hook for a GET that stays fresh: requested at once, again after a pause, and on demand. The last answer stays in place
 * until the next one arrives, so that nothing jumps.
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { type ApiError, call } from './api.ts';
import { type Polling, polling } from './polling.ts';
import { type Caller, caller } from './session.ts';

export interface Queried<T> {
  /** Undefined until the first answer. */
  readonly data: T | undefined;
  readonly error: ApiError | null;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

/** The pause until the next request, milliseconds; 0: there is none but on `reload` and when the path changes. */
type Pause<T> = number | ((data: T | undefined, error: ApiError | null) => number);

/** `path` null: requests nothing. */
export function useQuery<T>(path: string | null, every: Pause<T> = 0): Queried<T> {
  const [state, setState] = useState<Omit<Queried<T>, 'reload'>>({ data: undefined, error: null, isLoading: true });
  const asking = useRef<Polling | null>(null);
  const pause = useRef(every);
  pause.current = every;

  useEffect(() => {
    if (path === null) return;
    // The answer of another path is not shown as the answer of this one.
    let own: T | undefined;
    let last: ApiError | null = null;
    setState(({ data }) => ({ data, error: null, isLoading: true }));
    const asked = polling({
      async ask(signal) {
        own = await call<T>('GET', path, undefined, signal);
        last = null;
        setState({ data: own, error: null, isLoading: false });
      },
      failed(error) {
        last = error;
        setState({ data: own, error, isLoading: false });
      },
      pauseMs: () => (typeof pause.current === 'number' ? pause.current : pause.current(own, last)),
    });
    asking.current = asked;
    return () => asked.close();
  }, [path, typeof every === 'number' ? every : null]);

  const reload = useCallback(() => asking.current?.now(), []);
  return { ...state, reload };
}

// A hook that asks the hub whose token a reload has kept, until it answers: before, no action is shown.

const retryMs = 2_000;

export function useCaller(): void {
  const { data } = useQuery<Caller>(caller.value === null ? '/caller' : null, retryMs);
  useEffect(() => {
    if (data) caller.value = data;
  }, [data]);
}
