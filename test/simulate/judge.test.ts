/** The judge asks of the hub no more than it can know: what is on the disk and was never told to the hub is the next life's to find. */
import { t } from '../support/tap.ts';
import { holdImmediates } from './agenda.ts';
import { castOfSize } from './cast.ts';
import { heal } from './healing.ts';
import { commanding, pushSession, revive, scene, stop } from './scene.ts';
import { open } from './workload.ts';
import { World } from './world.ts';

t.test('a written event that the hub had not learned of when it died is no difference', async (t) => {
  t.teardown(holdImmediates());
  const world = new World({ seed: 3, cast: castOfSize(2, 2) });
  t.teardown(() => {
    world.life.isAlive = false;
  });
  await open(world);
  const [company] = world.cast.companies;
  const id = company?.id ?? '';
  const isPaused = () => world.hub?.operations.party(id).settings.paused;
  const { head } = world.disk;
  world.isMounted = false;
  world.fates.push({ kind: 'open', isWritten: true, mendMs: 5_000 });
  world.ask('pause', (hub, trace) => hub.operations.changeParty(id, { paused: true }, undefined, trace));
  await world.until(() => world.disk.head > head, 1_000);
  await world.pass(1_000);
  t.equal(isPaused(), false, 'it is on the disk, and the hub waits to be told');
  world.crash(null);
  await world.until(() => world.hub !== null, 60_000);
  t.equal(world.life.number, 2);
  t.equal(isPaused(), true, 'the next life has found it');
  t.equal(world.failure, null);
});

/** States of watched sessions. */
const watches = (world: World) =>
  [...(world.created?.context.supervisor.views() ?? [])]
    .filter(({ kind }) => kind === 'orphan-stop')
    .map(({ snapshot }) => snapshot?.value);

/** Sweeps come at multiples of it. */
const sweepMs = 300_000;

t.test('a restart after a step back may use the grace of a case that began later [CLOCK-8]', async (t) => {
  const world = await scene(t);
  const set = (aheadMs: number) => {
    world.wall.set(aheadMs, world.agenda.now);
    world.created?.context.ports.clock.wall();
  };
  await pushSession(world);
  const sweepAt = (Math.floor(world.agenda.now / sweepMs) + 1) * sweepMs;
  await world.pass(sweepAt - 130_000 - world.agenda.now);
  set(36_000);
  t.match(await stop(world), { result: 'ACCEPTED' });
  t.strictSame(watches(world), ['grace'], 'it ends before the sweep');
  set(0);
  await world.pass(50_000);
  await revive(world);
  await world.pass(sweepAt + 1_000 - world.agenda.now);
  t.strictSame(watches(world), ['grace'], 'and to the next life after it');
  await world.pass(sweepMs);
  t.strictSame(watches(world), ['open']);
  t.equal(world.failure, null);
});

t.test('a watch that begins when everything is idle is waited for', async (t) => {
  const world = await scene(t);
  await pushSession(world);
  // The healing takes 72 s before it looks whether everything is at rest, and 2 s afterwards.
  const late = () => world.ask('late stop', commanding(world, 'STOP_SESSION', { sessionId: 'S1' }));
  world.agenda.at(world.agenda.now + 73_000, late);
  await heal(world);
  t.equal(world.failure, null);
  t.strictSame(watches(world), ['open']);
});
