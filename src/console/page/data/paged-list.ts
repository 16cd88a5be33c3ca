/**
 * A hook for a list that the hub filters: it loads pages on demand and refreshes meanwhile.
 *
 * PAGED-LIST-1  Loaded items keep their place: a refresh changes rows in place and puts new ones where they belong.
 * PAGED-LIST-2  The slower the hub answers a search, the less often the search is refreshed.
 * PAGED-LIST-3  Back and a reload restore as many items as were loaded, up to `restoredMax`: the entry of the browser's history
 *     keeps their number.
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, call, type Page, pathWith } from './api.ts';
import { grown, type ListOrder, type Loaded, ofPage, refreshed } from './loaded.ts';
import { type Polling, polling } from './polling.ts';
import type { Queried } from './query.ts';

export interface PagedList<T> extends Queried<Loaded<T>> {
  /** With the filters, below `/admin/v1`. */
  readonly path: string;
  readonly isGrowing: boolean;
  readonly more: () => void;
}

const pageSize = 50;
export const refreshedMax = 200;
/** A list of this many items or more is not refreshed any more. */
export const freshMax = 2_000;
const refreshMs = 4_000;
/** Items of one answer of the admin API at most. */
const restoredMax = 1_000;
/**
 * The pause after a refresh is at least this many times as long as the refresh took, so that refreshing keeps the hub
 * busy less than 5 % of the time.
 */
const pauseFactor = 20;

interface State<T> {
  readonly key: string;
  readonly loaded: Loaded<T> | undefined;
  readonly error: ApiError | null;
  readonly isLoading: boolean;
  readonly isGrowing: boolean;
}

/** `path`: with the filters. `order`: the same for each path. */
export function usePagedList<T>(path: string, order: ListOrder<T>): PagedList<T> {
  const key = path;
  const [state, setState] = useState<State<T>>({ ...nothingYet, key });
  const listed = useRef(order);
  listed.current = order;
  const length = useRef(0);
  const asking = useRef<Polling | null>(null);
  length.current = state.key === key ? (state.loaded?.items.length ?? 0) : 0;

  useEffect(() => {
    setState(({ loaded }) => ({ ...nothingYet, key, loaded }));
    let isOwn = false;
    const asked = polling({
      async ask(signal) {
        if (length.current >= freshMax) return;
        const wanted = isOwn ? Math.min(length.current, refreshedMax) : Math.min(shownBefore(), restoredMax);
        const limit = Math.max(pageSize, wanted);
        const page = await call<Page<T>>('GET', pathWith(key, { limit }), undefined, signal);
        const hadOwn = isOwn;
        isOwn = true;
        setState(({ loaded, isGrowing }) => ({
          key,
          isGrowing,
          error: null,
          isLoading: false,
          // The next page begins where the list ended when it was asked for.
          loaded:
            hadOwn && loaded
              ? isGrowing
                ? loaded
                : refreshed(loaded, page, listed.current)
              : ofPage(page, limit > pageSize),
        }));
      },
      failed(error) {
        // Items of another filter are not shown as results of this one.
        const hadOwn = isOwn;
        setState(({ loaded, isGrowing }) => ({
          key,
          isGrowing,
          error,
          isLoading: false,
          loaded: hadOwn ? loaded : undefined,
        }));
      },
      pauseMs: (tookMs) => Math.max(refreshMs, tookMs * pauseFactor),
    });
    asking.current = asked;
    return () => asked.close();
  }, [key]);

  const reload = useCallback(() => {
    // What is asked for comes, however long the list is.
    length.current = Math.min(length.current, freshMax - 1);
    asking.current?.now();
  }, []);
  const cursor = state.loaded?.cursor ?? null;
  const more = useCallback(() => {
    if (cursor === null) return;
    setState((now) => ({ ...now, isGrowing: true }));
    call<Page<T>>('GET', pathWith(key, { limit: pageSize, cursor })).then(
      (page) => {
        keepShown(length.current + page.items.length);
        setState((now) => ({
          ...now,
          isGrowing: false,
          loaded: now.key === key ? grown(now.loaded, page, listed.current) : now.loaded,
        }));
      },
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        setState((now) => ({ ...now, isGrowing: false, error }));
      },
    );
  }, [key, cursor]);

  const { loaded: data, error, isLoading, isGrowing } = state;
  return { path, data, error, isLoading, isGrowing, reload, more };
}

/** Of this entry of the browser's history. [PAGED-LIST-3] */
const shownBefore = (): number => Number((history.state as { shown?: number } | null)?.shown ?? 0);
const keepShown = (shown: number) => history.replaceState({ ...history.state, shown }, '');

const nothingYet = { key: '', loaded: undefined, error: null, isLoading: true, isGrowing: false };
