/** Which interface roles endpoints take that come without one. [D74] */
import { openRoles } from '../../src/partners/versions.ts';
import { t } from '../support/tap.ts';

const url = 'https://partner.example/x';

t.test(
  'an endpoint without a role gets the roles that its module and the parties leave open [PARTNERS-VERSIONS-3]',
  async (t) => {
    const table: [parties: string, listed: string, taken: string][] = [
      ['CPO', 'locations tariffs sessions cdrs', 'locations/SENDER tariffs/SENDER sessions/SENDER cdrs/SENDER'],
      ['CPO', 'tokens commands chargingprofiles', 'tokens/RECEIVER commands/RECEIVER chargingprofiles/RECEIVER'],
      ['EMSP', 'locations cdrs hubclientinfo', 'locations/RECEIVER cdrs/RECEIVER hubclientinfo/RECEIVER'],
      ['EMSP', 'tokens commands', 'tokens/SENDER commands/SENDER'],
      ['CPO EMSP', 'locations', 'locations/SENDER locations/RECEIVER'],
      ['CPO EMSP', 'locations locations/SENDER', 'locations/RECEIVER'],
      ['CPO EMSP', 'locations locations', ''],
      ['CPO', 'locations locations/SENDER', ''],
      ['CPO', 'parking_data locations/SENDER', ''],
      ['', 'locations', ''],
    ];
    for (const [parties, listed, taken] of table) {
      const endpoints = listed.split(' ').map((name) => {
        const [identifier = '', role = null] = name.split('/') as [string, 'SENDER' | 'RECEIVER' | undefined];
        return { identifier, role, url };
      });
      const roles = parties.split(' ').filter((role) => role !== '') as ('CPO' | 'EMSP')[];
      const found = openRoles(
        endpoints,
        roles.map((role) => ({ role })),
      );
      t.same(found.map(({ identifier, role }) => `${identifier}/${role}`).join(' '), taken, `${parties}: ${listed}`);
    }
  },
);
