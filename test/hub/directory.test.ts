/** Partners and routes as every writer of the store leaves them: what is decided on them is decided on their last change. */

import { directoryPut } from '../../src/hub/kernel/directory.ts';
import { routePut } from '../../src/hub/kernel/row-codecs.ts';
import { append, event } from '../storage/support.ts';
import { locationBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

t.test('a rule that another writer of the store sets is followed by the next push', async (t) => {
  const hub = await hubFor(t);
  const { cpo } = await routedPair(t, hub);
  const late = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'LAT' });
  const { store, directory } = hub.created.context;
  const route = { emsp: 'NL-LAT', cpo: 'NL-CPO', active: true };
  await append(store, {
    events: [event({ stream: 'route:NL-LAT/NL-CPO', type: 'route.set', data: route })],
    puts: [routePut(route), directoryPut],
  });
  t.notOk(directory.isRouted('NL-LAT', 'NL-CPO'), 'nobody has told the hub');
  const { json } = await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  t.match(json, { status_code: 1000 });
  await late.got('the location', ({ path }) => path.endsWith('/locations/NL/CPO/L1'));
  t.ok(directory.isRouted('NL-LAT', 'NL-CPO'));
});

const changes = isAtLength ? 80 : 16;

t.test(
  'several rules set one after the other refuse no push, and each push follows the rules of its time',
  async (t) => {
    const hub = await hubFor(t);
    const { cpo } = await routedPair(t, hub);
    const refused: unknown[] = [];
    let isOver = false;
    let pushed = 0;
    const pushers = Array.from({ length: 8 }, async (_, i) => {
      for (let n = 0; !isOver; n++) {
        const { json } = await cpo.push(
          'PUT',
          `/2.2.1/locations/NL/CPO/L${i}`,
          locationBody(`L${i}`, { name: `${n}` }),
        );
        if (json.status_code !== 1000) refused.push(json);
        pushed++;
      }
    });
    for (let n = 0; n < changes; n++) await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: n % 2 === 1 });
    isOver = true;
    await Promise.all(pushers);
    t.same(refused, []);
    t.ok(pushed > 8, `${pushed} pushes`);
  },
);
