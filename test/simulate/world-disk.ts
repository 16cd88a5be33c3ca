/** The disk of a simulated world as its weather has it: what it makes of writes, when it dies, and what the judge hears of it. */
import type { Life } from './agenda.ts';
import type { Troubles, WriteFate } from './memory-store.ts';
import { judgeRebuilt } from './rot.ts';
import type { World } from './world.ts';

const fateNames = {
  refused: 'a commit was refused before it was written',
  late: 'a commit was known to be written only after the mending',
} as const;

export function troublesOf(world: World, life: Life): Troubles {
  const { agenda, chance, judge } = world;

  function fate(isCommit: boolean): WriteFate {
    const given = world.fates.shift();
    if (given) return given;
    const { failing } = world.diskWeather;
    if (world.isHealing || !chance.chance(failing)) return { kind: 'done' };
    const kind = chance.weighted({ refused: 2, late: 1, open: 2 });
    const isWritten = kind === 'late' || (kind === 'open' && chance.chance(0.5));
    const mendMs = chance.weighted({ quick: 3, long: 1 }) === 'quick' ? 150 : chance.between(500, 40_000);
    world.isMounted = chance.chance(0.6);
    judge.facts.troubledAt = agenda.now + mendMs + 1_000;
    if (!isCommit) world.hit('a settle failed and was written again');
    else if (kind !== 'open') world.hit(fateNames[kind]);
    else
      world.hit(
        isWritten
          ? 'a commit was of unknown outcome and was written'
          : 'a commit was of unknown outcome and was not written',
      );
    world.trace(`disk ${kind} ${isWritten} ${mendMs}`);
    return { kind, isWritten, mendMs };
  }

  return {
    now: () => agenda.now,
    later: (run) => {
      const ms = chance.between(0, world.diskWeather.msMax);
      if (ms > 100) {
        world.hit('the disk was slow');
        judge.facts.troubledAt = agenda.now + ms;
      }
      agenda.at(agenda.now + ms, () => life.isAlive && world.guarded(run));
    },
    after: (ms, run) => agenda.at(agenda.now + ms, () => life.isAlive && world.guarded(run)),
    fate,
    isMounted: () => {
      if (!world.isMounted) world.hit('a read was refused by a dismounted store');
      return world.isMounted;
    },
    isAlive: () => life.isAlive,
    point: (name) => life.isAlive && world.deaths.point(name),
    committed: (events) =>
      world.guarded(() => {
        for (const { seq, type, stream, to } of events) world.trace(`log ${seq} ${type} ${stream} [${to}]`);
        world.deaths.wrote(events.map(({ type }) => type));
        judge.committed(events);
        for (const event of events) judgeRebuilt(world, event);
      }),
    settled: (rows, floors) =>
      world.guarded(() => {
        const told = rows.map(({ seq, dest, state }) => `${seq}-${dest} ${state}`);
        world.trace(`settle ${told.join(', ')} floors ${floors.map(({ dest, seq }) => `${dest} ${seq}`)}`);
        judge.settled(rows, floors);
      }),
    acknowledged: (first, last) => life.isAlive && judge.facts.heard(first, last),
    trimmed: (upTo) =>
      world.guarded(() => {
        world.trace(`trim ${upTo}`);
        world.hit(world.isHealing ? 'the log was trimmed at rest' : 'the log was trimmed at work');
        judge.trimmed(upTo);
        const at = chance.weighted({ never: 6, now: 1, next: 1 });
        if (at !== 'never' && world.mayCrash)
          world.deaths.arm(at === 'now' ? 'write.after' : 'write.before', 1, 'a crash while the log was trimmed');
      }),
  };
}
