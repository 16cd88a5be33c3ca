/**
 * One partner that has objects grow and then touches them with requests of a few bytes. Each such request costs as much as the object is
 * large: it counts for that, waits its turn, and has its memory reserved.
 */
import { readWhole } from '../../src/ocpi/server.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { statusOf } from '../support/observed.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { askUnread, longSession, manyItems, patch, pushLargeLocation, wrongItems } from './attacks.ts';
import { pathsMin, sharedScene } from './victim.ts';

const mebibyte = 1024 * 1024;

const scene = sharedScene();

/** A new one for each attack: what an earlier one has stored is not its own. */
const attackerOf = (t: Test, hub: { url: string; adminToken: string }, partyId: string) =>
  partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId });

/** How many calls got each answer. */
async function tally(calls: Iterable<Promise<string>>): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const status of await Promise.all(calls)) counts.set(status, (counts.get(status) ?? 0) + 1);
  return counts;
}

t.test(
  'fragments let an object grow to the size of a body, and one that exceeds it changes nothing (I5) [D76]',
  atLength,
  async (t) => {
    const { hub } = await scene();
    const attacker = await attackerOf(t, hub, 'BD1');
    const rows = [
      ['sessions', sessionBody('S1', { party_id: 'BD1' }), mebibyte],
      ['locations', locationBody('L1', { party_id: 'BD1' }), 4 * mebibyte],
    ] as const;
    for (const [module, body, bytesMax] of rows) {
      const path = `/2.2.1/${module}/NL/BD1/${String(body.id)}`;
      await attacker.push('PUT', path, body);
      const grow = (index: number, characters: number) =>
        patch(attacker, path, { [`x${index}`]: 'x'.repeat(characters) });
      const steps = bytesMax / (mebibyte / 2);
      for (let step = 1; step < steps; step++) t.equal(await grow(step, mebibyte / 2), '200/1000');
      const before = (await attacker.call('GET', path)).text;
      t.equal(await grow(steps, mebibyte / 2), '200/2001', `${module}: no larger than ${bytesMax} bytes`);
      t.equal(await grow(steps, mebibyte / 6), '200/1000');
      t.equal(
        await patch(attacker, path, { y: '\u{1f50c}'.repeat(mebibyte / 8) }),
        '200/2001',
        'bytes count, not characters',
      );
      t.ok((await attacker.call('GET', path)).text.length < before.length + mebibyte / 2, 'and nothing was changed');
    }
  },
);

t.test('a fragment of a few bytes counts for the bytes that it touches (I5)', async (t) => {
  const perMinute = 200;
  const clock = new SimulatedClock('2026-03-01T10:00:00Z');
  const hub = await hubFor(t, { HUB_RATE_OTHER_PER_MIN: String(perMinute) }, { clock });
  const attacker = await attackerOf(t, hub, 'BD3');
  const { path, whole, more } = longSession(attacker);
  await attacker.push('PUT', path, whole());
  clock.advance(60_000);
  let taken = 0;
  for (let n = 0; n < perMinute && (await patch(attacker, path, more(n))) === '200/1000'; n++) taken += 1;
  t.equal(taken, Math.ceil(perMinute / 16), 'of a session of 15 times 64 KiB');
  t.equal(await patch(attacker, path, more(0)), '429/2901');
  clock.advance(60_000);
  t.equal(await patch(attacker, path, more(0)), '200/1000', 'and the next minute grants anew');
});

t.test('the size of a CPO’s location does not count against the commands of an eMSP (I5)', async (t) => {
  const hub = await hubFor(t);
  const answer = () => ({ body: { result: 'ACCEPTED', timeout: 30 } });
  const victim = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'GD5', answer });
  const attacker = await attackerOf(t, hub, 'BD5');
  const emsp = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'EM5' });
  for (const { id } of [victim, attacker]) await admin(hub, 'PUT', `/routes/NL-EM5/${id}`, { active: true });
  await victim.push('PUT', '/2.2.1/locations/NL/GD5/COPIED', locationBody('COPIED', { party_id: 'GD5' }));
  await pushLargeLocation(attacker, 'COPIED');
  await attacker.push('PATCH', '/2.2.1/locations/NL/BD5/COPIED', { last_updated: '2026-01-02T03:05:00Z', evses: [] });
  const token = { uid: 'CARD1', type: 'RFID', contract_id: 'C1', issuer: 'I', valid: true, whitelist: 'NEVER' };
  const command = {
    response_url: `${emsp.url}/result`,
    token: { ...token, country_code: 'NL', party_id: 'EM5', last_updated: '2026-01-02T03:05:00Z' },
    ...{ location_id: 'COPIED', evse_uid: 'EVSE1' },
  };
  for (let n = 0; n < 5; n++)
    t.equal(statusOf(await emsp.call('POST', '/2.2.1/commands/START_SESSION', command)), '200/1000');
});

t.test('fragments of a few bytes for a large session (I5)', atLength, async (t) => {
  const { hub, victim } = await scene();
  const attacker = await attackerOf(t, hub, 'BD4');
  const { path, whole, more } = longSession(attacker);
  await attacker.push('PUT', path, whole());
  const counts = await victim.during(t, () =>
    tally(Array.from({ length: 100 }, (_, n) => patch(attacker, path, more(n)))),
  );
  t.same(
    [...counts.keys()].filter((status) => status !== '503/3000'),
    ['200/1000'],
  );
});

t.test('lists of very many items, to be compared or to be refused (I1, I5)', atLength, async (t) => {
  const { hub, victim } = await scene();
  const attacker = await attackerOf(t, hub, 'BD6');
  const many = manyItems(attacker);
  const wrong = wrongItems(attacker);
  await attacker.push('PUT', many.path, many.whole());
  const counts = await victim.during(t, async () => {
    const patches = Array.from({ length: 4 }, (_, n) => patch(attacker, many.path, many.more(n % 2)));
    const put = async (body: object) => statusOf(await attacker.call('PUT', wrong.path, body));
    const puts = Array.from({ length: 4 }, () => put(wrong.whole()));
    await Promise.all([...patches, ...puts]);
    for (const body of [wrong.countless(), wrong.whole()]) {
      puts.push(put(body));
      await Promise.all(puts);
    }
    return tally([...patches, ...puts]);
  });
  t.same(
    [...counts.keys()].filter((status) => status !== '503/3000').sort(),
    ['200/1000', '200/2001', '413/2000'],
    'new items are appended once, a list with a wrong item is refused, and so is one with too many',
  );
});

t.test('no URL of an image is parsed, however many a location has (I5)', async (t) => {
  const letters = Array.from({ length: 250 }, (_, n) => String.fromCodePoint(0x4e00 + n)).join('');
  const image = { category: 'OTHER', type: 'jpg', url: `https://${letters}/a.jpg` };
  const images = [...Array(5_000).fill(image), { ...image, url: 'nowhere' }];
  const { URL: own } = globalThis;
  let parsed = 0;
  globalThis.URL = class extends own {
    constructor(...given: ConstructorParameters<typeof own>) {
      super(...given);
      parsed += 1;
    }
  };
  t.teardown(() => {
    globalThis.URL = own;
  });
  const { warnings } = readWhole('locations', JSON.stringify(locationBody('L1', { images })));
  t.strictSame([warnings, parsed], [['images[5000].url: expected URL'], 0]);
});

t.test('answers of large objects that nobody reads (I1, I2)', async (t) => {
  const { hub, victim } = await scene();
  const attacker = await attackerOf(t, hub, 'BD5');
  const path = await pushLargeLocation(attacker, 'L1');
  const statuses: (string | null)[] = [];
  await victim.during(t, async (walked) => {
    const asked = isAtLength ? 60 : 24;
    for (const { status } of askUnread(t, hub, attacker, path, asked)) void status.then((one) => statuses.push(one));
    await eventually('each has begun or is refused', () => statuses.length === asked);
    await walked(pathsMin);
  });
  t.ok(
    statuses.every((one) => one === '200' || one === '503'),
    'each began or was refused',
  );
});

t.test('fragments for many large objects at once (I1, I5)', atLength, async (t) => {
  const { hub, victim } = await scene();
  const attacker = await attackerOf(t, hub, 'BD2');
  const paths: string[] = [];
  for (let n = 0; n < 16; n++) paths.push(await pushLargeLocation(attacker, `L${n}`));
  const counts = await victim.during(t, () =>
    tally([...paths, ...paths, ...paths].map((path) => patch(attacker, path))),
  );
  t.same(
    [...counts.keys()].sort(),
    ['200/1000', '503/3000'],
    'some are refused for want of room, and none in another way',
  );
});
