/** Who takes part in a simulated world: companies, each one credentials relationship with one party or two. */
import type { Endpoint, PartyRole, Role } from '../../src/domain/party.ts';
import type { Random } from './random.ts';

export interface Member {
  /** `NL-C1`. */
  readonly party: string;
  readonly role: Role;
  readonly host: string;
}

export interface Company {
  /** Id of the partner: its first party. */
  readonly id: string;
  readonly host: string;
  readonly members: readonly Member[];
}

export interface Cast {
  readonly companies: readonly Company[];
  readonly cpos: readonly Member[];
  readonly emsps: readonly Member[];
}

const modulesOf: Record<Role, Readonly<Record<'SENDER' | 'RECEIVER', readonly string[]>>> = {
  CPO: { SENDER: ['locations', 'tariffs', 'sessions', 'cdrs'], RECEIVER: ['commands', 'tokens'] },
  EMSP: { SENDER: ['tokens'], RECEIVER: ['locations', 'tariffs', 'sessions', 'cdrs'] },
};

/** Two or three of each role; now and then a platform that is both. */
export function castOf(random: Random): Cast {
  const [cpos, emsps] = [names('C', random.between(2, 3)), names('E', random.between(2, 3))];
  const isPlatform = random.chance(0.25);
  const [cpo = '', ...otherCpos] = cpos;
  const [emsp = '', ...otherEmsps] = emsps;
  return castFrom(isPlatform ? [[cpo, emsp], ...alone([...otherCpos, ...otherEmsps])] : alone([...cpos, ...emsps]));
}

/** So many CPOs and eMSPs, each a company of its own. */
export function castOfSize(cpos: number, emsps: number): Cast {
  return castFrom(alone([...names('C', cpos), ...names('E', emsps)]));
}

function castFrom(groups: readonly (readonly string[])[]): Cast {
  const companies = groups.map((parties): Company => {
    const [id = ''] = parties;
    const host = id.toLowerCase();
    const members = parties.map((party): Member => ({ party, role: party.includes('-C') ? 'CPO' : 'EMSP', host }));
    return { id, host, members };
  });
  const members = companies.flatMap((company) => company.members);
  const ofRole = (role: Role) => members.filter((member) => member.role === role);
  return { companies, cpos: ofRole('CPO'), emsps: ofRole('EMSP') };
}

const alone = (parties: readonly string[]) => parties.map((party) => [party]);

const names = (letter: string, count: number) => Array.from({ length: count }, (_, n) => `NL-${letter}${n + 1}`);

export function partsOf(party: string): { country_code: string; party_id: string } {
  const [country_code = '', party_id = ''] = party.split('-');
  return { country_code, party_id };
}

export const roleOf = ({ party, role }: Member): PartyRole => ({ role, ...partsOf(party) });

/** What its version details say. */
export function endpointsOf({ host, members }: Company): Endpoint[] {
  return members.flatMap(({ role }) =>
    (['SENDER', 'RECEIVER'] as const).flatMap((side) =>
      modulesOf[role][side].map((identifier): Endpoint => {
        return {
          identifier,
          role: side,
          url: `http://${host}/${role.toLowerCase()}/${identifier}`,
          source: 'discovered',
        };
      }),
    ),
  );
}
