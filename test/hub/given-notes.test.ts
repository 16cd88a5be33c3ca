/**
 * What was gathered of authorizations when their shard is given away stands in the log before another hub may gain
 * it.
 */
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const shards: ReadonlySet<number> = new Set([0]);

t.test(
  'an authorization that was answered a moment before its shard goes is in the log when it has gone',
  async (t) => {
    // It stands still: nothing that is gathered goes to the store because its time has come.
    const hub = await hubFor(t, {}, { clock: new SimulatedClock('2024-05-01T10:00:00Z') });
    const { core, calm, give, gain } = hub.created;
    const { cpo, emsp } = await routedPair(t, hub, { emsp: () => ({ body: { allowed: 'ALLOWED' } }) });
    const authorized = async () => {
      const events = await core.store.read({ shard: 0, after: 0, limit: 1000 });
      return events.flatMap(({ type, data }) => (type === 'token.authorized' ? (data as { uid: string }).uid : []));
    };
    const headers = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
    for (const uid of ['A1', 'A2']) {
      const answer = await cpo.call('POST', `/2.2.1/tokens/${uid}/authorize?type=RFID`, {}, headers);
      t.match(answer.json, { data: { allowed: 'ALLOWED' } });
    }
    t.equal(emsp.received.length, 2);
    t.strictSame(await authorized(), [], 'they are gathered');
    await calm(shards, 1000);
    await give(shards);
    t.strictSame(await authorized(), ['A1', 'A2']);
    await gain(shards);
    await cpo.call('POST', '/2.2.1/tokens/A3/authorize?type=RFID', {}, headers);
    await calm(shards, 1000);
    await give(shards);
    t.strictSame(await authorized(), ['A1', 'A2', 'A3'], 'none twice, also when it was back meanwhile');
  },
);
