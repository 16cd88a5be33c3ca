/** Steps of a workload in which things go wrong: partners, network, disk, the process itself. */
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

const points: readonly (readonly [Parameters<World['arm']>[0], Sometimes])[] = [
  ['write.before', 'a crash before a commit'],
  ['write.after', 'a crash between commit and dispatch'],
  ['call.before', 'a crash before a call was made'],
  ['call.after', 'a crash after a call took effect and before its answer'],
  ['read', 'a crash at any moment'],
];

export function crash(world: World, random: Random): void {
  const [point, name] = random.pick(points);
  world.arm(point, random.between(1, point === 'read' ? 60 : 6), name);
}

export function restart(world: World): void {
  world.restart();
}
