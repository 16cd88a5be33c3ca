/**
 * A GET that stays fresh: asked at once, again every so often while the page is looked at, and again on demand. What was
 * last answered stays in place while the next answer is awaited, so that nothing jumps.
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

/** `path` null: nothing to ask for. `everyMs` 0: only when the path changes or on `reload`. */
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
        // What another path answered is not shown as this one's.
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
