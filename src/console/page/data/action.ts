/**
 * A hook for an action of the operator: runs it, blocks its button meanwhile, and shows the result as a notice; and the notices.
 */

import { signal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { ApiError } from './api.ts';

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
      .then((outcome) => outcome !== null && say('done', outcome))
      .catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
        say('failed', error.message);
      })
      .finally(() => setRunning(false));
  };
  return { isRunning, run };
}

// Short-lived notices for the operator: an action succeeded, or why it failed.

export interface Notice {
  readonly id: number;
  readonly kind: 'done' | 'failed';
  readonly text: string;
}

const shownMs = { done: 5_000, failed: 15_000 };
const shownMax = 4;
let count = 0;

export const notices = signal<readonly Notice[]>([]);

export function say(kind: Notice['kind'], text: string): void {
  const notice = { id: ++count, kind, text };
  notices.value = [...notices.value, notice].slice(-shownMax);
  setTimeout(() => dismiss(notice.id), shownMs[kind]);
}

export function dismiss(id: number): void {
  notices.value = notices.value.filter((notice) => notice.id !== id);
}
