/**
 * Traffic of a simulated CPO's own: sessions of drivers with a card, begun at a steady rate, each from PENDING to its
 * CDR.
 */
import { every, sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { type CdrToken, newSession, type Session } from './bodies.ts';
import type { Cpo } from './cpo.ts';

export interface TrafficOptions {
  /** From the beginning of one session to that of the next, milliseconds. */
  readonly everyMs: number;
  /** Between two pushes of a session, milliseconds. */
  readonly stepMs?: number;
  /** Called when no session could begin, and when one ended early. */
  readonly onProblem: (problem: string) => void;
}

/** Begins sessions until the returned function is called; those that run go on to their CDR. */
export function runSessions(cpo: Cpo, { everyMs, stepMs = 1_000, onProblem }: TrafficOptions): () => void {
  let begun = 0;
  const begin = async () => {
    const token = await tokenOf(cpo, begun++);
    if (token === null) return onProblem('no eMSP that is routed here has a token: no session begins');
    await charge(cpo, token, stepMs);
  };
  return every(systemClock, everyMs, () => void begin().catch((error: unknown) => onProblem(String(error))));
}

/** One session: PENDING, ACTIVE, three meter readings, COMPLETED, CDR. */
async function charge(cpo: Cpo, token: CdrToken, stepMs: number): Promise<void> {
  const location = [...cpo.locations.values()].at(-1) ?? (await cpo.pushLocation());
  const authorized = await authorization(cpo, token, location.id);
  if (authorized === null) throw new Error(`${token.uid} may not charge: its eMSP does not allow it`);
  const session = { ...newSession(cpo, cpo.stamp(), token, location), ...authorized };
  const steps = [
    () => cpo.pushSession(session),
    () => cpo.startCharging(session),
    ...[2.5, 6.25, 9.75].map((kwh) => () => cpo.meter(session, kwh)),
    () => cpo.completeCharging(session),
    async () => void (await cpo.bill(session)),
  ];
  for (const [index, step] of steps.entries()) {
    if (index > 0) await sleep(systemClock, stepMs);
    await step();
  }
}

/** How the token was authorized: by its eMSP, else, when that cannot be asked, by the whitelist; null: not at all. */
async function authorization(cpo: Cpo, token: CdrToken, locationId: string): Promise<Partial<Session> | null> {
  const asked = await cpo.authorize(token.uid, token, { type: token.type, locationId }).catch(() => null);
  if (asked === null) return { auth_method: 'WHITELIST' };
  const { allowed, authorization_reference: reference } = asked.data as Record<string, unknown>;
  if (String(allowed).toUpperCase() !== 'ALLOWED') return null;
  return { auth_method: 'AUTH_REQUEST', ...(typeof reference === 'string' && { authorization_reference: reference }) };
}

/** Tokens in turn: those that eMSPs pushed here, else those that the hub lists. */
async function tokenOf(cpo: Cpo, index: number): Promise<CdrToken | null> {
  if (cpo.tokens.size === 0) {
    for (const token of (await cpo.pull('tokens')).items as CdrToken[]) cpo.keepToken(token);
  }
  const tokens = [...cpo.tokens.values()].filter(({ valid }) => valid);
  return tokens[index % tokens.length] ?? null;
}
