/** Notifications of several nodes: the owner tells, each thing once, and what it owed when it died the next owner tells. */
import type { WebhookDetail } from '../../src/api/webhooks.ts';
import { locationBody } from '../support/bodies.ts';
import { partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { type WebhookReceiver, webhookReceiver, webhookSet } from '../support/webhook-receiver.ts';
import { adminToken, longer, shortLease, startNodes, untilJoined } from './nodes.ts';

const told = ({ taken }: WebhookReceiver) => taken.map(({ body: { type, data } }) => `${type} ${data.party}`);

t.test('notifications that a killed owner still owes are sent by the next owner', longer, async (t) => {
  const server = await sharedPostgres();
  const env = { ...shortLease, HUB_PROBE_INTERVAL_S: '864000', HUB_SILENT_AFTER_H: '0' };
  const nodes = await startNodes(t, server, newSchema('notifications'), { env, here: 'others' });
  await untilJoined(nodes.all);
  const owner = await nodes.owner();
  const [standby] = await nodes.standbys();
  if (!standby) throw new Error('there are two nodes');
  const door = { url: standby.url, adminToken };

  const [heard, closed] = [await webhookReceiver(t), await webhookReceiver(t)];
  closed.answer = () => ({ status: 503 });
  const { secret } = (await webhookSet(door, 'heard', heard)) as { secret: string };
  const { secret: other } = (await webhookSet(door, 'closed', closed)) as { secret: string };
  const refuses = () => ({ status: 400, text: '{}' });
  const { cpo } = await routedPair(t, nodes, { emsp: refuses });
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  await Promise.all([heard.took(1), closed.wasAsked(1)]);
  const owedOf = async (id: string) => ((await admin(door, 'GET', `/webhooks/${id}`)) as unknown as WebhookDetail).owed;
  await eventually(
    'one has got it and the other is owed it, as the standby says',
    async () => [await owedOf('heard'), await owedOf('closed')].join() === '0,1',
  );

  await owner.hub.kill();
  closed.answer = () => ({});
  await closed.took(1);
  t.equal((await nodes.owner()).url, standby.url);
  await partnerFor(t, door, { role: 'EMSP', countryCode: 'NL', partyId: 'E02', answer: refuses });
  await admin(door, 'PUT', '/routes/NL-E02/NL-CPO', { active: true });
  cpo.moveTo(standby);
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L2', locationBody('L2'));
  await Promise.all([heard.took(2), closed.took(2)]);
  for (const [receiver, signedBy] of [
    [heard, secret],
    [closed, other],
  ] as const) {
    t.strictSame(told(receiver), ['partner.dead_letter NL-EMS', 'partner.dead_letter NL-E02']);
    for (const index of receiver.taken.keys()) receiver.verify(signedBy, index);
  }
});
