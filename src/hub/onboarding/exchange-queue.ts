/**
 * Bounded queue of credentials exchanges per partner. Each exchange calls the partner, so without a bound a partner
 * that does not answer would pile them up.
 *
 * EXCHANGE-QUEUE-1  One exchange of a partner is in progress; the next begins when it has ended.
 * EXCHANGE-QUEUE-2  Two more may wait, each at most 20 s, which is about what the calls of one exchange may take. The
 *     hub refuses any other as rate limited.
 */
import { HubError } from '../../domain/errors.ts';
import type { PartyId } from '../../domain/party.ts';
import { type Clock, withTimeout } from '../../kit/clock.ts';
import type { Recorder } from '../kernel/recorder.ts';

/** Limit of a partner's exchanges, the one in progress and the waiting ones together. */
const atOnceMax = 3;
/**
 * How long an exchange waits for its turn, ms; also its `Retry-After`. It is about what the calls of one exchange may
 * take.
 */
const waitMs = 20_000;

export class ExchangeQueue {
  readonly #recorder: Recorder;
  readonly #clock: Clock;
  /** Exchanges in progress and waiting, by partner. */
  readonly #counts = new Map<PartyId, number>();

  constructor(recorder: Recorder, clock: Clock) {
    this.#recorder = recorder;
    this.#clock = clock;
  }

  async run<T>(partnerId: PartyId, exchange: () => Promise<T>): Promise<T> {
    const before = this.#counts.get(partnerId) ?? 0;
    if (before >= atOnceMax) throw tooMany();
    this.#counts.set(partnerId, before + 1);
    let state: 'waiting' | 'begun' | 'late' = 'waiting';
    const done = this.#recorder
      .inTurn(`exchange:${partnerId}`, async () => {
        if (state === 'late') throw tooMany();
        state = 'begun';
        return exchange();
      })
      .finally(() => this.#ended(partnerId));
    if (before > 0) {
      await withTimeout(this.#clock, waitMs, done);
      if (state === 'waiting') state = 'late';
    }
    // A late exchange is refused in its turn; its caller does not wait for that turn.
    if (state !== 'late') return done;
    done.catch(() => {});
    throw tooMany();
  }

  /** Whether an exchange of the partner is in progress. */
  has(partnerId: PartyId): boolean {
    return this.#counts.has(partnerId);
  }

  #ended(partnerId: PartyId): void {
    const rest = (this.#counts.get(partnerId) ?? 1) - 1;
    if (rest > 0) this.#counts.set(partnerId, rest);
    else this.#counts.delete(partnerId);
  }
}

const tooMany = () => new HubError('rateLimited', { retryAfterS: waitMs / 1000 });
