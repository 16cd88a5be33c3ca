/** Steps of a workload in which things go wrong: partners, network, disk, the time of day, the process itself. */
import type { Sometimes } from './counters.ts';
import type { Random } from './random.ts';
import { fair, weathers } from './simulated-partner.ts';
import { fairDisk, type World } from './world.ts';

/** The weather of one partner turns, and turns back after a while. */
export function changeWeather(world: World, random: Random): void {
  const partner = world.partners.get(random.pick(world.cast.companies).host);
  if (!partner) return;
  const kind = random.weighted({ stormy: 4, down: 3, hanging: 2, fair: 1 });
  const ms = random.pick([5_000, 30_000, 120_000, 300_000, 1_200_000]);
  partner.weather = kind === 'fair' ? fair : weathers[kind];
  if (kind === 'down' && ms >= 120_000) world.hit('a partner was down for minutes');
  world.trace(`weather ${partner.company.id} ${kind} ${ms}`);
  const { weather } = partner;
  world.agenda.at(world.agenda.now + ms, () => {
    if (partner.weather === weather && !world.isHealing) partner.weather = weathers.usual;
  });
}

export function changeDisk(world: World, random: Random): void {
  const kind = random.weighted({ failing: 3, slow: 2 });
  const weather = kind === 'failing' ? { failing: random.pick([0.1, 0.5, 1]), msMax: 3 } : { failing: 0, msMax: 900 };
  world.diskWeather = weather;
  world.trace(`disk is ${kind}`);
  world.agenda.at(world.agenda.now + random.pick([100, 2_000, 20_000]), () => {
    if (world.diskWeather === weather) world.diskWeather = fairDisk;
  });
}

const hourMs = 3_600_000;

/** A partner is away for hours: longer than circuits stay open and deliveries are retried. */
export function outage(world: World, random: Random): void {
  const partner = world.partners.get(random.pick(world.cast.companies).host);
  if (!partner) return;
  const weather = weathers[random.weighted({ down: 3, hanging: 1 })];
  const ms = random.between(hourMs, 5 * hourMs);
  partner.weather = weather;
  world.hit('a partner was away for hours');
  world.trace(`outage ${partner.company.id} ${ms}`);
  world.agenda.at(world.agenda.now + ms, () => {
    if (partner.weather === weather && !world.isHealing) partner.weather = weathers.usual;
  });
}

/** One module of a partner is broken, and all others go well. */
export function breakModule(world: World, random: Random): void {
  const partner = world.partners.get(random.pick(world.cast.companies).host);
  const role = partner?.company.members.some((member) => member.role === 'EMSP') ? 'EMSP' : 'CPO';
  const module = role === 'CPO' ? 'tokens' : random.pick(['locations', 'locations', 'tariffs', 'sessions', 'cdrs']);
  const fate = random.pick(['http500', 'http429', 'timeout'] as const);
  partner?.broken.set(module, fate);
  world.hit(
    fate === 'http429' ? 'a module was throttled while others went well' : 'a module was broken while others went well',
  );
  world.trace(`broken ${partner?.company.id} ${module} ${fate}`);
  world.agenda.at(world.agenda.now + random.pick([20_000, 120_000, 900_000]), () => partner?.broken.delete(module));
}

/** A process looks at the clock so often, ms. [CLOCK-WATCH-1] */
const lookMs = 1_000;

/** Somebody sets the clock of the machine. */
export function setClock(world: World, random: Random): void {
  if (!world.isClockSet) return;
  const offMs = random.pick([-24, 24, -1, 1, 0.01, 0]) * hourMs;
  if (offMs < world.wall.offMs) world.hit('a clock was set back');
  else if (offMs > world.wall.offMs) world.hit('a clock was set forward');
  world.wall.set(offMs, world.agenda.now);
  world.trace(`clock ${offMs}`);
  const { created } = world;
  const isSeen = () => created !== null && created === world.created && created.context.ports.clock.wall();
  world.agenda.at(world.agenda.now + random.between(0, lookMs), isSeen);
}

const points: readonly (readonly [Parameters<World['deaths']['arm']>[0], Sometimes])[] = [
  ['write.before', 'a crash before a commit'],
  ['write.after', 'a crash between commit and dispatch'],
  ['call.before', 'a crash before a call was made'],
  ['call.after', 'a crash after a call took effect and before its answer'],
  ['read', 'a crash at any moment'],
];

export function crash(world: World, random: Random): void {
  const [point, name] = random.pick(points);
  world.deaths.arm(point, random.between(1, point === 'read' ? 60 : 6), name);
}

/** The process dies between one of these facts and what follows from it. */
const followed = [
  'command.answered',
  'command.answered',
  'object.put',
  'object.patched',
  'object.deleted',
  'delivery.redriven',
  'delivery.discarded',
];
const alsoFollowed = [
  'command.requested',
  'command.resultReceived',
  'orphan.armed',
  'orphan.opened',
  'partner.registered',
];

export function crashBehind(world: World, random: Random): void {
  world.deaths.armBehind(
    random.pick([...followed, ...alsoFollowed, 'partner.suspended', 'object.resent', 'delivery.dead']),
  );
}

export function restart(world: World): void {
  world.restart();
}
