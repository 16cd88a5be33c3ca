/**
 * Reads the CommandResponse by which a CPO answers a command.
 */
import type { Outcome } from '../../domain/errors.ts';
import { setMembers } from '../../domain/json-text.ts';
import { enumValue, isDigits } from '../../domain/quirks.ts';
import type { CommandAnswer } from '../ports/hub.ts';
import { unambiguousText } from './sync-calls.ts';

/** Upper bound of the wait for a result, seconds. */
const timeoutMaxS = 86_400;

/**
 * The CPO's CommandResponse, with the default for an unusable `timeout`; null when unusable itself. A refusal has no result to wait for:
 * its `timeout` of 0 passes. With ACCEPTED 0 is unusable: the eMSP would take a command that goes on for failed. [D28, D72]
 */
export function readAnswer(outcome: Outcome, defaultTimeoutS: number): CommandAnswer | null {
  const { result: told, timeout } = (outcome.data ?? {}) as { result?: unknown; timeout?: unknown };
  const result = enumValue(told);
  const text = unambiguousText(outcome, 'result');
  if (typeof result !== 'string' || result === '' || text === null) return null;
  const seconds = isDigits(timeout) ? Number(timeout) : timeout;
  const isEnough = (of: number) => of > 0 || (of === 0 && result !== 'ACCEPTED');
  const isUsable = typeof seconds === 'number' && Number.isFinite(seconds) && isEnough(seconds);
  const used = isUsable && seconds > 0 ? Math.min(seconds, timeoutMaxS) : defaultTimeoutS;
  const isPlain = isUsable && seconds === timeout;
  return { result, timeout: used, text: isPlain ? text : setMembers(text, new Map([['timeout', String(used)]])) };
}
