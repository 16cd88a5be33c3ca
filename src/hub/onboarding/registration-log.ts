/**
 * Recent steps of each partner's registration, for operators who follow it. They are kept in memory only: the event log
 * has a successful registration, and a failed attempt changes nothing.
 *
 * REGISTRATION-LOG-1  Memory is bounded: it keeps the last `stepsMax` steps per partner, and only for partners that
 *     used their initial token.
 */
import type { HandshakeStep } from '../../api/parties.ts';
import { HubError } from '../../domain/errors.ts';
import { instantText } from '../../domain/instant.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Clock } from '../../kit/clock.ts';

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
    const noted = { at: instantText(this.#clock.wall()), step, reason };
    const before = this.of(partnerId);
    // Versions, version details and credentials are three calls with one token: only the first is noted.
    if (step === 'called' && before.at(-1)?.step === 'called') return;
    this.#steps.set(partnerId, [...before, noted].slice(-stepsMax));
  }

  /** Runs a registration and notes its start and its result. */
  async watched<T>(partnerId: PartyId, first: 'received' | 'begun', work: () => Promise<T>): Promise<T> {
    this.note(partnerId, first);
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
  if (error instanceof HubError) return error.detail.inside ?? error.detail.message ?? error.code;
  return 'the hub met an error of its own; its log says more';
}
