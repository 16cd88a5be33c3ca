/**
 * When and from where each token of a partner was last used, and requests from where the partner may not call. In memory:
 * it begins with the start of the process.
 */
import type { PartyView } from '../../api/parties.ts';
import { instantText } from '../../domain/instant.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { HubPorts } from '../ports/ports.ts';

/** Refusals of a partner are logged at most once per this interval, with their count. */
const logEveryMs = 60_000;

interface Use {
  readonly address: string;
  /** Hub time. */
  readonly at: number;
}

interface Refused extends Use {
  readonly count: number;
  readonly loggedAt: number;
}

type Tokens = PartyView['tokens'];

export class TokenUses {
  readonly #ports: Pick<HubPorts, 'clock' | 'log' | 'isWithin'>;
  /** By partner and digest; digests that are not in force any more are removed when another one is first used. */
  readonly #uses = new Map<PartyId, Map<string, Use>>();
  readonly #refused = new Map<PartyId, Refused>();

  constructor(ports: Pick<HubPorts, 'clock' | 'log' | 'isWithin'>) {
    this.#ports = ports;
  }

  /** False when the partner's `allow_from` does not have the address; that is counted and logged. */
  mayCall({ id, settings: { allow_from = [] } }: Partner, address: string): boolean {
    const { clock, log, isWithin } = this.#ports;
    if (allow_from.length === 0 || isWithin(allow_from, address)) return true;
    const at = clock.now();
    const { count = 0, loggedAt = Number.NEGATIVE_INFINITY } = this.#refused.get(id) ?? {};
    const isDue = at - loggedAt >= logEveryMs;
    this.#refused.set(id, { address, at, count: count + 1, loggedAt: isDue ? at : loggedAt });
    if (isDue) {
      const line = { partyId: id, address, count: count + 1 };
      log.warn(line, 'a token was used from outside the allow_from of its partner, and refused');
    }
    return false;
  }

  used({ id, initialTokenDigest, hubTokenDigest, formerToken }: Partner, digest: string, address: string): void {
    const of = this.#uses.get(id) ?? new Map<string, Use>();
    this.#uses.set(id, of);
    if (!of.has(digest)) {
      const inForce = [initialTokenDigest, hubTokenDigest, formerToken?.digest];
      for (const old of of.keys()) if (!inForce.includes(old)) of.delete(old);
    }
    of.set(digest, { address, at: this.#ports.clock.now() });
  }

  of(
    id: PartyId,
    digests: Readonly<Record<Tokens[number]['kind'], string | null>>,
  ): Pick<PartyView, 'tokens' | 'refused_from'> {
    const shown = (at: number) => instantText(this.#ports.clock.stamp(at));
    const tokens = (['hub', 'former', 'initial'] as const).flatMap((kind): Tokens => {
      const digest = digests[kind];
      if (digest === null) return [];
      const use = this.#uses.get(id)?.get(digest);
      return [{ kind, last_used: use ? shown(use.at) : null, address: use?.address ?? null }];
    });
    const refused = this.#refused.get(id);
    const refused_from = refused ? { count: refused.count, address: refused.address, at: shown(refused.at) } : null;
    return { tokens, refused_from };
  }
}
