/**
 * A hook for a list of deliveries that loads pages on demand and refreshes meanwhile.
 *
 * DELIVERY-LIST-1  Loaded deliveries keep their place: a refresh changes rows in place and puts new ones in front.
 * DELIVERY-LIST-2  The slower the hub answers a search, the less often the search is refreshed.
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { DeliveryView } from '../../../api/deliveries.ts';
import { ApiError, call, type Page, pathWith, type Query } from './api.ts';
import { grown, type Loaded, ofPage, refreshed } from './loaded.ts';
import type { Queried } from './query.ts';

/** Filters of deliveries as in the address; '' for none. */
export type DeliveryFilterValues = Readonly<Record<'state' | 'receiver' | 'module' | 'object' | 'from' | 'to', string>>;

export interface DeliveryList extends Queried<Loaded> {
  readonly isGrowing: boolean;
  readonly more: () => void;
}

const pageSize = 50;
const refreshedMax = 200;
/** A list of this many deliveries or more is not refreshed any more. */
export const freshMax = 2_000;
const refreshMs = 4_000;
/**
 * The pause after a refresh is at least this many times as long as the refresh took, so that refreshing keeps the hub
 * busy less than 5 % of the time.
 */
const pauseFactor = 20;

interface State {
  readonly key: string;
  readonly loaded: Loaded | undefined;
  readonly error: ApiError | null;
  readonly isLoading: boolean;
  readonly isGrowing: boolean;
}

export function useDeliveryList(filters: DeliveryFilterValues): DeliveryList {
  const key = pathWith('/deliveries', filters);
  const [state, setState] = useState<State>({ ...nothingYet, key });
  const length = useRef(0);
  const askNow = useRef<() => void>(() => {});
  length.current = state.key === key ? (state.loaded?.items.length ?? 0) : 0;

  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    setState(({ loaded }) => ({ ...nothingYet, key, loaded }));
    let isOwn = false;

    const ask = async () => {
      clearTimeout(timer);
      const startedAt = performance.now();
      const limit = Math.max(pageSize, Math.min(length.current, refreshedMax));
      const hadOwn = isOwn;
      try {
        const page = await call<Page<DeliveryView>>('GET', withMore(key, { limit }), undefined, abort.signal);
        isOwn = true;
        setState(({ loaded, isGrowing }) => ({
          ...{ key, isGrowing, error: null, isLoading: false },
          loaded: hadOwn && loaded ? refreshed(loaded, page) : ofPage(page),
        }));
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof ApiError)) throw error;
        // Deliveries of another filter are not shown as results of this one.
        setState(({ loaded, isGrowing }) => ({
          ...{ key, isGrowing, error, isLoading: false },
          loaded: hadOwn ? loaded : undefined,
        }));
      }
      const pauseMs = Math.max(refreshMs, (performance.now() - startedAt) * pauseFactor);
      if (!abort.signal.aborted) timer = setTimeout(whenSeen, pauseMs);
    };
    const whenSeen = () => {
      if (document.visibilityState === 'visible' && length.current < freshMax) void ask();
      else timer = setTimeout(whenSeen, refreshMs);
    };
    askNow.current = () => void ask();
    void ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key]);

  const reload = useCallback(() => askNow.current(), []);
  const cursor = state.loaded?.cursor ?? null;
  const more = useCallback(() => {
    if (cursor === null) return;
    setState((now) => ({ ...now, isGrowing: true }));
    call<Page<DeliveryView>>('GET', withMore(key, { limit: pageSize, cursor })).then(
      (page) =>
        setState((now) => ({
          ...now,
          isGrowing: false,
          loaded: now.key === key ? grown(now.loaded, page) : now.loaded,
        })),
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        setState((now) => ({ ...now, isGrowing: false, error }));
      },
    );
  }, [key, cursor]);

  const { loaded: data, error, isLoading, isGrowing } = state;
  return { data, error, isLoading, isGrowing, reload, more };
}

const nothingYet = { key: '', loaded: undefined, error: null, isLoading: true, isGrowing: false };

const withMore = (path: string, more: Query) => path + pathWith('', more).replace('?', path.includes('?') ? '&' : '?');
