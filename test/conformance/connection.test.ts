/**
 * Whether partners can be reached: who is probed and when, OFFLINE and back, and what goes on all the same. [D34]
 */
import { locationBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { arrivals, lines, statusOf } from '../support/observed.ts';
import { admin, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const intervalMs = 60_000;
const done = '200/1000';

interface Probed {
  readonly partner: PlainPartner;
  /** How it answers probes from now on; undefined: as it should. */
  unwell: Reply | undefined;
}

class Scene {
  readonly clock: SimulatedClock;
  readonly cpo: Probed;
  readonly emsp: Probed;
  /** Reads hub client info, so that looking is no sign of life of the others. */
  readonly observer: PlainPartner;
  readonly hub: TestHub;
  readonly #t: Test;

  constructor(t: Test, hub: TestHub, clock: SimulatedClock, partners: Pick<Scene, 'cpo' | 'emsp' | 'observer'>) {
    this.#t = t;
    this.hub = hub;
    this.clock = clock;
    this.cpo = partners.cpo;
    this.emsp = partners.emsp;
    this.observer = partners.observer;
  }

  /** Lets time pass; resolves with the probes that CPO and eMSP got, once all that fell due have been answered. */
  async pass(ms: number): Promise<{ cpo: number; emsp: number }> {
    const before = [this.cpo.partner.asked.length, this.emsp.partner.asked.length] as const;
    this.clock.advance(ms);
    await this.hub.settled();
    return { cpo: this.cpo.partner.asked.length - before[0], emsp: this.emsp.partner.asked.length - before[1] };
  }

  /** How hub client info shows a party. */
  async shown(partyId: 'CPO' | 'EMS'): Promise<{ status: string; last_updated: string } | undefined> {
    const answer = await this.observer.call('GET', '/2.2.1/hubclientinfo');
    const parties = answer.json.data as { party_id: string; status: string; last_updated: string }[];
    return parties.find(({ party_id }) => party_id === partyId);
  }

  async becomes(partyId: 'CPO' | 'EMS', status: string): Promise<void> {
    await this.hub.settled();
    this.#t.equal((await this.shown(partyId))?.status, status, `${partyId} is ${status}`);
  }

  async loseSight(probed: Probed, partyId: 'CPO' | 'EMS'): Promise<void> {
    probed.unwell = { status: 500 };
    for (let times = 0; times < 3; times++) await this.pass(intervalMs);
    await this.becomes(partyId, 'OFFLINE');
  }
}

/** A hub whose time stands still; a CPO and an eMSP, routed, that were silent since they registered. */
async function sceneFor(t: Test): Promise<Scene> {
  const clock = new SimulatedClock('2026-03-01T12:00:00Z');
  const hub = await hubFor(t, {}, { clock });
  const answer = ({ path }: Received) =>
    path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 30 } } : { body: { allowed: 'ALLOWED' } };
  async function probed(role: 'CPO' | 'EMSP', partyId: string): Promise<Probed> {
    const box: { unwell: Reply | undefined } = { unwell: undefined };
    const discovery = () => box.unwell;
    const partner = await partnerFor(t, hub, { role, countryCode: 'NL', partyId, discovery, answer });
    return Object.assign(box, { partner });
  }
  const [cpo, emsp] = [await probed('CPO', 'CPO'), await probed('EMSP', 'EMS')];
  const observer = await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId: 'OBS' });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  return new Scene(t, hub, clock, { cpo, emsp, observer });
}

t.test(
  'a silent partner is probed every 60 s at the url of its credentials [interface, What the service does 5; D34, D42]',
  async (t) => {
    const scene = await sceneFor(t);
    const before = scene.cpo.partner.asked.length;
    t.same(await scene.pass(intervalMs - 1), { cpo: 0, emsp: 0 }, 'not before');
    t.same(await scene.pass(1), { cpo: 1, emsp: 1 });
    t.same(await scene.pass(intervalMs), { cpo: 1, emsp: 1 }, 'and again');
    t.same(lines(scene.cpo.partner.asked.slice(before)), ['GET /ocpi/versions', 'GET /ocpi/versions']);
    t.equal((await scene.shown('CPO'))?.status, 'CONNECTED');
  },
);

t.test(
  'a partner that called within the interval is not probed: any authenticated call is a sign of life [D34]',
  async (t) => {
    const scene = await sceneFor(t);
    const { partner } = scene.cpo;
    await scene.pass(intervalMs / 2);
    await partner.call('GET', '/versions');
    t.same(await scene.pass(intervalMs / 2), { cpo: 0, emsp: 1 }, 'it called half an interval ago');
    t.same(await scene.pass(intervalMs), { cpo: 1, emsp: 1 }, 'it has been silent since');
    await partner.call('DELETE', '/2.2.1/tariffs/NL/CPO/NONE');
    t.same(await scene.pass(intervalMs - 1), { cpo: 0, emsp: 0 });
    await partner.call('GET', '/versions', undefined, { Authorization: 'Token bm90LW9uZQ==' });
    t.same(await scene.pass(1), { cpo: 1, emsp: 1 }, 'a call with a wrong token is none of its');
  },
);

t.test('failures for more than 60 s make its parties OFFLINE, the next success CONNECTED [D34]', async (t) => {
  const scene = await sceneFor(t);
  const ways: [string, Reply][] = [
    ['500', { status: 500 }],
    ['401', { status: 401, text: '{"status_code":2000,"timestamp":"2026-01-01T00:00:00Z"}' }],
    ['404', { status: 404, text: '{}' }],
    ['a cut connection', { isCut: true }],
    ['no JSON', { text: '<html>' }],
    ['an OCPI error', { text: '{"status_code":3000,"timestamp":"2026-01-01T00:00:00Z"}' }],
  ];
  for (const [what, unwell] of ways) {
    scene.cpo.unwell = unwell;
    for (const failing of ['0 s', '60 s']) {
      // A connection that is cut before any answer is tried once more at once.
      t.ok((await scene.pass(intervalMs)).cpo > 0, `${what}: it was asked`);
      t.equal((await scene.shown('CPO'))?.status, 'CONNECTED', `${what}: failing for ${failing}`);
    }
    await scene.pass(intervalMs);
    await scene.becomes('CPO', 'OFFLINE');
    const offlineAt = new Date(scene.clock.now()).toISOString();
    t.equal((await scene.shown('CPO'))?.last_updated, offlineAt, `${what}: its entry says since when`);
    t.equal((await scene.shown('EMS'))?.status, 'CONNECTED', `${what}: the other partner is not concerned`);
    scene.cpo.unwell = undefined;
    await scene.pass(intervalMs);
    await scene.becomes('CPO', 'CONNECTED');
    const onlineAt = new Date(scene.clock.now()).toISOString();
    t.equal((await scene.shown('CPO'))?.last_updated, onlineAt, `${what}: and since when it is back`);
  }
});

t.test('a success in between restarts the count [D34]', async (t) => {
  const scene = await sceneFor(t);
  for (const isWell of [false, false, true, false, false]) {
    scene.cpo.unwell = isWell ? undefined : { status: 500 };
    await scene.pass(intervalMs);
  }
  t.equal((await scene.shown('CPO'))?.status, 'CONNECTED', 'it never failed for more than 60 s');
  await scene.pass(intervalMs);
  await scene.becomes('CPO', 'OFFLINE');
  t.pass('one failure more and it has');
});

t.test(
  'a failed probe is repeated even if the partner calls, so that a later failure does not add to it [D34]',
  async (t) => {
    const scene = await sceneFor(t);
    const { cpo } = scene;
    cpo.unwell = { status: 500 };
    await scene.pass(intervalMs);
    cpo.unwell = undefined;
    let probes = 0;
    for (let calls = 0; calls < 20; calls++) {
      await cpo.partner.call('GET', '/versions');
      probes += (await scene.pass(intervalMs / 2)).cpo;
    }
    t.equal(probes, 1, 'until one succeeds');
    cpo.unwell = { status: 500 };
    t.equal((await scene.pass(intervalMs)).cpo, 1, 'it is silent');
    t.equal((await scene.shown('CPO'))?.status, 'CONNECTED', 'one probe failed');
  },
);

t.test('a call of an OFFLINE partner does not prove that it can be reached [D34]', async (t) => {
  const scene = await sceneFor(t);
  await scene.loseSight(scene.cpo, 'CPO');
  await scene.pass(intervalMs / 2);
  t.equal((await scene.cpo.partner.call('GET', '/versions')).status, 200, 'it may call');
  t.equal((await scene.shown('CPO'))?.status, 'OFFLINE', 'and stays OFFLINE');
  scene.cpo.unwell = undefined;
  t.equal((await scene.pass(intervalMs / 2)).cpo, 1, 'it is asked, though it called within the interval');
  await scene.becomes('CPO', 'CONNECTED');
});

t.test('OFFLINE holds back neither commands, authorize nor forwards [interface, Commands 6, Errors]', async (t) => {
  const scene = await sceneFor(t);
  const [cpo, emsp] = [scene.cpo.partner, scene.emsp.partner];
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await scene.loseSight(scene.cpo, 'CPO');
  await scene.loseSight(scene.emsp, 'EMS');
  const command = await emsp.call('POST', '/2.2.1/commands/UNLOCK_CONNECTOR', {
    ...{ response_url: `${emsp.url}/x`, location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1' },
  });
  t.equal(statusOf(command), done);
  t.match(command.json.data, { result: 'ACCEPTED' }, 'the CPO was asked');
  const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  const authorize = await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', undefined, to);
  t.match(authorize.json.data, { allowed: 'ALLOWED' }, 'the eMSP was asked');
  const change = { name: 'new', last_updated: '2026-03-01T12:00:00Z' };
  const came = await arrivals(scene.hub, emsp, () => cpo.call('PATCH', '/2.2.1/locations/NL/CPO/LOC1', change));
  t.same(lines(came), ['PATCH /ocpi/2.2.1/locations/NL/CPO/LOC1'], 'forwards go out');
  t.same([(await scene.shown('CPO'))?.status, (await scene.shown('EMS'))?.status], ['OFFLINE', 'OFFLINE']);
});

t.test(
  'a suspended partner, or one that never registered, is not probed [interface, Party connection status; D34]',
  async (t) => {
    const scene = await sceneFor(t);
    await admin(scene.hub, 'POST', '/parties', { roles: [{ role: 'CPO', country_code: 'NL', party_id: 'NEW' }] });
    await admin(scene.hub, 'POST', '/parties/NL-CPO/suspend');
    await scene.emsp.partner.call('DELETE', '/2.2.1/credentials');
    for (let minute = 0; minute < 4; minute++) t.same(await scene.pass(intervalMs), { cpo: 0, emsp: 0 });
    for (const partyId of ['CPO', 'EMS'] as const) t.equal((await scene.shown(partyId))?.status, 'SUSPENDED', partyId);
  },
);

t.test('an operator probes a partner at once: POST /admin/v1/parties/{id}/probe [D34, D42]', async (t) => {
  const scene = await sceneFor(t);
  const probe = () => admin(scene.hub, 'POST', '/parties/NL-CPO/probe');
  const before = scene.cpo.partner.asked.length;
  const { status, latency_ms } = await probe();
  t.same([status, typeof latency_ms], ['reachable', 'number'], 'whoever called a moment ago');
  t.same(lines(scene.cpo.partner.asked.slice(before)), ['GET /ocpi/versions']);
  scene.cpo.unwell = { status: 500 };
  t.match(await probe(), { status: 'unreachable', error: /\S/ }, 'with what was met');
  t.equal((await scene.shown('CPO'))?.status, 'CONNECTED', 'one failure makes nobody OFFLINE');
  await scene.loseSight(scene.cpo, 'CPO');
  scene.cpo.unwell = undefined;
  t.match(await probe(), { status: 'reachable' });
  await scene.becomes('CPO', 'CONNECTED');
  await admin(scene.hub, 'POST', '/parties/NL-CPO/suspend');
  await t.rejects(probe(), /409/, 'of a suspended partner there is nothing to ask');
});

t.test('after a start silent partners are probed spread over the interval, not all at once', async (t) => {
  const dir = directoryFor(t);
  const first = await hubFor(t, {}, {}, dir);
  const { cpo, emsp } = await routedPair(t, first);
  await first.close();
  const clock = new SimulatedClock('2027-03-01T12:00:00Z');
  const drawn = [0.25, 0.75];
  const hub = await hubFor(t, {}, { clock, random: () => drawn.shift() ?? 0 }, dir);
  const asked = () => cpo.asked.length + emsp.asked.length;
  const before = asked();
  const after: number[] = [];
  for (let quarter = 1; quarter <= 4; quarter++) {
    clock.advance(intervalMs / 4);
    await hub.settled();
    after.push(asked() - before);
  }
  t.same(after, [1, 1, 2, 2]);
});
