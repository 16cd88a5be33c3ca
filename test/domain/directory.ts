/** A small hub's partners and routes, folded from the facts of their lives, for the rules that ask who is who. */

import { defaultSettings } from '../../src/domain/partner-settings.ts';
import { applyToPartner, type Partner, type PartnerEvent, type Role } from '../../src/domain/party.ts';
import { PartnerDirectory } from '../../src/hub/kernel/directory.ts';

const at = '2026-01-02T03:04:05Z';

/** Of every catalogue. */
const receivers = (['locations', 'tariffs', 'tokens'] as const).map((identifier) => {
  return { identifier, role: 'RECEIVER', url: `https://partner/${identifier}`, source: 'discovered' } as const;
});

const registration = (roles: Partner['roles'], hubTokenDigest = 'hub'): PartnerEvent => ({
  type: 'partner.registered',
  data: { url: 'https://partner/versions', roles, discovered: receivers, hubTokenDigest, partnerToken: 'sealed' },
});

/**
 * CPO `NL-CPO`; eMSPs `NL-EMS` and `NL-TWO` registered, `NL-NEW` never, `NL-OFF` no longer; all of them routed to it, beside
 * `NL-FAR`, a registered eMSP without a rule, and `NL-EX` whose rule is not active. `NL-TOP` is both roles, routed to both ways.
 */
export function testDirectory(): PartnerDirectory {
  const directory = new PartnerDirectory({ countryCode: 'xx', partyId: 'hub' });
  const parties: [string, Role[], 'registered' | 'never' | 'suspended'][] = [
    ['CPO', ['CPO'], 'registered'],
    ['EMS', ['EMSP'], 'registered'],
    ['TWO', ['EMSP'], 'registered'],
    ['NEW', ['EMSP'], 'never'],
    ['OFF', ['EMSP'], 'suspended'],
    ['FAR', ['EMSP'], 'registered'],
    ['EX', ['EMSP'], 'registered'],
    ['LON', ['CPO'], 'registered'],
    ['TOP', ['CPO', 'EMSP'], 'registered'],
  ];
  for (const [party_id, names, life] of parties) {
    const roles = names.map((role) => ({ role, country_code: 'NL', party_id }));
    const added = { id: `NL-${party_id}`, roles, settings: defaultSettings, initialTokenDigest: `i-${party_id}` };
    let partner = applyToPartner(null, { type: 'partner.added', data: added }, at);
    if (life !== 'never') partner = applyToPartner(partner, registration(roles, `h-${party_id}`), at);
    if (life === 'suspended')
      partner = applyToPartner(partner, { type: 'partner.suspended', data: { reason: '' } }, at);
    directory.applyPartner(partner);
  }
  for (const emsp of ['NL-TWO', 'NL-EMS', 'NL-NEW', 'NL-OFF', 'NL-TOP']) {
    directory.applyRoute({ emsp, cpo: 'NL-CPO', active: true });
  }
  directory.applyRoute({ emsp: 'NL-EX', cpo: 'NL-CPO', active: false });
  directory.applyRoute({ emsp: 'NL-EMS', cpo: 'NL-TOP', active: true });
  return directory;
}
