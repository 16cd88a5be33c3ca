/** What happens to a whole hub when an actor throws. */
import type { RunningHub } from '../../src/main.ts';
import { sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { poison } from '../support/poison.ts';
import { t } from '../support/tap.ts';

const statusOf = (hub: RunningHub, id: string) =>
  [...hub.created.context.supervisor.views()].find((view) => view.id === id);

t.test('a partner whose actor throws is rebuilt from the log, and the others notice nothing', async (t) => {
  const hub = await hubFor(t, { HUB_CIRCUIT_FAILURES: '2', HUB_CIRCUIT_OPEN_MS: '60000' });
  const { cpo, emsp } = await routedPair(t, hub);
  const other = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'BE', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/BE-EMS/NL-CPO', { active: true });
  const { supervisor } = hub.created.context;

  supervisor.send('partner:NL-EMS', poison());
  t.equal(statusOf(hub, 'partner:NL-EMS')?.status, 'restarting', 'it is down');
  t.equal(statusOf(hub, 'partner:BE-EMS')?.status, 'active', 'the others are not');
  const toOther = { country_code: 'BE', party_id: 'EMS', uid: 'X', type: 'RFID', contract_id: 'C' };
  const push = await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { cdr_token: toOther }));
  t.equal(push.status, 200, 'pushes are accepted meanwhile');
  await hub.settled();
  t.equal(other.received.length, 1, 'the other eMSP has the session');

  await eventually('it is back', () => statusOf(hub, 'partner:NL-EMS')?.status === 'active');
  const view = statusOf(hub, 'partner:NL-EMS');
  t.equal(view?.snapshot?.value.connection, 'connected', 'as the log has it');
  t.equal(view?.restarts, 1);
  await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S2', sessionBody('S2'));
  await hub.settled();
  t.equal(emsp.received.length, 1, 'its own deliveries arrive');
});

t.test(
  'a courier that throws is rebuilt with its partner’s state, and deliveries owed meanwhile arrive in order',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo, emsp } = await routedPair(t, hub);
    const { supervisor } = hub.created.context;
    supervisor.send('courier:NL-EMS', {
      get type(): string {
        throw new Error('poisoned on purpose');
      },
    });
    t.equal(statusOf(hub, 'courier:NL-EMS')?.status, 'restarting', 'it is down');
    for (let kwh = 1; kwh <= 5; kwh++) {
      await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1', { kwh }));
    }
    await emsp.gotCalls(5);
    t.same(
      emsp.received.map(({ body }) => (JSON.parse(body) as { kwh: number }).kwh),
      [1, 2, 3, 4, 5],
    );
  },
);

t.test('an actor that keeps throwing is quarantined, with an event that says so', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const { supervisor } = hub.created.context;
  for (let round = 1; round <= 6; round++) {
    supervisor.send('partner:NL-EMS', poison());
    await eventually('it is up again or given up', () => statusOf(hub, 'partner:NL-EMS')?.status !== 'restarting');
  }
  t.equal(statusOf(hub, 'partner:NL-EMS')?.status, 'quarantined');
  const quarantines = async () =>
    (await admin(hub, 'GET', '/events?type=actor.quarantined')).items as { data: object }[];
  await hub.settled();
  t.match(await quarantines(), [{ data: { actor: 'partner:NL-EMS', error: /poisoned on purpose/ } }]);
  const status = (await admin(hub, 'GET', '/status')) as { actors: { partner: Record<string, number> } };
  t.same(status.actors.partner, { connected: 1, quarantined: 1 });
  t.equal((await cpo.call('GET', '/versions')).status, 200, 'the hub goes on');
});
