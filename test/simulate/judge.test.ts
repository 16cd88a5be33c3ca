/** The judge asks of the hub no more than it can know: what is on the disk and was never told to the hub is the next life's to find. */
import { t } from '../support/tap.ts';
import { holdImmediates } from './agenda.ts';
import { castOfSize } from './cast.ts';
import { heal } from './healing.ts';
import { commanding, pushSession, scene } from './scene.ts';
import { open } from './workload.ts';
import { World } from './world.ts';

t.test('a fact that is written, and that the hub had not heard of when it died, is no difference', async (t) => {
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

t.test('a watch that begins when all has come to rest is waited for', async (t) => {
  const world = await scene(t);
  await pushSession(world);
  // The healing takes 72 s before it looks whether everything is at rest, and 2 s afterwards.
  const late = () => world.ask('late stop', commanding(world, 'STOP_SESSION', { sessionId: 'S1' }));
  world.agenda.at(world.agenda.now + 73_000, late);
  await heal(world);
  t.equal(world.failure, null);
  t.strictSame(watches(world), ['open']);
});
