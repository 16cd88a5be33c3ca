/**
 * Short-lived notices for the operator: an action succeeded, or why it failed.
 */
import { signal } from '@preact/signals';

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
