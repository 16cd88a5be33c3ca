/**
 * Log lines of one cause that may come as often as requests do: the first at once, then at most one per interval, with the
 * number of times since the one before.
 */
import { background, type Clock } from './clock.ts';

/**
 * `say` gets what was passed last and how often it came; what differs in `key` is said apart. Once an interval has passed
 * without it, a key is forgotten, so memory is bounded by the keys of one interval.
 */
export function sampled<Said>(
  clock: Clock,
  everyMs: number,
  say: (said: Said, count: number) => void,
): (said: Said, key?: string) => void {
  const waiting = new Map<string, { said: Said; count: number }>();
  const begin = (said: Said, key: string, count: number) => {
    say(said, count);
    waiting.set(key, { said, count: 0 });
    background(clock.setTimeout(passed, everyMs, key));
  };
  const passed = (key: string) => {
    const { said, count } = waiting.get(key) as { said: Said; count: number };
    waiting.delete(key);
    if (count > 0) begin(said, key, count);
  };
  return (said, key = '') => {
    const known = waiting.get(key);
    if (!known) return begin(said, key, 1);
    known.said = said;
    known.count += 1;
  };
}
