/** Steps of a workload in which operators act, and partners come and go. */

import type { Trace } from '../../src/domain/events.ts';
import type { CredentialsBody, Endpoint } from '../../src/domain/party.ts';
import type { Hub } from '../../src/hub/ports/hub.ts';
import { poison } from '../support/poison.ts';
import { type Company, endpointsOf, roleOf } from './cast.ts';
import type { Owed } from './owed.ts';
import type { Random } from './random.ts';
import type { SimulatedPartner } from './simulated-partner.ts';
import type { World } from './world.ts';

const partnerOf = (world: World, company: Company) => world.partners.get(company.host) as SimulatedPartner;

function credentialsOf(world: World, partner: SimulatedPartner): CredentialsBody {
  const { host, members } = partner.company;
  const token = world.newId('partner-token-');
  partner.tokens.push(token);
  return { token, url: `http://${host}/versions`, roles: members.map(roleOf) };
}

/** An exchange with the token that the partner has. */
function exchange(world: World, partner: SimulatedPartner, verb: 'register' | 'rotate'): void {
  const token = verb === 'register' ? partner.initialToken : partner.hubToken;
  const credential = token && world.hub?.authenticate(token, '127.0.0.1');
  if (!credential) return;
  const body = credentialsOf(world, partner);
  world.ask(verb, (hub, trace) => hub[verb](credential, () => body, trace), {
    ok({ token: given }) {
      partner.hubToken = given;
      partner.initialToken = null;
    },
    // A refused exchange leaves the partner's old token in force.
    failed: (code) => code !== 'lost' && partner.tokens.splice(partner.tokens.indexOf(body.token), 1),
  });
}

/** Asks for an initial token and registers with it. */
export function register(world: World, company: Company): void {
  const partner = partnerOf(world, company);
  world.ask('initial token', (hub, trace) => hub.operations.issueInitialToken(company.id, trace), {
    ok(token) {
      partner.initialToken = token;
      exchange(world, partner, 'register');
    },
  });
}

export function rotate(world: World, random: Random): void {
  world.hit('a partner rotated its credentials');
  exchange(world, partnerOf(world, random.pick(world.cast.companies)), 'rotate');
}

export function unregister(world: World, random: Random): void {
  const company = random.pick(world.cast.companies);
  const partner = partnerOf(world, company);
  const credential = partner.hubToken ? world.hub?.authenticate(partner.hubToken, '127.0.0.1') : null;
  if (credential?.kind !== 'hub') return;
  world.ask('unregister', (hub, trace) => hub.unregister(credential, trace), {
    ok() {
      world.hit('a partner unregistered itself');
      world.judge.facts.known();
      partner.hubToken = null;
      later(world, random, company);
    },
  });
}

export function suspend(world: World, random: Random): void {
  const company = random.pick(world.cast.companies);
  world.ask('suspend', (hub, trace) => hub.operations.suspend(company.id, trace), {
    ok() {
      world.hit('a partner was suspended by an operator');
      world.judge.facts.known();
      partnerOf(world, company).hubToken = null;
      later(world, random, company);
    },
  });
}

function later(world: World, random: Random, company: Company): void {
  world.agenda.at(world.agenda.now + random.between(0, 60_000), () => {
    world.hit('a partner registered again');
    register(world, company);
  });
}

/** An operator sets the endpoint that a partner does not tell. */
export function giveEndpoint(world: World): void {
  for (const { company, lacking } of world.partners.values()) {
    if (!lacking) continue;
    const ok = () => world.hit('an operator set a missing endpoint');
    world.ask('endpoints', (hub, trace) => hub.operations.setEndpoints(company.id, [lacking], trace), { ok });
  }
}

/** Whoever left out an endpoint when the hub last heard it tells all of them now. */
export function completeEndpoints(world: World): void {
  for (const partner of world.partners.values()) {
    partner.forgetting = 0;
    const known = world.hub?.operations.party(partner.company.id)?.endpoints ?? [];
    const isKnown = (told: Endpoint) =>
      known.some(({ identifier, role }) => identifier === told.identifier && role === told.role);
    if (!endpointsOf(partner.company).every(isKnown)) exchange(world, partner, 'rotate');
  }
}

/** A CPO enters its COMPATIBILITY period, with an end that comes soon, late or lies behind, or leaves it. [D37] */
export function changeMode(world: World, random: Random): void {
  const { party } = random.pick(world.cast.cpos);
  const company = world.cast.companies.find(({ members }) => members.some((member) => member.party === party));
  const settings = random.chance(0.2) ? { identity_mode: 'COMPLIANT' as const } : compatibility(world, random);
  world.ask('mode', (hub, trace) => hub.operations.changeParty(company?.id ?? '', settings, undefined, trace));
}

/** A hundred days, ms: further than anybody sets a clock. */
const farMs = 8_640_000_000;

export function compatibility(world: World, random: Random) {
  const soonMs = random.pick([-1_000, 60_000, 600_000, 36_000_000, 36_000_000]);
  // It is a date of the calendar: beside a clock that somebody sets, nobody can say on which side of it an instant is.
  const until = world.agenda.now + (world.isClockSet ? farMs : soonMs);
  return { identity_mode: 'COMPATIBILITY', compatibility_until: new Date(until).toISOString() } as const;
}

export function pauseOrResume(world: World, random: Random): void {
  const { id } = random.pick(world.cast.companies);
  if (!world.paused.delete(id)) {
    const ok = () => {
      world.hit('deliveries were paused');
      world.paused.add(id);
    };
    world.ask('pause', (hub, trace) => hub.operations.changeParty(id, { paused: true }, undefined, trace), { ok });
    return;
  }
  world.ask('resume', (hub, trace) => hub.operations.changeParty(id, { paused: false }, undefined, trace));
}

export function changeRoute(world: World, random: Random): void {
  const [emsp, cpo] = [random.pick(world.cast.emsps).party, random.pick(world.cast.cpos).party];
  const kind = random.weighted({ off: 2, gone: 1, on: 4 });
  if (kind !== 'on') world.hit('a route was taken away');
  if (kind === 'gone') world.ask('route gone', (hub, trace) => hub.operations.removeRoute(emsp, cpo, trace));
  else world.ask(`route ${kind}`, (hub, trace) => hub.operations.setRoute(emsp, cpo, kind === 'on', trace));
}

export function redriveOne(world: World, random: Random): void {
  const dead = [...world.judge.deliveries.owed.values()].filter(
    ({ row, isDelivered }) => row === 'DEAD' || isDelivered,
  );
  const wanted = dead.filter(({ row }) => row === 'DEAD');
  const pool = wanted.length > 0 && random.chance(0.8) ? wanted : dead;
  if (pool.length === 0) return;
  const isWaiting = ({ row, isDelivered }: Owed) => !isDelivered && row !== 'DEAD';
  const crowded = dead.filter(({ lane }) => lane.owed.some(isWaiting));
  const isCrowded = crowded.length > 0 && random.chance(0.7);
  const { fact, receiver } = random.pick(isCrowded ? crowded : pool);
  const isForced = random.chance(isCrowded ? 0.8 : 0.2);
  const id = `${fact.seq}-${receiver}`;
  if (isForced) world.judge.deliveries.forced.add(id);
  const verb = (hub: Hub, trace: Trace) => hub.operations.redriveOne(id, isForced, trace);
  world.ask(isForced ? 'redrive forced' : 'redrive', verb, {
    ok: () => world.hit(isCrowded ? 'a delivery was put back behind others' : 'a dead letter was re-driven'),
    failed: (code) => code === 'conflict' && world.hit('a re-drive was refused as stale'),
  });
}

export function discardOne(world: World, random: Random): void {
  const dead = [...world.judge.deliveries.owed.values()].filter(({ row }) => row === 'DEAD');
  if (dead.length === 0) return;
  const { fact, receiver } = random.pick(dead);
  const verb = (hub: Hub, trace: Trace) => hub.operations.discardOne(`${fact.seq}-${receiver}`, trace);
  world.ask('discard', verb, { ok: () => world.hit('a dead letter was discarded') });
}

export function discardMany(world: World, random: Random): void {
  const filter = { receiver: random.pick(world.cast.emsps).party };
  world.ask('discard many', (hub, trace) => hub.operations.discard(filter, trace), {
    ok: ({ id }) => void world.jobs.add(id),
  });
}

/** Operators take care of a case or of a group of dead letters. */
export function triage(world: World, random: Random): void {
  const until = new Date(world.agenda.now + random.between(1, 7_200_000)).toISOString();
  const change = { assignee: 'ann', ...(random.chance(0.5) ? { snoozedUntil: until } : { remark: 'seen' }) };
  world.ask('triage', async ({ operations }, trace) => {
    const [group] = await operations.deadGroups(null);
    const [open] = await operations.orphans('OPEN', null);
    if (group) await operations.triageDeadGroup(group, change, trace);
    if (open) await operations.triageOrphan(open.id, change, trace);
    const groups = await operations.deadGroups('ann');
    if (groups.length > 0) world.hit('a group of dead letters had somebody who takes care of it');
  });
}

export function redriveMany(world: World, random: Random): void {
  const force = random.chance(0.15);
  const options = { ratePerS: 50, force, routing: random.pick(['then', 'now'] as const) };
  const filter = random.pick([{}, { state: 'ANY' } as const, { receiver: random.pick(world.cast.emsps).party }]);
  world.ask('redrive many', (hub, trace) => hub.operations.redrive(filter, options, trace), {
    ok({ id }) {
      world.jobs.add(id);
      if (force) world.judge.deliveries.forced.add(id);
      world.hit('a re-drive by filter ran');
    },
  });
}

export function resync(world: World, random: Random): void {
  const { id } = random.pick(world.cast.companies);
  const module = random.pick(['locations', 'tariffs', 'sessions', 'cdrs', 'tokens'] as const);
  const ok = ({ id: job }: { readonly id: string }) => {
    world.jobs.add(job);
    world.hit('a resync ran');
  };
  world.ask('resync', (hub, trace) => hub.operations.resync(id, module, trace), { ok });
}

export function pull(world: World, random: Random): void {
  const member = random.pick(world.cast.cpos);
  const company = world.cast.companies.find(({ host }) => host === member.host);
  const module = random.pick(['locations', 'tariffs'] as const);
  const asked = { full: random.chance(0.5), forward: random.chance(0.4) };
  world.ask('pull', (hub, trace) => hub.operations.startPull(company?.id ?? '', module, asked, trace));
}

export function handleOrphans(world: World, random: Random): void {
  const orphans = async (hub: Hub, trace: Trace) => {
    const [open] = await hub.operations.orphans('OPEN', null);
    if (!open) return;
    if (random.chance(0.5)) await hub.operations.resolveOrphan(open.id, 'by hand', trace);
    else await hub.operations.pullOrphan(open.id, trace);
  };
  world.ask('orphans', orphans);
}

export function setCircuit(world: World, random: Random): void {
  const { id } = random.pick(world.cast.companies);
  const [circuit, state] = [random.pick(['sync', 'async'] as const), random.pick(['open', 'closed'] as const)];
  world.judge.deliveries.circuitIsSet(id);
  world.ask(`circuit ${circuit} ${state}`, async (hub, trace) => hub.operations.setCircuit(id, circuit, state, trace));
}

export function probe(world: World, random: Random): void {
  const { id } = random.pick(world.cast.companies);
  world.ask('probe', (hub) => hub.operations.probe(id));
}

/** Everything that operators look at, at a moment nobody chose. */
export function look(world: World, random: Random): void {
  const page = { limit: 20, cursor: null };
  world.ask('look', async ({ operations, ...hub }) => {
    operations.status();
    operations.vitals();
    await operations.deliveries({}, { ...page, order: random.pick(['oldest', 'newest']) });
    await operations.commands({}, page);
    await operations.deadGroups(null);
    await operations.planRedrive({}, { routing: random.pick(['then', 'now']), force: false });
    return hub.clientInfo({ offset: 0, limit: 100 });
  });
}

/** An actor meets an event that it does not survive. */
export function poisoned(world: World, random: Random): void {
  const { id } = random.pick(world.cast.companies);
  world.created?.context.supervisor.send(`partner:${id}`, poison());
}
