/**
 * Measures a verb: reports its outcome (derived from the answer, or the code of the refusal) and its duration.
 */
import { HubError } from '../../domain/errors.ts';

export async function instrument<T>(
  work: () => Promise<T>,
  /** Must map every answer to one of a short list: the outcome is a metric label. */
  outcomeOf: (answer: T) => string,
  tell: (outcome: string, seconds: number) => void,
): Promise<T> {
  const begun = performance.now();
  const told = (outcome: string) => tell(outcome, (performance.now() - begun) / 1000);
  try {
    const answer = await work();
    told(outcomeOf(answer));
    return answer;
  } catch (error) {
    // An error that is not a refusal is a bug.
    told(error instanceof HubError ? error.code : 'internal');
    throw error;
  }
}
