/** Steps of a workload in which partners push objects: new and again, whole and in part, right and wrong. */
import type { ObjectModule } from '../../src/domain/modules.ts';
import { laneMax } from '../../src/hub/delivery/window.ts';
import type { Member } from './cast.ts';
import { cardOf, cdrTokenOf, changeOf, ownedBy, type Pushed, references } from './pushed.ts';
import type { Random } from './random.ts';
import { changed, type Json } from './reference.ts';
import type { World } from './world.ts';

const idsMax = 3;
const againMax = 3;

/** `last_updated` of a push made now; each is a moment later than the one before. */
function dateOf(world: World): string {
  return new Date(world.agenda.now).toISOString();
}

/** Pushes, and as a partner does, once more when it was not told how it ended. */
export function push(world: World, member: Member, pushed: Pushed, tries = 0): void {
  const change = changeOf(pushed);
  const partner = world.partners.get(member.host);
  const { module, owner, id, method, body } = pushed;
  world.ask(
    'push',
    async (hub, trace) => {
      const caller = world.callerOf(hub, member, trace);
      return caller && hub.accept(caller, change, async () => async () => {});
    },
    {
      change,
      stores: (accepted) => accepted !== null && accepted.result !== 'duplicate',
      ok(accepted) {
        if (accepted?.result === 'duplicate') world.hit('a CDR was a duplicate');
        if (!accepted) return;
        const before = partner?.own.get(module)?.get(id);
        const after = changed(before ? (JSON.parse(before) as Json) : null, change);
        partner?.keep(module, id, method === 'DELETE' || !after ? null : JSON.stringify(after));
        if (module === 'locations' && body?.publish === false) world.hit('a location was unpublished');
        if (accepted.object.reason !== null && module === 'sessions') world.hit('a session of nobody was stored');
      },
      failed(code) {
        if (code === 'invalid' && module === 'cdrs') world.hit('a CDR that differs was refused');
        if (code === 'unavailable') world.hit('a push was refused by the store');
        if (tries >= againMax || !['unavailable', 'lost', 'down'].includes(code)) return;
        if (code === 'lost') world.hit('a push was repeated after an unknown end');
        world.agenda.at(world.agenda.now + 2_000 * (tries + 1), () =>
          push(world, { ...member }, { ...pushed, owner }, tries + 1),
        );
      },
    },
  );
}

/** What a CPO believes to have stored; null when there is none. */
function known(world: World, member: Member, module: ObjectModule, id: string): Json | null {
  const text = world.partners.get(member.host)?.own.get(module)?.get(id);
  return text ? (JSON.parse(text) as Json) : null;
}

function evse(uid: string, random: Random, last_updated: string): Json {
  const connectors = [{ id: '1', standard: 'IEC_62196_T2', last_updated }];
  return { uid, status: random.pick(['AVAILABLE', 'CHARGING', 'BLOCKED']), connectors, last_updated };
}

export function pushLocation(world: World, random: Random): void {
  const member = random.pick(world.cast.cpos);
  const owner = member.party;
  const id = `L${random.between(1, idsMax)}`;
  const last_updated = dateOf(world);
  const base = { module: 'locations', owner, id } as const;
  const before = known(world, member, 'locations', id);
  const whole = () => {
    const publish = random.chance(0.85);
    const evses = ['A', 'B'].map((uid) => evse(uid, random, last_updated));
    return push(world, member, {
      ...base,
      method: 'PUT',
      body: { ...ownedBy(owner), id, publish, name: world.newId('n'), evses, last_updated },
    });
  };
  if (!before) return whole();
  const uid = random.pick(['A', 'B', 'C']);
  const kind = random.weighted({
    put: 4,
    patch: 4,
    publish: 2,
    evse: 3,
    evsePatch: 4,
    connector: 2,
    connectorPatch: 1,
  });
  if (kind === 'put') return whole();
  if (kind === 'patch')
    return push(world, member, { ...base, method: 'PATCH', body: { name: world.newId('n'), last_updated } });
  if (kind === 'publish') {
    const publish = before.publish === false || random.chance(0.3);
    if (publish && before.publish === false) world.hit('a location was published by a PATCH');
    return push(world, member, { ...base, method: 'PATCH', body: { publish, last_updated } });
  }
  if (kind === 'evse')
    return push(world, member, { ...base, method: 'PUT', within: [uid], body: evse(uid, random, last_updated) });
  if (kind === 'evsePatch')
    return push(world, member, {
      ...base,
      method: 'PATCH',
      within: [uid],
      body: { status: world.newId('s'), last_updated },
    });
  const body = { id: '1', power: world.newId('p'), last_updated };
  return push(world, member, { ...base, method: kind === 'connector' ? 'PUT' : 'PATCH', within: [uid, '1'], body });
}

export function pushTariff(world: World, random: Random): void {
  const member = random.pick(world.cast.cpos);
  const id = `T${random.between(1, 2)}`;
  const isGone = random.chance(0.35);
  if (isGone && known(world, member, 'tariffs', id)) world.hit('an object was deleted');
  const body = { ...ownedBy(member.party), id, currency: 'EUR', price: world.newId('n'), last_updated: dateOf(world) };
  push(world, member, {
    module: 'tariffs',
    method: isGone ? 'DELETE' : 'PUT',
    owner: member.party,
    id,
    body: isGone ? null : body,
  });
}

export function pushSession(world: World, random: Random): void {
  const member = random.pick(world.cast.cpos);
  const owner = member.party;
  const id = `S${random.between(1, idsMax + 1)}`;
  const last_updated = dateOf(world);
  const base = { module: 'sessions', owner, id } as const;
  const before = known(world, member, 'sessions', id);
  const patch = (body: Json) => push(world, member, { ...base, method: 'PATCH', body: { ...body, last_updated } });
  const kind = before ? random.weighted({ put: 2, kwh: 4, periods: 4, end: 1, repair: 2 }) : 'put';
  if (kind === 'kwh') return patch({ kwh: random.between(1, 90) });
  if (kind === 'periods') return patch({ charging_periods: [{ start_date_time: last_updated, n: world.newId('n') }] });
  if (kind === 'end') return patch({ status: random.pick(['COMPLETED', 'COMPLETED', 'INVALID']) });
  if (kind === 'repair') {
    world.hit('a session was repaired');
    return patch({ cdr_token: cdrTokenOf(random.pick(world.cast.emsps).party) });
  }
  const token = random.weighted({ good: 8, none: 1, unknown: 1, hub: 0.5, strange: 2 });
  const some = random.pick(world.cast.emsps).party;
  const emsp = token === 'good' ? some : token === 'hub' ? 'XX-HUB' : 'NL-ZZZ';
  const status = random.pick(['ACTIVE', 'ACTIVE', 'ACTIVE', 'PENDING']);
  const cdr_token = token === 'none' ? null : cdrTokenOf(emsp, token === 'strange' ? cardOf(some) : cardOf(emsp));
  const reference = random.chance(0.3) ? { authorization_reference: random.pick(references) } : {};
  push(world, member, {
    ...base,
    method: 'PUT',
    body: { ...ownedBy(owner), id, status, kwh: 0, charging_periods: [], cdr_token, ...reference, last_updated },
  });
}

export function pushCdr(world: World, random: Random): void {
  const member = random.pick(world.cast.cpos);
  const owner = member.party;
  const session = random.pick([...(world.partners.get(member.host)?.own.get('sessions')?.keys() ?? []), 'S9']);
  const before = known(world, member, 'sessions', session);
  const id = `B${random.between(1, 6)}`;
  const base = { module: 'cdrs', method: 'POST', owner, id } as const;
  const stored = known(world, member, 'cdrs', id);
  const last_updated = dateOf(world);
  if (stored && random.chance(0.6)) {
    const change = random.pick([
      {},
      { total_cost: world.newId('x') },
      { cdr_token: cdrTokenOf(random.pick(world.cast.emsps).party), last_updated },
    ]);
    return push(world, member, { ...base, body: { ...stored, ...change } });
  }
  const cdr_token = random.chance(0.1) ? null : (before?.cdr_token ?? cdrTokenOf(random.pick(world.cast.emsps).party));
  push(world, member, {
    ...base,
    body: { ...ownedBy(owner), id, session_id: session, cdr_token, total_cost: world.newId('x'), last_updated },
  });
}

export function pushToken(world: World, random: Random): void {
  const member = random.pick(world.cast.emsps);
  const id = `K${random.between(1, 2)}`;
  const base = { module: 'tokens', owner: member.party, id } as const;
  const last_updated = dateOf(world);
  const isPatch = known(world, member, 'tokens', id) !== null && random.chance(0.5);
  const fields = { valid: random.chance(0.8), n: world.newId('n'), last_updated };
  const whole = { ...ownedBy(member.party), uid: id, type: 'RFID', ...fields };
  push(world, member, { ...base, method: isPatch ? 'PATCH' : 'PUT', body: isPatch ? fields : whole });
}

/** One location changes more often than one of its receivers can take it: a lane becomes longer than memory holds of one. */
export function pushOften(world: World, random: Random): void {
  const member = random.pick(world.cast.cpos);
  const owner = member.party;
  const id = `L${random.between(1, idsMax)}`;
  const receiver = world.partners.get(random.pick(world.cast.emsps).host);
  const object = `locations/${owner.replace('-', '/')}/${id}`;
  receiver?.broken.set(object, 'http500');
  world.agenda.at(world.agenda.now + random.pick([20_000, 300_000, 900_000]), () => receiver?.broken.delete(object));
  for (let count = random.between(3 * laneMax, 4 * laneMax); count > 0; count--) {
    const body = { ...ownedBy(owner), id, publish: true, name: world.newId('n'), last_updated: dateOf(world) };
    push(world, member, { module: 'locations', method: 'PUT', owner, id, body });
  }
}
