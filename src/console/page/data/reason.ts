/**
 * The question why an operator acts, put when the hub refuses an act for want of a reason (`HUB_REQUIRE_REASON`). [D91]
 */
import { signal } from '@preact/signals';

/** Takes the answer, null for none; null while nothing is asked. */
export const asked = signal<((reason: string | null) => void) | null>(null);
let answer: Promise<string | null> | null = null;

/** Resolves to the operator's answer, null for none. Acts that need a reason at the same time share one question. */
export function askReason(): Promise<string | null> {
  answer ??= new Promise((resolve) => {
    asked.value = (reason) => {
      asked.value = null;
      answer = null;
      resolve(reason);
    };
  });
  return answer;
}
