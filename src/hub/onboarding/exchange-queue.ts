/**
 * How many exchanges of credentials a partner has at once. Each calls the partner, so one that does not answer must not gather them.
 *
 * EXCHANGE-QUEUE-1  One is under way; the next begins when it has ended.
 * EXCHANGE-QUEUE-2  Two wait, each for as long as the calls of one may take. Others are refused as rate limited.
 */
import { HubError } from '../../domain/errors.ts';
import type { PartyId } from '../../domain/party.ts';
import { type Clock, withTimeout } from '../../kit/clock.ts';
import type { Recorder } from '../kernel/recorder.ts';

/** Under way and waiting, of one partner. */
const atOnceMax = 3;
/** About what the calls of one exchange may take. */
const waitMs = 20_000;

export class ExchangeQueue {
  readonly #recorder: Recorder;
  readonly #clock: Clock;
  /** Under way and waiting. */
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
    // One that is late ends when those before it have ended; its caller does not wait for that.
    if (state !== 'late') return done;
    done.catch(() => {});
    throw tooMany();
  }

  #ended(partnerId: PartyId): void {
    const rest = (this.#counts.get(partnerId) ?? 1) - 1;
    if (rest > 0) this.#counts.set(partnerId, rest);
    else this.#counts.delete(partnerId);
  }
}

const tooMany = () => new HubError('rateLimited', { retryAfterS: waitMs / 1000 });
