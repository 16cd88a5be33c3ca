/**
 * A hook for a GET that stays fresh: requested at once, every `everyMs` while the page is visible, and on demand. The
 * last answer stays in place until the next one arrives, so that nothing jumps.
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, call } from './api.ts';

export interface Queried<T> {
  /** Undefined until the first answer. */
  readonly data: T | undefined;
  readonly error: ApiError | null;
  readonly isLoading: boolean;
  readonly reload: () => void;
}

/** `path` null: requests nothing. `everyMs` 0: requests only when the path changes, and on `reload`. */
export function useQuery<T>(path: string | null, everyMs = 0): Queried<T> {
  const [state, setState] = useState<Omit<Queried<T>, 'reload'>>({ data: undefined, error: null, isLoading: true });
  const askNow = useRef<() => void>(() => {});

  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOwn = false;
    setState(({ data }) => ({ data, error: null, isLoading: true }));

    const ask = async () => {
      clearTimeout(timer);
      try {
        const data = await call<T>('GET', path, undefined, abort.signal);
        isOwn = true;
        setState({ data, error: null, isLoading: false });
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        // The answer of another path is not shown as the answer of this one.
        setState(({ data }) => ({ data: isOwn ? data : undefined, error, isLoading: false }));
      }
      if (everyMs > 0 && !abort.signal.aborted) timer = setTimeout(whenSeen, everyMs);
    };
    const whenSeen = () => {
      if (document.visibilityState === 'visible') void ask();
      else timer = setTimeout(whenSeen, everyMs);
    };
    askNow.current = () => void ask();
    void ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs]);

  const reload = useCallback(() => askNow.current(), []);
  return { ...state, reload };
}
