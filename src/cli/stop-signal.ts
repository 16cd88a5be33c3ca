/**
 * Handles SIGTERM and SIGINT for commands that run until they are stopped.
 *
 * STOP-SIGNAL-1  The first signal asks for a graceful stop. A later one ends the process at once.
 * STOP-SIGNAL-2  A signal within 2 s of the first is the same request: a terminal sends Ctrl-C to npm and to the
 *     command, and npm forwards it.
 */

export interface StopSignal {
  readonly asked: boolean;
  /** Resolves at the first signal. */
  readonly promise: Promise<void>;
}

const sameMs = 2000;

export function stopSignal(): StopSignal {
  let askedAt: number | null = null;
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  const stop = () => {
    if (askedAt !== null && performance.now() - askedAt > sameMs) process.exit(1);
    askedAt ??= performance.now();
    resolve();
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
  return {
    promise,
    get asked() {
      return askedAt !== null;
    },
  };
}
