/** Short scenes in a simulated world: written by hand, in fair weather, with one CPO and one eMSP in the first parts. */
import type { CommandName, Trace } from '../../src/domain/events.ts';
import type { ObjectChange } from '../../src/domain/object.ts';
import type { Hub } from '../../src/hub/ports/hub.ts';
import type { HubSettings } from '../../src/hub/ports/ports.ts';
import type { Test } from '../support/tap.ts';
import { holdImmediates } from './agenda.ts';
import { castOfSize } from './cast.ts';
import { cdrTokenOf, changeOf, ownedBy, type Pushed } from './pushed.ts';
import type { Json } from './reference.ts';
import { fair, type SimulatedPartner } from './simulated-partner.ts';
import { open } from './workload.ts';
import { World, windowMax } from './world.ts';

const sceneSettings = { deliveryConcurrency: 8, circuitFailures: 5 };

/** A world in fair weather, everybody registered and routed. */
export async function scene(t: Test, emsps = 2, settings: Partial<HubSettings> = {}): Promise<World> {
  const restore = holdImmediates();
  const world = new World({
    seed: 2,
    cast: castOfSize(2, emsps),
    windowMax,
    settings: { ...sceneSettings, ...settings },
  });
  t.teardown(() => {
    world.life.isAlive = false;
    restore();
  });
  world.mayCrash = false;
  await open(world);
  for (const partner of world.partners.values()) partner.weather = fair;
  for (const { party: emsp } of world.cast.emsps) {
    for (const { party: cpo } of world.cast.cpos) {
      await answerOf(world, (hub, trace) => hub.operations.setRoute(emsp, cpo, true, trace));
    }
  }
  return world;
}

/** What a verb answers, or the code of its refusal, once the world has come so far. */
export async function answerOf<T>(
  world: World,
  verb: (hub: Hub, trace: Trace) => Promise<T>,
  change?: ObjectChange,
): Promise<T | string> {
  let end: { value: T | string } | null = null;
  world.ask('scene', verb, {
    ...(change && { change }),
    ok: (value) => {
      end = { value };
    },
    failed: (code) => {
      end = { value: code };
    },
  });
  await world.until(() => end !== null, 60_000);
  if (end === null) throw new Error(world.failure ?? 'no answer');
  return (end as { value: T | string }).value;
}

export function push(world: World, pushed: Omit<Pushed, 'owner'>): Promise<unknown> {
  const cpo = world.cast.cpos[0];
  if (!cpo) throw new Error('no CPO');
  const change = changeOf({ ...pushed, owner: cpo.party });
  const verb = async (hub: Hub, trace: Trace) => {
    const caller = world.callerOf(hub, cpo, trace);
    return caller && hub.accept(caller, change, async () => async () => {});
  };
  return answerOf(world, verb, change);
}

export const dateOf = (world: World) => new Date(world.agenda.now).toISOString();
export const cpoOf = (world: World) => world.cast.cpos[0]?.party ?? '';
export const emspOf = (world: World) => world.cast.emsps[0]?.party ?? '';

export function pushSession(world: World, fields: Json = {}, method: 'PUT' | 'PATCH' = 'PUT'): Promise<unknown> {
  const last_updated = dateOf(world);
  const whole = { ...ownedBy(cpoOf(world)), id: 'S1', status: 'ACTIVE', cdr_token: cdrTokenOf(emspOf(world)) };
  const body = method === 'PUT' ? { ...whole, last_updated, ...fields } : { last_updated, ...fields };
  return push(world, { module: 'sessions', method, id: 'S1', body });
}

/** A command of the first eMSP to the first CPO, as a verb. */
export function commanding(world: World, command: CommandName, naming: object) {
  const [emsp] = world.cast.emsps;
  if (!emsp) throw new Error('no eMSP');
  const [country_code = '', party_id = ''] = cpoOf(world).split('-');
  const named = {
    locationId: null,
    sessionId: null,
    reservationId: null,
    tokenUid: null,
    authorizationReference: null,
    ...naming,
  };
  return async (hub: Hub, trace: Trace) => {
    const caller = world.callerOf(hub, emsp, trace);
    const responseUrl = `http://${emsp.host}/results/${world.newId('q')}`;
    const bodyFor = (callback: string) => JSON.stringify({ response_url: callback });
    const request = { command, to: { country_code, party_id }, responseUrl, ...named, bodyFor };
    return caller && hub.command(caller, request, (_characters, read) => read());
  };
}

export const command = (world: World, name: CommandName, naming: object): Promise<unknown> =>
  answerOf(world, commanding(world, name, naming));

export const stop = (world: World): Promise<unknown> => command(world, 'STOP_SESSION', { sessionId: 'S1' });

/** The first eMSP, to whom the sessions belong. */
export function receiverOf(world: World): SimulatedPartner {
  const receiver = world.partners.get(world.cast.emsps[0]?.host ?? '');
  if (!receiver) throw new Error('no receiver');
  return receiver;
}

/** The process dies, and the next one is ready. */
export async function revive(world: World): Promise<void> {
  world.deaths.now('short');
  await world.until(() => world.hub !== null, 60_000);
}
