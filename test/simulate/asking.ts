/** Steps of a workload in which somebody waits for a counterpart: authorize and commands. */
import type { CommandName } from '../../src/domain/events.ts';
import type { CommandRequest } from '../../src/hub/ports/hub.ts';
import { type Member, partsOf } from './cast.ts';
import { handleOrphans } from './operating.ts';
import { cardOf, cdrTokenOf, ownedBy, references } from './pushed.ts';
import { push } from './pushing.ts';
import type { Random } from './random.ts';
import { startKey } from './reference.ts';
import type { World } from './world.ts';

export function authorize(world: World, random: Random): void {
  const isAtCharger = random.chance(0.6);
  const member = random.pick(isAtCharger ? world.cast.cpos : world.cast.emsps);
  const other = random.pick(isAtCharger ? world.cast.emsps : world.cast.cpos);
  const request = { uid: 'CARD1', type: 'RFID', to: partsOf(other.party), body: null };
  world.ask(
    'authorize',
    async (hub, trace) => {
      const caller = world.callerOf(hub, member, trace);
      if (!caller) return null;
      return isAtCharger ? hub.authorizeAtEmsp(caller, request) : hub.authorizeAtCpo(caller, request);
    },
    {
      ok: (answer) => answer !== null && world.hit('an authorize was answered'),
      failed: (code) => code.startsWith('authorize') && world.hit('an authorize failed'),
    },
  );
}

/** An eMSP stops a session of its own, as soon as it has one. */
export function stopSession(world: World, random: Random): void {
  const hasOne = ({ party }: { party: string }) => ownSessions(world, party).length > 0;
  const members = world.cast.emsps.filter(hasOne);
  if (members.length > 0) send(world, random, random.pick(members), 'STOP_SESSION');
}

export function command(world: World, random: Random): void {
  const member = random.pick(world.cast.emsps);
  const name = random.weighted({
    START_SESSION: 7,
    STOP_SESSION: 6,
    RESERVE_NOW: 2,
    CANCEL_RESERVATION: 1,
    UNLOCK_CONNECTOR: 1,
  });
  send(world, random, member, name);
}

function send(world: World, random: Random, member: Member, name: CommandName): void {
  const responseUrl = `http://${member.host}/results/${world.newId('q')}`;
  const cpo = random.pick(world.cast.cpos);
  const isStop = name === 'STOP_SESSION';
  const isCancel = name === 'CANCEL_RESERVATION';
  const isNamed = isCancel || random.chance(0.4);
  const request: CommandRequest = {
    ...{ command: name, responseUrl, to: isNamed ? partsOf(cpo.party) : null },
    locationId: isStop || isCancel ? null : `L${random.between(1, 3)}`,
    sessionId: isStop ? sessionOf(world, random, member.party) : null,
    reservationId: isCancel || name === 'RESERVE_NOW' ? `R${random.between(1, 2)}` : null,
    tokenUid: name === 'START_SESSION' ? cardOf(member.party) : null,
    authorizationReference: name === 'START_SESSION' && random.chance(0.5) ? random.pick(references) : null,
    bodyFor: (callback) => JSON.stringify({ response_url: callback }),
  };
  world.ask(
    `command ${name}`,
    async (hub, trace) => {
      const caller = world.callerOf(hub, member, trace);
      return caller && hub.command(caller, request, (_characters, read) => read());
    },
    {
      ok(answer) {
        if (!answer) return;
        world.judge.commands.answeredWith(responseUrl, answer.result);
        if (name === 'START_SESSION' && answer.result === 'ACCEPTED') {
          beginLater(world, random, member.party, random.pick([500, 20_000]));
          beginLater(world, random, member.party, random.pick([60_000, 420_000]));
        }
        if (isStop && answer.result === 'ACCEPTED') finishLater(world, random, String(request.sessionId), member.party);
        world.hit(
          answer.result === 'ACCEPTED' ? 'a command was answered ACCEPTED' : 'a command was refused by the CPO',
        );
      },
      failed(code) {
        if (!code.startsWith('command')) return;
        world.hit('a command forward failed');
        const isHeldBack = world.judge.commands.isUnsent(responseUrl);
        if (isHeldBack && code === 'commandUnavailable') world.hit('a call was held back by an open circuit');
        world.judge.commands.refusedWith(responseUrl, code);
      },
    },
  );
}

/** After a start the CPO reports a session in time or late; often the token in it says nothing of the eMSP. */
function beginLater(world: World, random: Random, emsp: string, ms: number): void {
  world.agenda.at(world.agenda.now + ms, () => {
    const { starts } = world.judge.facts.directory;
    const cpo = world.cast.cpos.find(({ party }) => starts.has(startKey(party, 'uid', cardOf(emsp))));
    if (!cpo) return;
    const last_updated = new Date(world.agenda.now).toISOString();
    const id = `P${random.between(1, 9)}`;
    const cdr_token = cdrTokenOf(random.pick([emsp, 'NL-ZZZ', 'NL-ZZZ']), random.chance(0.7) ? cardOf(emsp) : 'CARD1');
    const authorization_reference = random.pick([...references, null]);
    const token = { cdr_token, authorization_reference };
    const body = { ...ownedBy(cpo.party), id, status: 'ACTIVE', kwh: 0, charging_periods: [], ...token, last_updated };
    push(world, cpo, { module: 'sessions', method: 'PUT', owner: cpo.party, id, body });
  });
}

/** After a stop the CPO reports the end of the session in time, late, or never. */
function finishLater(world: World, random: Random, id: string, emsp: string): void {
  const when = random.weighted({ soon: 3, late: 3, never: 4 });
  if (when === 'never') {
    // Then somebody looks after its case, be it that no process runs when its grace ends.
    if (random.chance(0.15))
      world.agenda.at(world.agenda.now + random.between(62_000, 118_000), () => world.deaths.now('minutes'));
    world.agenda.at(world.agenda.now + 450_000, () => random.chance(0.4) && handleOrphans(world, random));
    return;
  }
  const ms = when === 'soon' ? random.between(1_000, 110_000) : random.between(430_000, 500_000);
  world.agenda.at(world.agenda.now + ms, () => {
    for (const cpo of world.cast.cpos) {
      if (world.judge.facts.directory.viewers.get(`sessions/${cpo.party}/${id.toLowerCase()}`) !== emsp) continue;
      const body = { status: 'COMPLETED', last_updated: new Date(world.agenda.now).toISOString() };
      push(world, cpo, { module: 'sessions', method: 'PATCH', owner: cpo.party, id, body });
    }
  });
}

function ownSessions(world: World, emsp: string): string[] {
  const own: string[] = [];
  for (const [stream, object] of world.judge.facts.objects) {
    const isTheirs = world.judge.facts.directory.viewers.get(stream) === emsp;
    if (stream.startsWith('sessions/') && isTheirs && object.status === 'ACTIVE') own.push(String(object.id));
  }
  return own;
}

/** One of the eMSP's own sessions that has not ended, if the judge knows one; else any. */
function sessionOf(world: World, random: Random, emsp: string): string {
  const own = ownSessions(world, emsp);
  return own.length > 0 ? random.pick(own) : `S${random.between(1, 4)}`;
}
