/** What is kept in memory of routes and tokens. */

import { defaultSettings } from '../../src/domain/partner-settings.ts';
import { applyToPartner, type Partner } from '../../src/domain/party.ts';
import { PartnerDirectory } from '../../src/hub/kernel/directory.ts';
import { t } from '../support/tap.ts';

const hub = { countryCode: 'NL', partyId: 'HUB' };

t.test('the counterparts of active routes are sorted, after any changes', async (t) => {
  const directory = new PartnerDirectory(hub);
  const set = (emsp: string, cpo: string, active: boolean) => directory.applyRoute({ emsp, cpo, active });
  const ends = () => [directory.counterparts('NL-CPO', 'CPO'), directory.counterparts('NL-EM2', 'EMSP')];
  t.strictSame(ends(), [[], []]);
  for (const emsp of ['NL-EM3', 'NL-EM1', 'NL-EM2', 'NL-EM1']) set(emsp, 'NL-CPO', true);
  set('NL-EM2', 'NL-ABC', true);
  set('NL-EM4', 'NL-CPO', false);
  const given = ends();
  t.strictSame(given, [
    ['NL-EM1', 'NL-EM2', 'NL-EM3'],
    ['NL-ABC', 'NL-CPO'],
  ]);
  set('NL-EM0', 'NL-CPO', true);
  set('NL-EM4', 'NL-CPO', true);
  set('NL-EM2', 'NL-CPO', false);
  t.strictSame(ends(), [['NL-EM0', 'NL-EM1', 'NL-EM3', 'NL-EM4'], ['NL-ABC']]);
  directory.applyRoute({ emsp: 'NL-EM2', cpo: 'NL-ABC', active: true }, true);
  set('NL-EM2', 'NL-CPO', true);
  directory.applyRoute({ emsp: 'NL-EM0', cpo: 'NL-CPO', active: true }, true);
  t.strictSame(ends(), [['NL-EM1', 'NL-EM2', 'NL-EM3', 'NL-EM4'], ['NL-CPO']]);
  t.strictSame(given[0], ['NL-EM1', 'NL-EM2', 'NL-EM3'], 'what was given out stays as it was');
  t.strictSame(directory.counterparts('NL-CPO', 'EMSP'), [], 'a party that is both has two sides');
});

t.test('a used-up token that left the record of its partner is forgotten', async (t) => {
  const directory = new PartnerDirectory(hub);
  const at = '2026-01-01T00:00:00Z';
  const role = { role: 'CPO', country_code: 'NL', party_id: 'CPO' } as const;
  const added = { id: 'NL-CPO', roles: [role], settings: defaultSettings, initialTokenDigest: 'digest-0' };
  let partner: Partner = applyToPartner(null, { type: 'partner.added', data: added }, at);
  directory.applyPartner(partner);
  for (let n = 1; n <= 120; n++) {
    const data = { initialTokenDigest: `digest-${n}` };
    partner = applyToPartner(partner, { type: 'partner.initialTokenIssued', data }, at);
    directory.applyPartner(partner);
  }
  const kindOf = (n: number) => directory.tokenOwner(`digest-${n}`)?.kind ?? null;
  t.strictSame([kindOf(0), kindOf(19)], [null, null], 'the oldest');
  t.strictSame([kindOf(20), kindOf(119), kindOf(120)], ['spent', 'spent', 'initial'], 'what is in the record');
});
