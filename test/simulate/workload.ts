/** What happens in a world, step by step: a table of steps with weights, and pauses of all lengths between them. */
import { authorize, command, stopSession } from './asking.ts';
import {
  changeMode,
  changeRoute,
  compatibility,
  discardMany,
  discardOne,
  giveEndpoint,
  handleOrphans,
  look,
  pauseOrResume,
  poisoned,
  probe,
  pull,
  redriveMany,
  redriveOne,
  register,
  resync,
  rotate,
  setCircuit,
  suspend,
  triage,
  unregister,
} from './operating.ts';
import { pushCdr, pushLocation, pushOften, pushSession, pushTariff, pushToken } from './pushing.ts';
import type { Random } from './random.ts';
import { weathers } from './simulated-partner.ts';
import { breakModule, changeDisk, changeWeather, crash, crashBehind, outage, restart, setClock } from './trouble.ts';
import type { World } from './world.ts';

const steps: Readonly<Record<string, readonly [weight: number, run: (world: World, random: Random) => void]>> = {
  pushLocation: [14, pushLocation],
  pushTariff: [6, pushTariff],
  pushSession: [18, pushSession],
  pushCdr: [8, pushCdr],
  pushToken: [3, pushToken],
  pushOften: [1, pushOften],
  authorize: [4, authorize],
  command: [12, command],
  stopSession: [4, stopSession],
  rotate: [1, rotate],
  unregister: [1, unregister],
  suspend: [1, suspend],
  pauseOrResume: [2, pauseOrResume],
  giveEndpoint: [0.7, giveEndpoint],
  changeMode: [1, changeMode],
  changeRoute: [2, changeRoute],
  redriveOne: [4, redriveOne],
  redriveMany: [1.5, redriveMany],
  discardOne: [1.5, discardOne],
  discardMany: [0.3, discardMany],
  triage: [1, triage],
  resync: [1.5, resync],
  pull: [2, pull],
  handleOrphans: [2, handleOrphans],
  setCircuit: [1, setCircuit],
  probe: [0.5, probe],
  look: [0.7, look],
  poison: [0.4, poisoned],
  changeWeather: [5, changeWeather],
  breakModule: [2.5, breakModule],
  outage: [0.4, outage],
  changeDisk: [2, changeDisk],
  setClock: [3, setClock],
  crash: [3, crash],
  crashBehind: [2.5, crashBehind],
  restart: [1, restart],
};

const weights = Object.fromEntries(Object.entries(steps).map(([name, [weight]]) => [name, weight]));
const patienceMs = 60_000;

/** Partners are added, routed and registered, in fair weather. */
export async function open(world: World): Promise<void> {
  const { cast } = world;
  const random = world.random.fork('opening');
  world.start();
  await world.until(() => world.hub !== null, patienceMs);
  for (const company of cast.companies) {
    const roles = company.members.map(({ role, party }) => {
      const [country_code = '', party_id = ''] = party.split('-');
      return { role, country_code, party_id };
    });
    const isCpo = company.members.some(({ role }) => role === 'CPO');
    const settings = isCpo && random.chance(0.7) ? compatibility(world, random) : {};
    const ok = () => register(world, company);
    world.ask('add', (hub, trace) => hub.operations.addParty(roles, settings, trace), { ok });
  }
  const isRegistered = () => [...world.partners.values()].every(({ hubToken }) => hubToken !== null);
  if (!(await world.until(isRegistered, patienceMs))) return world.fail(new Error('partners could not register'));
  for (const { party: emsp } of cast.emsps) {
    for (const { party: cpo } of cast.cpos) {
      if (world.random.chance(0.85))
        world.ask('route', (hub, trace) => hub.operations.setRoute(emsp, cpo, true, trace));
    }
  }
  await world.pass(100);
  for (const partner of world.partners.values()) partner.weather = weathers.usual;
}

export async function work(world: World): Promise<number> {
  const random = world.random.fork('workload');
  const count = Math.min(random.between(20, 60), world.options.stepsMax ?? Number.POSITIVE_INFINITY);
  let done = 0;
  for (; done < count && !world.failure; done++) {
    const name = random.weighted(weights);
    const own = random.fork(`${done}`);
    const burst = own.chance(0.3) && name.startsWith('push') ? own.between(2, 5) : 1;
    world.trace(`step ${done} ${name}`);
    for (let n = 0; n < burst; n++) world.guarded(() => steps[name]?.[1](world, own));
    const pause = own.weighted({ none: 5, short: 6, seconds: 4, minutes: 1, quarter: 0.15, hours: 0.04 });
    await world.pass(
      {
        none: 0,
        short: own.between(1, 300),
        seconds: own.between(500, 15_000),
        minutes: own.between(30_000, 240_000),
        quarter: 900_000,
        hours: own.between(3_600_000, 14_400_000),
      }[pause],
    );
  }
  return done;
}
