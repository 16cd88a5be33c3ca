/**
 * The end of a world: faults stop, partners are up, time runs on. Then everything must have drained: nothing pending, no command
 * open, every circuit closed, every partner connected, and the rules of the end hold.
 */
import type { CircuitView } from '../../src/hub/ports/operator.ts';
import { demand } from './facts.ts';
import { completeEndpoints, register } from './operating.ts';
import { cdrTokenOf, ownedBy } from './pushed.ts';
import { push } from './pushing.ts';
import { rot } from './rot.ts';
import { fair } from './simulated-partner.ts';
import { fairDisk, type World } from './world.ts';

const minuteMs = 60_000;
/** Half-open circuits take their trials from traffic: so many rounds of it. */
const roundsMax = 12;

export async function heal(world: World): Promise<void> {
  world.isHealing = true;
  world.diskWeather = fairDisk;
  world.trace('heal');
  for (const partner of world.partners.values()) {
    partner.weather = fair;
    partner.broken.clear();
  }
  // The process may be down for hours.
  if (!(await world.until(() => world.hub !== null, 190 * minuteMs)))
    return world.fail(new Error('the hub does not come back'));
  await world.pass(minuteMs + 10_000);
  world.paused.clear();
  for (const { id } of world.cast.companies) {
    world.ask('resume', (hub, trace) => hub.operations.changeParty(id, { paused: false }, undefined, trace));
  }
  for (const company of world.cast.companies) {
    const party = world.hub?.operations.party(company.id);
    if (party && (party.status === 'SUSPENDED' || party.status === 'REGISTERED')) register(world, company);
    else if (party) refresh(world, company.host);
  }
  completeEndpoints(world);
  await world.pass(1_000);
  for (const { party: emsp } of world.cast.emsps) {
    for (const { party: cpo } of world.cast.cpos)
      world.ask('route', (hub, trace) => hub.operations.setRoute(emsp, cpo, true, trace));
  }
  await world.pass(1_000);
  await drain(world);
  if (!world.failure && world.settings.eventsKeepDays > 0) await trimmed(world);
}

/** Traffic until everybody is well and nothing waits; then the rules of the end hold. */
async function drain(world: World): Promise<void> {
  for (let round = 0; round < roundsMax && !isWell(world) && !world.failure; round++) {
    traffic(world, round);
    await world.pass(minuteMs + 7_000);
  }
  await jobsEnded(world);
  const end = world.agenda.now + 180 * minuteMs;
  do {
    await world.until(() => isDrained(world), end - world.agenda.now);
    // The rows of what ended last are written by then; a late callback may have begun one more watch.
    await world.pass(2_000);
  } while (!isDrained(world) && world.agenda.now < end && !world.failure);
  if (!world.failure) world.guarded(() => judgeEnd(world));
}

/** All but what is needed goes at the next full hour; and everything holds once more, also for a hub that has only what is left. */
async function trimmed(world: World): Promise<void> {
  await world.pass(61 * minuteMs);
  rot(world);
  world.restart();
  await world.until(() => world.hub === null, minuteMs);
  if (!(await world.until(() => world.hub !== null, 10 * minuteMs)))
    return world.fail(new Error('the hub does not come back'));
  await drain(world);
}

/** A re-drive by filter goes on in steps, between which nothing may wait. What a crash ended the hub has no more. */
async function jobsEnded(world: World): Promise<void> {
  const running = new Set(world.jobs);
  for (let minutes = 0; running.size > 0 && minutes < 180 && !world.failure; minutes++) {
    for (const id of running)
      world.ask('job', (hub) => hub.operations.job(id), {
        ok: ({ state }) => void (state === 'RUNNING' || running.delete(id)),
        failed: () => void running.delete(id),
      });
    await world.pass(minuteMs);
  }
}

/** A partner that missed its new token in a crash does not know it: its operator gives it a new start. */
function refresh(world: World, host: string): void {
  const partner = world.partners.get(host);
  if (!partner || (partner.hubToken && world.hub?.authenticate(partner.hubToken, '127.0.0.1')?.kind === 'hub')) return;
  const { company } = partner;
  world.ask('suspend', (hub, trace) => hub.operations.suspend(company.id, trace), {
    ok: () => register(world, company),
  });
}

/** Something for each circuit of each partner. */
function traffic(world: World, round: number): void {
  const { cpos, emsps } = world.cast;
  for (const cpo of cpos) {
    const owner = cpo.party;
    const last_updated = new Date(world.agenda.now).toISOString();
    for (const emsp of emsps) {
      const id = `H-${emsp.party}`;
      const body = { ...ownedBy(owner), id, status: 'ACTIVE', round, cdr_token: cdrTokenOf(emsp.party), last_updated };
      push(world, cpo, { module: 'sessions', method: 'PUT', owner, id, body });
      const cdr = `H-${emsp.party}-${world.agenda.now}`;
      push(world, cpo, { module: 'cdrs', method: 'POST', owner, id: cdr, body: { ...body, id: cdr } });
    }
    const body = { ...ownedBy(owner), id: 'H', round, publish: true, last_updated };
    for (const module of ['locations', 'tariffs'] as const)
      push(world, cpo, { module, method: 'PUT', owner, id: 'H', body });
  }
  for (const emsp of emsps) {
    const id = 'H';
    const body = {
      ...ownedBy(emsp.party),
      uid: id,
      type: 'RFID',
      round,
      last_updated: new Date(world.agenda.now).toISOString(),
    };
    push(world, emsp, { module: 'tokens', method: 'PUT', owner: emsp.party, id, body });
  }
  for (const [from, to, isAtCharger] of [
    ...cpos.map((cpo) => [cpo, emsps, true] as const),
    ...emsps.map((emsp) => [emsp, cpos, false] as const),
  ]) {
    for (const { party } of to) {
      const [country_code = '', party_id = ''] = party.split('-');
      const request = { uid: 'H', type: 'RFID', to: { country_code, party_id }, body: null };
      world.ask('authorize', async (hub, trace) => {
        const caller = world.callerOf(hub, from, trace);
        return caller && (isAtCharger ? hub.authorizeAtEmsp(caller, request) : hub.authorizeAtCpo(caller, request));
      });
    }
  }
}

/** Closed; that of results may wait for the next result, its trial. */
const isRested = ({ circuit, state }: CircuitView): boolean =>
  state === 'closed' || (circuit === 'results' && state === 'halfOpen');

function isWell(world: World): boolean {
  const parties = world.hub?.operations.parties() ?? [];
  return parties.every(({ status, circuits }) => status === 'CONNECTED' && circuits.every(isRested));
}

function isDrained(world: World): boolean {
  if (!world.created || !isWell(world)) return false;
  const { operations } = world.created.hub;
  if (operations.status().backlog.depth > 0) return false;
  return [...world.created.context.supervisor.views()].every(({ kind, status, snapshot }) => {
    if (status !== 'active') return false;
    if (kind === 'command') return false;
    return kind !== 'orphan-stop' || snapshot?.value === 'open';
  });
}

/** Dead letters that the disk remembers, by partner. */
function deadLetters({ cast, disk }: World): Map<string, number> {
  const partnerOf = new Map(cast.companies.flatMap(({ id, members }) => members.map(({ party }) => [party, id])));
  const dead = new Map(cast.companies.map(({ id }) => [id, 0]));
  for (const { dest, state } of disk.deliveries.values()) {
    const id = partnerOf.get(dest) ?? '';
    if (state === 'DEAD') dead.set(id, (dead.get(id) ?? 0) + 1);
  }
  return dead;
}

function judgeEnd(world: World): void {
  const { judge, hub, created, agenda } = world;
  demand(hub !== null && created !== null, 'the hub is up in the end', () => 'it is not');
  if (!hub || !created) return;
  const dead = deadLetters(world);
  for (const { id, status, circuits, queue } of hub.operations.parties()) {
    demand(status === 'CONNECTED', 'everybody is connected in the end', () => `${id} is ${status}`);
    for (const one of circuits)
      demand(isRested(one), 'every circuit is closed in the end', () => `${one.circuit} of ${id} is ${one.state}`);
    demand(queue.depth === 0, 'nothing is pending in the end', () => `${queue.depth} for ${id}`);
    demand(
      queue.dead === dead.get(id),
      'dead letters are counted',
      () => `${queue.dead} of ${id}, not ${dead.get(id)}`,
    );
  }
  const views = [...created.context.supervisor.views()].map(
    ({ id, status, snapshot }) => `${id} ${status} ${JSON.stringify(snapshot?.value)}`,
  );
  demand(isDrained(world), 'every actor is at rest in the end', () => views.join(', '));
  judge.final(world.disk, world.partners, agenda.now);
}
