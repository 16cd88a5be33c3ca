/**
 * A hook for an action of the operator: runs it, blocks its button meanwhile, and shows the result as a notice.
 */
import { useState } from 'preact/hooks';
import { ApiError } from './api.ts';
import { say } from './notices.ts';

export interface Action<Input extends unknown[]> {
  readonly isRunning: boolean;
  readonly run: (...input: Input) => void;
}

/** `work` resolves to the text of the notice, or to null when the page itself shows the result. */
export function useAction<Input extends unknown[]>(work: (...input: Input) => Promise<string | null>): Action<Input> {
  const [isRunning, setRunning] = useState(false);
  const run = (...input: Input) => {
    setRunning(true);
    work(...input)
      .then((told) => told !== null && say('done', told))
      .catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        say('failed', error.message);
      })
      .finally(() => setRunning(false));
  };
  return { isRunning, run };
}
