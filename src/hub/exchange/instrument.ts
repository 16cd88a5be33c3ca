/** Measures a verb: reports its outcome (derived from the answer, or the code of the refusal) and its duration. */
import { HubError } from '../../domain/errors.ts';

export async function instrument<T>(
  work: () => Promise<T>,
  /** Must map every answer to one of a short list: the outcome is a metric label. */
  outcomeOf: (answer: T) => string,
  report: (outcome: string, seconds: number) => void,
): Promise<T> {
  const begun = performance.now();
  // An error that is not a refusal is a bug.
  let outcome = 'internal';
  try {
    const answer = await work();
    outcome = outcomeOf(answer);
    return answer;
  } catch (error) {
    if (error instanceof HubError) outcome = error.code;
    throw error;
  } finally {
    report(outcome, (performance.now() - begun) / 1000);
  }
}
