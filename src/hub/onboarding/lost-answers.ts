/**
 * Finds exchanges of credentials whose answer a partner probably lost: it refuses the token that it gave in the exchange, as one that
 * took it back, and has not used the hub token that answered it.
 *
 * LOST-ANSWERS-1  A PUT is known from the record of the partner, as long as the former hub token is in it; a POST since the start of
 *     the process.
 * LOST-ANSWERS-2  The log warns once of each exchange: a partner may refuse one module and take another.
 */
import type { PartyView } from '../../api/parties.ts';
import { instantText } from '../../domain/instant.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import type { TokenUses } from './token-uses.ts';

export class LostAnswers {
  readonly #context: Context;
  readonly #uses: Pick<TokenUses, 'isUsed'>;
  /** For each partner, the digest of the hub token that answered its last POST. */
  readonly #answered = new Map<PartyId, string>();
  /** For each partner, the digest of the hub token of the exchange that the log warned of. [LOST-ANSWERS-2] */
  readonly #warned = new Map<PartyId, string | null>();

  constructor(context: Context, uses: Pick<TokenUses, 'isUsed'>) {
    this.#context = context;
    this.#uses = uses;
    context.contacts.onTokenRefused((id) => this.#refused(id));
  }

  /** A POST is answered with this hub token. */
  answered(id: PartyId, hubTokenDigest: string): void {
    this.#answered.set(id, hubTokenDigest);
  }

  /** That a partner refuses the token of the hub's calls, as operators see it; null when it does not. */
  view(partner: Partner): PartyView['token_refused'] {
    const { contacts, ports } = this.#context;
    const refused = contacts.tokenRefused(partner.id);
    if (!refused) return null;
    const { since, calls, httpStatus: http_status } = refused;
    const shown = instantText(ports.clock.stamp(since));
    return { since: shown, calls, http_status, unconfirmed: this.#unconfirmed(partner) };
  }

  /** [LOST-ANSWERS-1] */
  #unconfirmed({ id, hubTokenDigest, formerToken }: Partner): 'POST' | 'PUT' | null {
    if (hubTokenDigest === null || this.#uses.isUsed(id, hubTokenDigest)) return null;
    if (formerToken) return 'PUT';
    return this.#answered.get(id) === hubTokenDigest ? 'POST' : null;
  }

  #refused(partyId: PartyId): void {
    const { directory, ports } = this.#context;
    const partner = directory.partner(partyId);
    const exchange = partner ? this.#unconfirmed(partner) : null;
    if (!partner || exchange === null || this.#warned.get(partyId) === partner.hubTokenDigest) return;
    this.#warned.set(partyId, partner.hubTokenDigest);
    ports.log.warn(
      { partyId, exchange },
      'a partner refuses the token of its last exchange of credentials and has not used the hub token that answered it: it probably lost the answer, and has to exchange credentials again',
    );
  }
}
