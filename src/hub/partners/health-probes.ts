/**
 * Probes silent partners by a GET of their versions URL, to find out whether the hub can reach them.
 * [interface, What the service does 5; D34, D42]
 *
 * HEALTH-PROBES-1  A partner that called the hub within the probe interval is alive and is not probed. An offline
 *     partner, and one whose last probe failed, is always probed: its calls do not prove that the hub can reach it.
 * HEALTH-PROBES-2  The result of a probe goes only to the partner's actor, which alone decides whether the partner is
 *     offline or back.
 * HEALTH-PROBES-3  A partner that is pull only is never called: that it called within the interval counts as a probe that
 *     succeeded, and that it did not as one that failed. [D89]
 */
import { partnerMachine } from '../../../machines/partner.ts';
import type { ProbeView } from '../../api/parties.ts';
import { HubError } from '../../domain/errors.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import { Running } from '../../kit/concurrency.ts';
import type { Context } from '../kernel/context.ts';
import { partnerStream, tokenFor } from '../kernel/directory.ts';

/** Time-out of a probe, ms; a partner that answers later counts as unreachable. */
const probeTimeoutMs = 10_000;

const timerOf = (partnerId: PartyId) => `${partnerStream(partnerId)}#probe`;

export class HealthProbes {
  readonly #context: Context;
  readonly #running = new Running();
  #closed = false;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Checks the partner after each interval from now on; `first`: the part of it that the first one takes. */
  watch(partnerId: PartyId, first = 1): void {
    const { timers, ports, settings } = this.#context;
    const intervalMs = settings.probeIntervalS * 1000;
    timers.arm(timerOf(partnerId), ports.clock.now() + intervalMs * first, () => {
      const probing = this.#lookAfter(partnerId, intervalMs)
        .catch((error: unknown) => ports.log.error({ err: error, partyId: partnerId }, 'could not probe a partner'))
        .finally(() => {
          if (!this.#closed) this.watch(partnerId);
        });
      this.#running.add(probing);
    });
  }

  /** Probes the partner now, silent or not. */
  async probe(partner: Partner): Promise<ProbeView> {
    const { ports, supervisor } = this.#context;
    if (partner.partnerToken === null || partner.url === null) {
      throw new HubError('conflict', { message: `${partner.id} is not registered: there is nothing to call` });
    }
    const outcome = await ports.client.call({
      method: 'GET',
      url: partner.url,
      endpoint: partner.url,
      from: null,
      to: null,
      body: null,
      token: tokenFor(ports, partner),
      encoding: partner.settings.token_encoding,
      requestId: ports.secrets.newId(),
      correlationId: ports.secrets.newId(),
      timeoutMs: probeTimeoutMs,
      resend: true,
      about: { partner: partner.id, module: 'versions', object: null },
    });
    this.#context.contacts.called(partner.id, outcome, { what: 'probe' });
    const reached = outcome.class === 'delivered';
    const type = reached ? 'probe.succeeded' : 'probe.failed';
    supervisor.send(partnerStream(partner.id), { type, at: ports.clock.now() });
    const latency_ms = Math.round(outcome.durationMs * 10) / 10;
    if (reached) return { status: 'reachable', latency_ms };
    return { status: 'unreachable', latency_ms, error: `${outcome.class}: ${outcome.message}` };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#running.ended();
  }

  async #lookAfter(partnerId: PartyId, intervalMs: number): Promise<void> {
    const { directory, ports, supervisor } = this.#context;
    const partner = directory.partner(partnerId);
    if (!partner) return;
    const actor = partnerStream(partnerId);
    const contact = directory.lastContact(partnerId);
    const isSilent = contact === null || ports.clock.now() - contact >= intervalMs;
    if (partner.settings.pull_only) {
      const type = isSilent ? 'probe.failed' : 'probe.succeeded';
      return supervisor.send(actor, { type, at: ports.clock.now() });
    }
    const isFailing = (supervisor.snapshot(partnerMachine, actor)?.context.failingSince ?? null) !== null;
    const isDue = isSilent || isFailing || partner.status === 'OFFLINE';
    if (partner.partnerToken !== null && isDue) await this.probe(partner);
  }
}
