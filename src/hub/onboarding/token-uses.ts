/**
 * When and from where each token of a partner was last used, and requests from where the partner may not call. In memory:
 * it begins with the start of the process, of several nodes when this one becomes the owner.
 *
 * TOKEN-USES-1  A door tells the owner the last use of each token, and the refusals of each partner, once in `tellEveryMs` at most,
 *     those of all partners in one turn of the event loop: they share messages.
 */
import type { PartyView } from '../../api/parties.ts';
import { instantText } from '../../domain/instant.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import type { TokenUse } from '../ports/ports.ts';

/** Refusals of a partner are logged at most once per this interval, with their count. */
const logEveryMs = 60_000;
const tellEveryMs = 1_000;
const timer = 'token uses';

interface Use {
  readonly address: string;
  /** Hub time. */
  readonly at: number;
}

interface Unreported {
  readonly party: PartyId;
  readonly digest: string;
  count: number;
}

interface Refused extends Use {
  readonly count: number;
  readonly loggedAt: number;
}

type Tokens = PartyView['tokens'];

export class TokenUses {
  readonly #context: Context;
  /** By partner and digest; digests that are not in force any more are removed when another one is first used. */
  readonly #uses = new Map<PartyId, Map<string, Use>>();
  readonly #refused = new Map<PartyId, Refused>();
  /** Uses and refusals that the owner does not know, by partner and digest; of a refusal the digest is empty. [TOKEN-USES-1] */
  #unreported = new Map<string, Unreported>();

  constructor(context: Context) {
    this.#context = context;
  }

  /** False when the partner's `allow_from` does not have the address; that is counted and logged. */
  mayCall({ id, settings: { allow_from = [] } }: Partner, address: string): boolean {
    const { clock, log, isWithin } = this.#context.ports;
    if (allow_from.length === 0 || isWithin(allow_from, address)) return true;
    const at = clock.now();
    const { count, loggedAt } = this.#refuse(id, { address, at }, 1);
    this.#tell(id, '');
    if (at - loggedAt >= logEveryMs) {
      this.#refused.set(id, { address, at, count, loggedAt: at });
      const line = { partyId: id, address, count };
      log.warn(line, 'a token was used from outside the allow_from of its partner, and refused');
    }
    return false;
  }

  used(partner: Partner, digest: string, address: string): void {
    this.#use(partner, digest, { address, at: this.#context.ports.clock.now() });
    this.#tell(partner.id, digest);
  }

  /** Notes what a door reports. [TOKEN-USES-1] */
  note({ party, digest, address, count, ageMs }: TokenUse): void {
    const { directory, ports } = this.#context;
    const partner = directory.partner(party);
    const use = { address, at: ports.clock.now() - ageMs };
    if (partner && digest !== '') this.#use(partner, digest, use);
    else if (partner) this.#refuse(party, use, count);
  }

  isUsed(id: PartyId, digest: string): boolean {
    return this.#uses.get(id)?.has(digest) ?? false;
  }

  of(
    id: PartyId,
    digests: Readonly<Record<Tokens[number]['kind'], string | null>>,
  ): Pick<PartyView, 'tokens' | 'refused_from'> {
    const shown = (at: number) => instantText(this.#context.ports.clock.stamp(at));
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

  #use({ id, initialTokenDigest, hubTokenDigest, formerToken }: Partner, digest: string, use: Use): void {
    const of = this.#uses.get(id) ?? new Map<string, Use>();
    this.#uses.set(id, of);
    if (!of.has(digest)) {
      const inForce = [initialTokenDigest, hubTokenDigest, formerToken?.digest];
      for (const old of of.keys()) if (!inForce.includes(old)) of.delete(old);
    }
    of.set(digest, latest(of.get(digest), use));
  }

  #refuse(id: PartyId, use: Use, more: number): Refused {
    const before = this.#refused.get(id);
    const { address, at } = latest(before, use);
    const { count = 0, loggedAt = Number.NEGATIVE_INFINITY } = before ?? {};
    const refused = { address, at, count: count + more, loggedAt };
    this.#refused.set(id, refused);
    return refused;
  }

  #tell(party: PartyId, digest: string): void {
    const { timers, ports } = this.#context;
    const { clock, tellUse } = ports;
    if (!tellUse) return;
    const key = `${party} ${digest}`;
    const unreported = this.#unreported.get(key);
    if (unreported) unreported.count += 1;
    else this.#unreported.set(key, { party, digest, count: 1 });
    if (this.#unreported.size > 1 || unreported) return;
    timers.arm(timer, clock.now() + tellEveryMs, () => this.#tellAll(tellUse));
  }

  #tellAll(tellUse: (use: TokenUse) => void): void {
    const unreported = this.#unreported;
    this.#unreported = new Map();
    const now = this.#context.ports.clock.now();
    for (const { party, digest, count } of unreported.values()) {
      const use = digest === '' ? this.#refused.get(party) : this.#uses.get(party)?.get(digest);
      if (use) tellUse({ party, digest, address: use.address, count, ageMs: now - use.at });
    }
  }
}

const latest = (before: Use | undefined, use: Use): Use => (before && before.at > use.at ? before : use);
