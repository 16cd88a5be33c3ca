/**
 * A hook for the live end of the log.
 *
 * EVENT-TAIL-1  Memory is bounded: the tail keeps the newest 1,000 events, and as many that arrive while it is paused.
 * EVENT-TAIL-2  The hub is polled at most once a second, for at most as many events as a page can show; events that did
 *     not fit are counted, and the page shows the count.
 * EVENT-TAIL-3  A paused tail does not move; events that arrive meanwhile are counted.
 */
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import type { EventPage } from '../../../api/events.ts';
import { ApiError, call, pathWith, type Query } from './api.ts';
import { polling } from './polling.ts';
import { begun, extended, grownBy, nothing, resumed, type Tail } from './tail.ts';

export interface EventTail extends Tail {
  readonly pause: () => void;
  readonly resume: () => void;
  readonly searchBack: () => void;
}

const firstPage = 100;
/** Most events taken per poll; nobody reads more than this in one second. */
const perPollMax = 200;
const everyMs = 1_000;

export function useEventTail(filter: Query): EventTail {
  const key = pathWith('', { ...filter, order: 'newest' });
  const [tail, setTail] = useState<Tail>(nothing);
  const shownKey = useRef(key);

  useEffect(() => {
    let last: EventPage['last_seq'] | null = null;
    shownKey.current = key;
    setTail(({ isPaused }) => ({ ...nothing, isPaused }));
    const asked = polling({
      async ask(signal) {
        const range = last === null ? { limit: firstPage } : { after: last, limit: perPollMax };
        const page = await call<EventPage>('GET', pathWith(`/events${key}`, range), undefined, signal);
        const from = last;
        last = page.last_seq;
        setTail((now) => (from === null ? begun(now, page) : grownBy(now, page, from)));
      },
      failed: ({ message }) => setTail((now) => ({ ...now, error: message, isLoading: false })),
      pauseMs: () => everyMs,
    });
    return () => asked.close();
  }, [key]);

  const pause = useCallback(() => setTail((now) => ({ ...now, isPaused: true })), []);
  const resume = useCallback(() => setTail(resumed), []);
  const { older } = tail;
  const searchBack = useCallback(() => {
    if (older === null) return;
    setTail((now) => ({ ...now, isSearching: true }));
    const path = pathWith(`/events${key}`, { cursor: older, limit: firstPage });
    call<EventPage>('GET', path).then(
      (page) => shownKey.current === key && setTail((now) => extended(now, page)),
      (error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        setTail((now) => ({ ...now, isSearching: false, error: error.message }));
      },
    );
  }, [key, older]);
  return { ...tail, pause, resume, searchBack };
}
