/**
 * What is owed between parties that live on different nodes: kept objects are released, who was never sent an object gets it whole, and
 * one that never arrived is noted where its owner lives. [D59, D63, D82]
 */
import { cdrBody, locationBody, sessionBody } from '../support/bodies.ts';
import { partnerFor } from '../support/hub-in-process.ts';
import { admin, eventually, type Received } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { adminToken, longer, type Node, startNodes } from './nodes.ts';
import { partiesOn, untilShared } from './shares.ts';

const at = (minute: number) => `2026-01-02T04:${String(minute).padStart(2, '0')}:00Z`;
const shown = ({ method, path }: Received) => `${method} ${path.split('/ocpi/2.2.1')[1]}`;

t.test('a CPO on one node and an eMSP on the other', longer, async (t) => {
  const server = await sharedPostgres();
  const schema = newSchema('owed');
  const nodes = await startNodes(t, server, schema, { here: true, env: { HUB_PROBE_INTERVAL_S: '1000000' } });
  await untilShared(nodes);
  const [here, there] = nodes.all as [Node, Node];
  const [ofCpo, ofEmsp] = [(await partiesOn(server, schema, here))(), (await partiesOn(server, schema, there))()];
  const cpo = await partnerFor(t, nodes, { role: 'CPO', countryCode: 'NL', partyId: ofCpo });
  let isKnown = true;
  const emsp = await partnerFor(t, nodes, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: ofEmsp },
    answer: () => (isKnown ? {} : { status: 404 }),
  });
  const own = { party_id: ofCpo };
  const owned = { ...own, cdr_token: { ...(sessionBody('').cdr_token as object), party_id: ofEmsp } };
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

  await push('PUT', `sessions/NL/${ofCpo}/S1`, sessionBody('S1', { ...owned, ...at1 }));
  await push('POST', 'cdrs', cdrBody('C1', { ...owned, ...at1 }));
  await push('PUT', `locations/NL/${ofCpo}/L1`, locationBody('L1', { ...own, ...at1 }));
  for (const node of nodes.all) {
    const route = await admin({ ...node, adminToken }, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
    t.match(route, { released: node === here ? 2 : 0 }, 'what was kept is released once, whichever node is asked');
  }
  await came(`PUT /sessions/NL/${ofCpo}/S1`, 'POST /cdrs');

  await push('PATCH', `locations/NL/${ofCpo}/L1`, { name: 'Neu', last_updated: at(2) });
  await push('PATCH', `locations/NL/${ofCpo}/L1`, { name: 'Nieuw', last_updated: at(3) });
  await came(`PUT /locations/NL/${ofCpo}/L1`, `PATCH /locations/NL/${ofCpo}/L1`);

  isKnown = false;
  await push('PUT', `locations/NL/${ofCpo}/L2`, locationBody('L2', own));
  await eventually('it is noted that the location never arrived', async () => {
    const found = await server.query(`select 1 from ${schema}.events where type = 'object.missed'`);
    return found.length > 0;
  });
  isKnown = true;
  emsp.received.length = 0;
  await push('PATCH', `locations/NL/${ofCpo}/L2`, { name: 'Neu', last_updated: at(4) });
  await came(`PUT /locations/NL/${ofCpo}/L2`);
});
