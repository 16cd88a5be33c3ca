/**
 * Runs a verb and tells how it ended and how long it took: what was answered, or the code of the refusal.
 */
import { HubError } from '../../domain/errors.ts';

export async function instrument<T>(
  work: () => Promise<T>,
  /** One of a short list, whatever a partner answered. */
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
    // What is not a refusal is a bug.
    told(error instanceof HubError ? error.code : 'internal');
    throw error;
  }
}
