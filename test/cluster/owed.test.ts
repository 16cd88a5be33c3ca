/**
 * What is owed, whichever node the partners and the operator ask: kept objects are released once, who was never sent an object gets it
 * whole, and one that never arrived is noted. [D59, D63, D82]
 */
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { admin, eventually, type Received } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { adminToken, longer, startNodes } from './nodes.ts';

const at = (minute: number) => `2026-01-02T04:${String(minute).padStart(2, '0')}:00Z`;
const shown = ({ method, path }: Received) => `${method} ${path.split('/ocpi/2.2.1')[1]}`;

t.test('each request goes through the other node than the one before', longer, async (t) => {
  const server = await sharedPostgres();
  const schema = newSchema('owed');
  const nodes = await startNodes(t, server, schema, { here: true, env: { HUB_PROBE_INTERVAL_S: '1000000' } });
  const owner = await nodes.owner();
  const cpo = await partnerFor(t, nodes, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  let isKnown = true;
  const emsp = await partnerFor(t, nodes, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EMS' },
    answer: () => (isKnown ? {} : { status: 404 }),
  });
  const push = async (method: string, path: string, body: object) => {
    const { json, text } = await cpo.call(method, `/2.2.1/${path}`, body);
    if (json.status_code !== 1000) throw new Error(text);
  };
  const came = async (...expected: string[]) => {
    const isThere = () => emsp.received.length >= expected.length;
    await eventually(`these come: ${expected.join(', ')}`, async () => isThere());
    t.strictSame(emsp.received.splice(0).map(shown), expected);
  };
  const at1 = { last_updated: at(1) };

  await push('PUT', 'sessions/NL/CPO/S1', sessionBody('S1', at1));
  await push('POST', 'cdrs', cdrBody('C1', at1));
  await push('PUT', 'locations/NL/CPO/L1', locationBody('L1', at1));
  const standbys = await nodes.standbys();
  for (const node of [...standbys, owner]) {
    const route = await admin({ ...node, adminToken }, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
    t.match(route, { released: node === owner ? 0 : 2 }, 'what was kept is released once, whichever node is asked');
  }
  await came('PUT /sessions/NL/CPO/S1', 'POST /cdrs');

  await push('PATCH', 'locations/NL/CPO/L1', { name: 'Neu', last_updated: at(2) });
  await push('PATCH', 'locations/NL/CPO/L1', { name: 'Nieuw', last_updated: at(3) });
  await came('PUT /locations/NL/CPO/L1', 'PATCH /locations/NL/CPO/L1');

  isKnown = false;
  await push('PUT', 'locations/NL/CPO/L2', locationBody('L2'));
  await eventually('it is noted that the location never arrived', async () => {
    const found = await server.query(`select 1 from ${schema}.events where type = 'object.missed'`);
    return found.length > 0;
  });
  isKnown = true;
  emsp.received.length = 0;
  await push('PATCH', 'locations/NL/CPO/L2', { name: 'Neu', last_updated: at(4) });
  await came('PUT /locations/NL/CPO/L2');
});
