/**
 * One partner that takes all the room it can get: in requests, bodies and answers. The hub gives it a quarter at most, and nobody else
 * notices.
 */
import { Holding } from '../delivery/watched.ts';
import { locationBody, tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { admin, eventually, type PlainPartner } from '../support/plain-partner.ts';
import { rawClient } from '../support/raw-client.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { askHanging, askUnknown, strangers, tinyRequests } from './attacks.ts';
import { attackedHub, pathsMin, victimOf } from './victim.ts';

/** More than half of the requests that the hub has in flight. */
const hanging = 1_100;

/** A hub to attack, its victim, and NL-BAD, whose authorizations the accomplice NL-ACC never answers. */
async function hangingScene(t: Test) {
  const hub = await attackedHub(t);
  const victim = await victimOf(t, hub);
  await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'ACC' },
    answer: () => new Promise(() => {}),
  });
  const attacker = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  await admin(hub, 'PUT', '/routes/NL-ACC/NL-BAD', { active: true });
  return { hub, victim, attacker };
}

t.test('requests that wait on a connection behind one that hangs, and unknown paths (I2)', async (t) => {
  const { hub, victim, attacker } = await hangingScene(t);
  await victim.during(t, async (walked) => {
    askHanging(t, hub, attacker, 40, tinyRequests);
    for (let n = 0; n < 6; n++) await Promise.all(Array.from({ length: 100 }, () => askUnknown(attacker)));
    await walked(pathsMin);
  });
});

t.test('requests in flight that hang (I2)', async (t) => {
  const { hub, victim, attacker } = await hangingScene(t);
  const refused: (string | null)[] = [];
  await victim.during(t, async (walked) => {
    for (const { status } of askHanging(t, hub, attacker, hanging)) void status.then((one) => refused.push(one));
    await eventually('more than half are refused', () => refused.length > hanging / 2);
    await walked(pathsMin);
  });
  t.ok(refused.length > hanging / 2, `${refused.length} of ${hanging} were refused`);
  t.same([...new Set(refused)], ['503'], 'with 503');
});

t.test('of calls for one partner that time out at once, 32 are followed up in a turn [SYNC-CALLS-2]', async (t) => {
  const clock = new SimulatedClock('2026-03-01T10:00:00Z');
  let followedUp = 0;
  const write = (line: string) => {
    if (line.includes('"msg":"forward"')) followedUp += 1;
  };
  const env = { HUB_AUTHORIZE_TIMEOUT_MS: '10000', HUB_LOG_LEVEL: 'info', HUB_PROBE_INTERVAL_S: '1000000' };
  const hub = await hubFor(t, env, { clock, logTo: { write } });
  const bad = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'BAD' });
  const good = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'GOD' });
  // Each gets 25 calls: a server has 64 connections, of which one partner gets half.
  const silent: PlainPartner[] = [];
  for (let n = 0; n < 4; n++) {
    const names = { countryCode: 'NL', partyId: `SL${n}` };
    const emsp = await partnerFor(t, hub, { role: 'EMSP', ...names, answer: () => new Promise(() => {}) });
    for (const { id } of [bad, good]) await admin(hub, 'PUT', `/routes/${emsp.id}/${id}`, { active: true });
    silent.push(emsp);
  }
  const authorize = (from: PlainPartner, n: number) => {
    const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': `SL${n % 4}` };
    return from.call('POST', '/2.2.1/tokens/CARD1/authorize', undefined, to);
  };
  const calls = Array.from({ length: 100 }, (_, n) => authorize(bad, n));
  await Promise.all(silent.map((emsp) => emsp.gotCalls(25)));
  calls.push(authorize(good, 0));
  await silent[0]?.gotCalls(26);
  clock.advance(10_000);
  // Promises go on within the turn.
  for (let n = 0; n < 200; n++) await Promise.resolve();
  t.equal(followedUp, 33, 'and the one of another partner is among the first');
  const answers = await Promise.all(calls);
  t.same([...new Set(answers.map(({ status }) => status))], [504]);
  t.equal(followedUp, 101);
});

t.test('what a CPO within its rate sends to many eMSPs slows and refuses nobody else [ADMISSION-7]', async (t) => {
  const clock = new SimulatedClock('2026-03-01T10:00:00Z');
  // The real lag of a hub that is busy whatever the machine is: one call at a time is all that it has time for.
  let lagMs = () => 0;
  const gauge = { felt: () => ({ heap: 0, loopDelayMs: 0, forwardingMs: lagMs() }), close() {} };
  const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '1000000' }, { clock, gauge, inFlightMax: 1 });
  lagMs = () => hub.created.forwardingLagMs();
  const names = { countryCode: 'NL' } as const;
  const cpo = (partyId: string) => partnerFor(t, hub, { ...names, role: 'CPO', partyId });
  const push = (from: PlainPartner, id: string) => {
    const partyId = from.id.slice(3);
    return from.call('PUT', `/2.2.1/locations/NL/${partyId}/${id}`, locationBody(id, { party_id: partyId }));
  };
  const [bad, ...others] = [await cpo('BAD'), await cpo('GO1'), await cpo('GO2')];
  const holding = new Holding();
  const emsps: PlainPartner[] = [];
  for (let n = 0; n < 9; n++) {
    const emsp = await partnerFor(t, hub, { ...names, role: 'EMSP', partyId: `EM${n}`, answer: holding.answer });
    for (const from of n === 0 ? others : [bad])
      await admin(hub, 'PUT', `/routes/${emsp.id}/${from.id}`, { active: true });
    emsps.push(emsp);
  }
  t.match(await push(bad, 'L0'), { status: 200 });
  await hub.settled(...emsps);
  t.equal(holding.held.length, 1, 'seven eMSPs wait');
  clock.advance(4_000);
  let isAnswered = false;
  const slowed = push(bad, 'L1').finally(() => {
    isAnswered = true;
  });
  t.match(await push(others[0] as PlainPartner, 'L0'), { status: 200 }, 'another one does not wait');
  t.notOk(isAnswered, 'it waits itself');
  clock.advance(1_000);
  t.match(await slowed, { status: 200 });
  clock.advance(20_000);
  t.match(await push(bad, 'L2'), { status: 503 }, 'it is refused');
  t.match(await others[1]?.call('GET', '/2.2.1/tokens'), { status: 200 }, 'a list of another one is not');
  t.match(await push(others[1] as PlainPartner, 'L0'), { status: 200 }, 'nor is its push');
  holding.releaseAll();
});

t.test(
  'when connections are scarce, those that a partner leaves idle are closed before those of others (I8)',
  async (t) => {
    const hub = await hubFor(t, { HUB_CONNECTIONS_MAX: '16' });
    const [bad, good] = await Promise.all(
      ['BAD', 'GOD'].map((partyId) => partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId })),
    );
    const asking = (of: PlainPartner | undefined) => {
      const token = Buffer.from(of?.hubToken ?? '').toString('base64');
      return `GET /ocpi/versions HTTP/1.1\r\nHost: hub\r\nAuthorization: Token ${token}\r\n\r\n`;
    };
    const leaveIdle = async (count: number) => {
      for (let n = 0; n < count; n++) {
        const { socket, came } = await rawClient(t, Number(new URL(hub.url).port), false);
        socket.write(asking(bad));
        await eventually('it is answered', () => came() !== '');
      }
    };
    await leaveIdle(12);
    // From another address, since those without a token are few of each.
    const [slow] = strangers(t, hub, 1, '');
    await eventually('it is connected', () => slow?.socket.readyState === 'open');
    await leaveIdle(8);
    slow?.socket.write(asking(good));
    await eventually('it is over', () => slow?.socket.destroyed === true || slow?.statuses().length === 1);
    t.same(slow?.statuses(), ['200'], 'one that had sent nothing yet is served');
  },
);

t.test('metrics name the five partners that use most of each room', async (t) => {
  const hub = await hubFor(t, { HUB_OBJECTS_PER_PARTY: '1000', HUB_DELIVERY_CONCURRENCY: '10' });
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow = await partnerFor(t, hub, {
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'SLO' },
    answer: () => released.then(() => ({ body: { allowed: 'ALLOWED' } })),
  });
  const cpos: PlainPartner[] = [];
  for (let n = 0; n < 7; n++) {
    const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: `CP${n}` });
    // One may be counted twice while it is stored. [QUOTA-9]
    for (let id = 0; id <= 2 * n; id++) {
      const body = { ...tariffBody(`T${id}`), party_id: `CP${n}` };
      await cpo.push('PUT', `/2.2.1/tariffs/NL/CP${n}/T${id}`, body);
    }
    await admin(hub, 'PUT', `/routes/NL-SLO/NL-CP${n}`, { active: true });
    cpos.push(cpo);
  }
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'SLO' };
  const calls = cpos.map((cpo) => cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', undefined, to));
  await slow.gotCalls(7);
  const { text } = await callOnce('GET', `${hub.url}/metrics`, undefined, {
    authorization: `Bearer ${hub.adminToken}`,
  });
  const named = new Map<string, string[]>();
  for (const [, partner = '', room = '', share] of text.matchAll(
    /partner_load\{partner="([^"]+)",room="(\w+)"\} (\S+)/g,
  )) {
    named.set(room, [...(named.get(room) ?? []), `${partner} ${share}`]);
  }
  const most = ['NL-CP6', 'NL-CP5', 'NL-CP4', 'NL-CP3', 'NL-CP2'];
  const partnersOf = (room: string) => named.get(room)?.map((one) => one.split(' ')[0]);
  t.strictSame(named.get('calls'), ['NL-SLO 0.7'], 'calls to it');
  t.strictSame(partnersOf('day'), most);
  t.strictSame(partnersOf('objects'), most);
  t.equal(partnersOf('requests')?.length, 5);
  release();
  await Promise.all(calls);
});

t.test('requests of a party that are refused for its rate are one log line a second, with their count', async (t) => {
  const clock = new SimulatedClock('2026-03-01T10:00:00Z');
  const lines: string[] = [];
  const logTo = { write: (line: string) => void lines.push(line) };
  const env = { HUB_RATE_LISTS_PER_MIN: '1', HUB_LOG_LEVEL: 'info', HUB_PROBE_INTERVAL_S: '1000000' };
  const hub = await hubFor(t, env, { clock, logTo });
  const [bad, good] = await Promise.all(
    ['BAD', 'GOD'].map((partyId) => partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId })),
  );
  const list = (of = bad) => of?.call('GET', '/2.2.1/locations');
  const refusals = () =>
    lines
      .map((line) => JSON.parse(line) as { party?: string; httpStatus?: number; count?: number; address?: string })
      .filter(({ httpStatus }) => httpStatus === 429)
      .map(({ party, count, address }) => [party, count, address]);
  for (let n = 0; n < 31; n++) await list();
  t.strictSame(refusals(), [['NL-BAD', 1, undefined]]);
  for (let n = 0; n < 2; n++) await list(good);
  t.strictSame(refusals().slice(1), [['NL-GOD', 1, undefined]], 'another one has lines of its own');
  clock.advance(1000);
  await list();
  t.strictSame(refusals().slice(2), [['NL-BAD', 30, undefined]]);
});
