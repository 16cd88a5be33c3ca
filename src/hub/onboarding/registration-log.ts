/**
 * How each partner's registration went of late, for operators who watch it. In memory alone: what came of it is in the log, and an
 * attempt that failed changed nothing.
 *
 * REGISTRATION-LOG-1  Bounded: the last steps of a partner, and of those alone whose initial token was used.
 */
import { HubError } from '../../domain/errors.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Clock } from '../../kit/clock.ts';
import type { HandshakeStep } from '../ports/overview-view.ts';

const stepsMax = 20;

export class RegistrationLog {
  readonly #clock: Clock;
  readonly #steps = new Map<PartyId, HandshakeStep[]>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Oldest first. */
  of(partnerId: PartyId): readonly HandshakeStep[] {
    return this.#steps.get(partnerId) ?? [];
  }

  note(partnerId: PartyId, step: HandshakeStep['step'], reason: string | null = null): void {
    const noted = { at: new Date(this.#clock.now()).toISOString(), step, reason };
    const before = this.of(partnerId);
    // Versions, version details and credentials are three calls with one token: the first of them tells it.
    if (step === 'called' && before.at(-1)?.step === 'called') return;
    this.#steps.set(partnerId, [...before, noted].slice(-stepsMax));
  }

  /** Notes how a registration that was asked for ended. */
  async watched<T>(partnerId: PartyId, work: () => Promise<T>): Promise<T> {
    this.note(partnerId, 'received');
    try {
      const done = await work();
      this.note(partnerId, 'connected');
      return done;
    } catch (error) {
      this.note(partnerId, 'failed', reasonOf(error));
      throw error;
    }
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof HubError) return error.detail.message ?? error.code;
  return 'the hub met an error of its own; its log says more';
}
