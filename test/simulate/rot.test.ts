/** A row that rots again after it was made again and its events were trimmed: it is gone, as the trim would have left it. */
import { t } from '../support/tap.ts';
import { damage } from './rot.ts';
import { answerOf, revive, scene } from './scene.ts';

const hourMs = 3_600_000;
const minuteMs = 60_000;

t.test('a damaged row whose events were trimmed meanwhile is removed, and no start reports it again', async (t) => {
  const world = await scene(t, 1, { eventsKeepDays: 0.004 });
  const emsp = world.cast.emsps[0]?.party ?? '';
  const job = await answerOf(world, (hub, trace) => hub.operations.resync(emsp, 'tariffs', trace));
  t.type(job, 'object');
  const rotten = async () => {
    const [row] = [...(world.disk.rows.get('jobs')?.values() ?? [])];
    if (!row) throw new Error('no job has a row');
    damage(world, row);
    await revive(world);
  };
  // At the full hour the events of the job are old enough to go, and what is written three minutes before is not.
  const untilHourMs = hourMs - (world.agenda.now % hourMs);
  t.ok(untilHourMs > 7 * minuteMs, `the log is trimmed in ${untilHourMs} ms`);
  await world.pass(untilHourMs - 3 * minuteMs);
  await rotten();
  const rebuilt = world.disk.head;
  await world.pass(4 * minuteMs);
  const { horizon } = world.disk;
  t.ok(horizon > 0 && horizon < rebuilt, `the log is trimmed up to ${horizon}, and the row is of ${rebuilt}`);
  t.equal(world.disk.rows.get('jobs')?.size, 1);
  await rotten();
  t.equal(world.disk.rows.get('jobs')?.size, 0);
  t.equal(world.disk.damaged.size, 0);
  t.equal(world.failure, null);
});
