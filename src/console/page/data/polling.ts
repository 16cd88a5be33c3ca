/**
 * Asks the hub again and again.
 *
 * POLLING-1  One request at a time: what is asked for during a request follows its answer, once. So no answer is replaced by
 *     an older one, and a slow hub gets no queue of requests.
 * POLLING-2  A hidden page polls nothing.
 */
import { ApiError } from './api.ts';

interface Polled {
  /** One request, which ends with the signal; rejects with an `ApiError`. */
  readonly ask: (signal: AbortSignal) => Promise<void>;
  readonly failed: (error: ApiError) => void;
  /** The pause after a request that took so long, milliseconds; 0: none follows by itself. */
  readonly pauseMs: (tookMs: number) => number;
}

export interface Polling {
  /** Asks now. */
  now(): void;
  close(): void;
}

/** Asks at once, and goes on until it is closed. */
export function polling({ ask, failed, pauseMs }: Polled): Polling {
  const ending = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isAsking = false;
  let isWanted = false;

  const run = async (): Promise<void> => {
    isWanted = isAsking;
    if (isAsking) return;
    isAsking = true;
    clearTimeout(timer);
    const startedAt = performance.now();
    try {
      await ask(ending.signal);
    } catch (error) {
      if (ending.signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      failed(error);
    } finally {
      isAsking = false;
    }
    if (ending.signal.aborted) return;
    const ms = pauseMs(performance.now() - startedAt);
    if (isWanted) void run();
    else if (ms > 0) rest(ms);
  };
  const rest = (ms: number): void => {
    timer = setTimeout(() => (document.visibilityState === 'visible' ? void run() : rest(ms)), ms);
  };
  void run();
  return {
    now: () => void run(),
    close() {
      ending.abort();
      clearTimeout(timer);
    },
  };
}
