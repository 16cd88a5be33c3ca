/** What the judge knows of the endpoints that partners have told the hub, or its operators set: who lacked one, and until when. */
import type { Endpoint, PartyId } from '../../src/domain/party.ts';
import type { Company } from './cast.ts';

type Told = Pick<Endpoint, 'identifier' | 'role'>;

export class Endpoints {
  readonly #of = new Map<PartyId, { discovered: readonly Told[]; operator: readonly Told[] }>();
  /** `{party}/{module}` → when it last had none. */
  readonly #lackedAt = new Map<string, number>();
  /** Whether the hub has heard of all that is written, for a while. */
  readonly #isHeard: () => boolean;

  constructor(isHeard: () => boolean) {
    this.#isHeard = isHeard;
  }

  /** A fact of the log. */
  committed(company: Company, told: Partial<Record<'discovered' | 'operator', readonly Told[]>>, at: number): void {
    for (const { party } of company.members) {
      for (const module of this.#lacking(party)) this.#lackedAt.set(`${party}/${module}`, at);
      const before = this.#of.get(party) ?? { discovered: [], operator: [] };
      this.#of.set(party, { ...before, ...told });
    }
  }

  /** Without doubt: what is being written may be known to the hub or not. */
  isLacking(party: PartyId, module: string): boolean {
    return this.#isHeard() && this.#lacking(party).includes(module);
  }

  lackedSince(party: PartyId, module: string, since: number): boolean {
    return this.#lacking(party).includes(module) || (this.#lackedAt.get(`${party}/${module}`) ?? -1) >= since;
  }

  /** Modules of which it can be owed something and has no endpoint. */
  #lacking(party: PartyId): string[] {
    const told = this.#of.get(party);
    if (!told) return [];
    const modules = ['locations', 'tariffs', 'sessions', 'cdrs', 'tokens'];
    const has = (module: string) =>
      [...told.discovered, ...told.operator].some(
        ({ identifier, role }) => identifier === module && role === 'RECEIVER',
      );
    return modules.filter((module) => !has(module));
  }
}
