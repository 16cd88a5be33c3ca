/** How many deliveries begin in one turn of the event loop, when pushes to many receivers are committed at once. */
import type { OutboundCall, PartnerClient } from '../../src/hub/ports/ports.ts';
import { addTo } from '../../src/kit/memo.ts';
import { turnOfLoop } from '../../src/process-load.ts';
import { locationBody, tariffBody } from '../support/bodies.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { admin, type PlainPartner } from '../support/plain-partner.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const receivers = 12;
/** Of each of two modules: as many as a receiver gets of one before its pace is known. */
const objects = 8;
/** Deliveries begin in callbacks of sockets and disk, and once more behind all of these, before the loop looks at its sockets again. */
const timesPerTurn = 2;

/** Holds commits of pushes until so many wait: all go into one write. */
function gathering(count: number) {
  const waiting: (() => void)[] = [];
  let isOver = false;
  return wrapStore((store) => ({
    append: async (commit) => {
      if (!isOver && commit.events[0]?.type === 'object.put') {
        await new Promise<void>((go) => {
          isOver = waiting.push(go) === count;
          if (isOver) for (const each of waiting) each();
        });
      }
      return store.append(commit);
    },
  }));
}

t.test('an event owed to many receivers begins over several turns of the event loop [DISPATCHER-5]', async (t) => {
  const gathered = gathering(2 * objects);
  /** Calls of deliveries by turn. */
  const begun = new Map<number, number>();
  const wrap = <P extends object>(port: P): P => {
    if (!('call' in port)) return gathered(port);
    const client = port as unknown as PartnerClient;
    const call = (sent: OutboundCall) => {
      if (sent.isDelivery) addTo(begun, turnOfLoop(), 1);
      return client.call(sent);
    };
    return { ...port, call };
  };
  const hub = await hubFor(t, {}, { wrap });
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const emsps: PlainPartner[] = [];
  for (let n = 0; n < receivers; n++) {
    const partyId = `E${String(n).padStart(2, '0')}`;
    emsps.push(await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId }));
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }
  const all = async (each: number) => {
    await hub.settled();
    t.ok(emsps.every(({ received }) => received.splice(0).length === each));
    const counts = [...begun.values()];
    begun.clear();
    t.equal(
      counts.reduce((sum, count) => sum + count, 0),
      receivers * each,
    );
    return Math.max(...counts);
  };

  const pushes = Array.from({ length: objects }, (_, n) => [
    cpo.push('PUT', `/2.2.1/locations/NL/CPO/L${n}`, locationBody(`L${n}`)),
    cpo.push('PUT', `/2.2.1/tariffs/NL/CPO/T${n}`, tariffBody(`T${n}`)),
  ]).flat();
  await Promise.all(pushes);
  const most = await all(2 * objects);
  t.ok(most <= timesPerTurn * 64, `${most} of ${receivers * 2 * objects}`);

  const x = 'x'.repeat(2 * 1024 * 1024);
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/LARGE', locationBody('LARGE', { x }));
  const mostLarge = await all(1);
  t.ok(mostLarge <= timesPerTurn * 2, `${mostLarge} of ${receivers}, of 2 MiB each`);
});
