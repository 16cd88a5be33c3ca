/**
 * Rate limits, by network address, of callers before a door has accepted a token of theirs. They do not affect a
 * partner's valid token, nor the token of an operator who was accepted from that address before: callers who share an
 * address with an attacker keep working.
 *
 * VISITORS-1  Without an accepted token an address gets `rateUnauthenticatedPerS` answers a second, refusals of what is no request included. A further answer
 *     waits for its turn on its open connection; when the wait would exceed `waitMsMax`, the connection is closed
 *     without an answer. Health checks have a limit of their own.
 * VISITORS-2  An address may try `rateFailedTokensPerS` wrong operator tokens a second. Beyond that a right one is
 *     refused, too, else the limit would not slow a guesser down; only the token of an operator who was accepted from
 *     this address before still works.
 * VISITORS-3  Refusals are logged at most once a second per address and `linesPerS` times a second in total; each line
 *     has the count of that address's refusals since its last line. So are those of parties that exceed their limits, by
 *     party, with as many lines of their own: however many addresses strangers have, these are logged.
 */
import { pacer } from '../kit/pacer.ts';
import { type ClientAddresses, clientAddresses } from './client-connection.ts';

export interface VisitorLimits {
  /** Networks in CIDR form whose `X-Forwarded-For` counts. */
  readonly trustedProxies: readonly string[];
  readonly rateUnauthenticatedPerS: number;
  readonly rateFailedTokensPerS: number;
}

export interface Visitors extends ClientAddresses {
  /** How long the answer to a request without an accepted token waits, ms; null: it is not sent. */
  turn(address: string, isHealthCheck: boolean): number | null;
  /** Counts a wrong operators' token; false: it is one too many. */
  failed(address: string): boolean;
  /** Whether a right token of this name may be accepted from the address; true makes it known there. */
  mayEnter(address: string, name: string): boolean;
  /** Counts a refusal; the count for its log line, or 0 when none is due. */
  refused(address: string): number;
  /** The same of a party. */
  partyRefused(party: string): number;
}

/** Longer than most clients wait, so that an attacker's connections are of no use to it for long. */
const waitMsMax = 30_000;
const linesPerS = 20;
/** Names of tokens at addresses, and addresses, or parties, with refusals that were not logged. */
const keptMax = 10_000;

/** `now` returns monotonic ms. */
export function createVisitors(limits: VisitorLimits, now: () => number): Visitors {
  const answers = pacer(limits.rateUnauthenticatedPerS, now);
  const guesses = pacer(limits.rateFailedTokensPerS, now);
  const entered = new Set<string>();
  return {
    ...clientAddresses(limits.trustedProxies),
    turn: (address, isHealthCheck) => answers.take(isHealthCheck ? `${address} health` : address, waitMsMax),
    failed: (address) => guesses.take(address) !== null,
    mayEnter(address, name) {
      const key = `${address} ${name}`;
      if (entered.has(key)) return true;
      if (!guesses.isFree(address)) return false;
      if (entered.size >= keptMax) entered.clear();
      entered.add(key);
      return true;
    },
    refused: refusals(now),
    partyRefused: refusals(now),
  };
}

/** Counts refusals by key; returns the count for a log line, or 0 when none is due. [VISITORS-3] */
function refusals(now: () => number): (key: string) => number {
  const lines = pacer(1, now);
  const allLines = pacer(linesPerS, now);
  const unsaid = new Map<string, number>();
  return (key) => {
    const count = (unsaid.get(key) ?? 0) + 1;
    if (lines.take(key) === null || allLines.take('') === null) {
      if (unsaid.has(key) || unsaid.size < keptMax) unsaid.set(key, count);
      return 0;
    }
    unsaid.delete(key);
    return count;
  };
}
