/**
 * Rules of watched sessions. [D36, D52]
 *
 * TEST-ORPHAN-RULES-1  A watch follows from a STOP_SESSION alone that was accepted, or may have been because its call was cut off, and never ends its grace early. While the store cannot write, the CPO's
 *     answer may come into the log after the watch.
 * TEST-ORPHAN-RULES-2  A case opens when the grace is over, by a sweep or at a start, and only of a session that has not ended; once per watch.
 *     To a start, the time of day at which a watch began may name a later instant, after a step back: then the grace lasts as much longer. [CLOCK-8]
 * TEST-ORPHAN-RULES-3  In the end every stopped session that did not end has a case, and no other has one that is open.
 */
import type { OrphanRecord } from '../../src/domain/orphan.ts';
import { demand, type Fact, type Facts } from './facts.ts';

export interface OrphanTimes {
  readonly graceMs: number;
  readonly sweepMs: number;
}

/** Longest that a case may take to be written when nothing is in the way. */
const writingMs = 2_000;

interface Stop {
  readonly stream: string;
  readonly at: number;
  /** The CPO accepted it after this, and before the log knew. */
  readonly requestedAt: number;
  /** Its session has ended since, whatever became of it later. */
  hasEnded: boolean;
}

interface Watch {
  readonly stream: string;
  readonly armedAt: number;
  /** The time of day that the hub recorded then. */
  readonly stamp: string;
  readonly graceEndsAt: number;
  opened: boolean;
  /** Sequence of its last fact. */
  last: number;
}

export class OrphanRules {
  readonly #facts: Facts;
  readonly #times: OrphanTimes;
  /** Accepted stops, oldest first. */
  readonly #stops: Stop[] = [];
  /** Stops of whose answer the log does not tell yet, by the stream of their command. */
  readonly #unanswered = new Map<string, Pick<Stop, 'stream' | 'requestedAt'>>();
  /** Commands whose forward failed. */
  readonly #failed = new Set<string>();
  /** Commands whose result came before their answer, and says that the CPO took them. */
  readonly #taken = new Set<string>();
  readonly #watches = new Map<string, Watch>();

  constructor(facts: Facts, times: OrphanTimes) {
    this.#facts = facts;
    this.#times = times;
  }

  committed(fact: Fact, session: string | null, requestedAt: number): void {
    const { type, data, at } = fact;
    // A result may tell that the CPO took a command whose answer was lost, after that is known or before.
    const isTaken = type === 'command.resultReceived' && data.result === 'ACCEPTED';
    if (isTaken) this.#taken.add(fact.stream);
    if (type === 'command.failed') this.#failed.add(fact.stream);
    const isTakenUnanswered =
      (isTaken && this.#failed.has(fact.stream)) || (type === 'command.failed' && this.#taken.has(fact.stream));
    if (session !== null && (mayBeAccepted(fact) || isTakenUnanswered))
      this.#stops.push({ stream: session, at, requestedAt, hasEnded: this.#hasEnded(session) });
    if (type === 'command.requested' && session !== null)
      this.#unanswered.set(fact.stream, { stream: session, requestedAt });
    if (type === 'command.answered' || type === 'command.failed') this.#unanswered.delete(fact.stream);
    if (fact.after !== null && this.#hasEnded(fact.stream)) {
      for (const stop of this.#stops) if (stop.stream === fact.stream) stop.hasEnded = true;
    }
    if (!type.startsWith('orphan.')) return;
    if (type === 'orphan.armed') this.#armed(fact);
    const watch = this.#watches.get(fact.stream);
    if (!watch) return;
    watch.last = fact.seq;
    if (type === 'orphan.opened') this.#opened(fact, watch);
    if (type === 'orphan.disarmed') this.#facts.around.hit('an orphan watch was disarmed');
    if (type === 'orphan.resolved') {
      const byPerson = String(data.note).startsWith('by hand');
      this.#facts.around.hit(
        byPerson ? 'an orphan case was resolved by an operator' : 'an orphan case was resolved by the CPO',
      );
      demand(
        byPerson || this.#hasEnded(watch.stream),
        'only the CPO or an operator resolves a case',
        () => watch.stream,
      );
    }
  }

  /** `horizon`: up to where the log was trimmed, and with it the rows of cases that were resolved. */
  final(rows: readonly OrphanRecord[], now: number, horizon: number): void {
    for (const { state, cpo, session } of rows) {
      const stream = `sessions/${cpo}/${session.toLowerCase()}`;
      if (state !== 'RESOLVED')
        demand(!this.#hasEnded(stream), 'nothing that has ended stays watched', () => `${stream} ${state}`);
    }
    for (const { stream, at, hasEnded } of this.#stops) {
      if (hasEnded || now < at + this.#times.graceMs + this.#times.sweepMs + writingMs) continue;
      const isPast = [...this.#watches.values()].some(
        (watch) => watch.stream === stream && watch.opened && watch.last <= horizon,
      );
      const isFlagged = rows.some(({ state, cpo, session }) => {
        return state !== 'GRACE' && stream === `sessions/${cpo}/${session.toLowerCase()}`;
      });
      demand(isFlagged || isPast, 'a stopped session that does not end becomes a case', () => stream);
    }
  }

  #armed({ stream, data, at, stamp }: Fact): void {
    const session = `sessions/${data.cpo}/${String(data.session).toLowerCase()}`;
    const graceEndsAt = at + Date.parse(String(data.graceEndsAt)) - Date.parse(stamp);
    const stop = [...this.#stops, ...this.#unanswered.values()].find(
      (one) => one.stream === session && graceEndsAt >= one.requestedAt + this.#times.graceMs,
    );
    demand(
      stop !== undefined && graceEndsAt <= at + this.#times.graceMs,
      'a watch follows from an accepted stop',
      () => session,
    );
    this.#watches.set(stream, { stream: session, armedAt: at, stamp, graceEndsAt, opened: false, last: 0 });
  }

  #opened({ at }: Fact, watch: Watch): void {
    const { startedAt, troubledAt, around } = this.#facts;
    const { hit, isSteady, latestOf } = around;
    hit('an orphan case was opened');
    const { sweepMs } = this.#times;
    const sweepAt = (Math.floor(watch.graceEndsAt / sweepMs) + (watch.graceEndsAt % sweepMs === 0 ? 0 : 1)) * sweepMs;
    // Sweeps come at full instants of the time of day.
    // A start opens what is overdue at once.
    const isOverdue = startedAt >= watch.graceEndsAt;
    const due = isSteady() && !isOverdue ? sweepAt : watch.graceEndsAt;
    const longerMs = Math.max(0, latestOf(watch.stamp, startedAt) - watch.armedAt);
    const lateMs = writingMs + (isSteady() ? 0 : sweepMs + longerMs);
    const where = () => `${watch.stream} at ${new Date(at).toISOString()}, due ${new Date(due).toISOString()}`;
    demand(at >= due, 'no case opens before it is due', where);
    demand(!watch.opened, 'a case opens once', where);
    demand(!this.#hasEnded(watch.stream), 'no case is opened of a session that has ended', where);
    demand(at <= due + lateMs || troubledAt >= due - writingMs, 'a case opens when it is due', where);
    watch.opened = true;
  }

  #hasEnded(stream: string): boolean {
    const { status } = this.#facts.objects.get(stream) ?? {};
    return status === 'COMPLETED' || status === 'INVALID';
  }
}

/** The CPO accepted the command, or nobody knows what it answered. */
function mayBeAccepted({ type, data }: Fact): boolean {
  if (type === 'command.answered') return data.result === 'ACCEPTED';
  return type === 'command.failed' && String(data.reason).includes('restarted meanwhile');
}
