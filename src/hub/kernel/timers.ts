/**
 * Named timers of the hub. One deadline actor keeps them all, so the process has one platform timer for them.
 */
import { type Actor, createActor } from 'xstate';
import { type DeadlineEvent, deadline } from '../../../machines/deadline.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Log } from '../ports/ports.ts';

export class Timers {
  readonly #actor: Actor<typeof deadline>;
  readonly #passed = new Map<string, (at: number) => void>();

  constructor(clock: Clock, log: Log) {
    const passed = (id: string, at: number) => {
      const fire = this.#passed.get(id);
      this.#passed.delete(id);
      try {
        fire?.(at);
      } catch (error) {
        log.error({ err: error, deadline: id }, 'the handler of a deadline failed');
      }
    };
    this.#actor = createActor(deadline, { input: { clock, passed } });
    this.#actor.subscribe({ error: (error) => log.error({ err: error }, 'the deadline actor failed') });
    this.#actor.start();
  }

  /** Calls `fire` once when the instant (hub time, ms) has passed; arming the same id again moves the deadline. */
  arm(id: string, at: number, fire: (at: number) => void): void {
    // NaN or Infinity would stay at the head of the queue for ever and block every other timer.
    if (!Number.isFinite(at)) throw new RangeError(`deadline ${id}: ${at} is not an instant`);
    this.#passed.set(id, fire);
    this.#send({ type: 'deadline.arm', id, at });
  }

  disarm(id: string): void {
    if (this.#passed.delete(id)) this.#send({ type: 'deadline.disarm', id });
  }

  /** Number of armed timers. */
  get size(): number {
    return this.#passed.size;
  }

  close(): void {
    this.#actor.stop();
  }

  #send(event: DeadlineEvent): void {
    this.#actor.send(event);
  }
}
