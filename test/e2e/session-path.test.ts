/**
 * The full session path through the hub as its users have it: the built command, real sockets, a CPO and an eMSP of their own.
 */
import type { Arrival } from '../../src/sandbox/copies.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { openPath, type PathContext, sessionPath } from '../../src/sandbox/session-path.ts';
import type { Entry } from '../../src/sandbox/transcript.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { quiet } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { atLength, someOf } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

/** What the eMSP got of one object, oldest first, repeats of what it had already left out. */
function firstArrivals(arrivals: readonly Arrival[]): string[] {
  return [...new Set(arrivals.map(({ method, body }) => `${method} ${body}`))];
}

/** All that the CPO exchanges from now on: its own list forgets, and while no hub listens it tries often. */
function exchangesOf({ cpo }: PathContext): Entry[] {
  const entries: Entry[] = [];
  cpo.transcript.follow((entry) => entries.push(entry));
  return entries;
}

/** What the CPO pushed of one object and the hub acknowledged. */
function pushed(exchanges: readonly Entry[], module: string, id: string): string[] {
  return exchanges
    .filter((entry) => entry.direction === 'sent' && entry.answer !== null && entry.answer.status < 300)
    .filter((entry) => entry.module === module && ['PUT', 'PATCH', 'POST'].includes(entry.method))
    .filter((entry) => entry.path.endsWith(`/${id}`) || (module === 'cdrs' && entry.body.includes(id)))
    .map(({ method, body }) => `${method} ${body}`);
}

async function checkWhole(
  t: Test,
  { cpo, emsp, made }: PathContext,
  exchanges: readonly Entry[],
  hub: { url: string; adminToken: string },
): Promise<void> {
  const objects = [
    ['tariffs', made.tariff?.id],
    ['locations', made.location?.id],
    ['sessions', made.session?.id],
    ['cdrs', made.cdrId],
  ] as const;
  for (const [module, id = ''] of objects) {
    const sent = pushed(exchanges, module, id);
    const copy = emsp.copies.get(module, cpo.id, id);
    t.ok(sent.length > 0, `${module}: something was pushed`);
    t.same(
      firstArrivals(copy?.arrivals ?? []),
      [...new Set(sent)],
      `${module}: all of it arrived, in order, byte for byte`,
    );
  }
  // What a kill made the hub forget is on its way once more.
  await quiet(hub);
  const { items } = await admin(hub, 'GET', '/deliveries?limit=1000');
  const unfinished = (items as { state: string }[]).filter(({ state }) => state !== 'DELIVERED');
  t.same(unfinished, [], 'nothing is owed any more, nothing is dead');
  const { items: commands } = await admin(hub, 'GET', '/commands');
  t.same(
    (commands as { command: string; state: string }[]).map(({ command, state }) => `${command} ${state}`),
    ['STOP_SESSION relayed', 'START_SESSION relayed'],
    'both commands were relayed',
  );
}

t.test('the full session path, from onboarding to CDR [interface, Session path]', async (t) => {
  const hub = await startChildHub({ dataDir: directoryFor(t), port: 0 });
  t.teardown(() => hub.kill());
  const context = await openPath({ hubUrl: hub.url, adminToken: hub.adminToken });
  t.teardown(() => context.close());
  const exchanges = exchangesOf(context);
  for (const step of sessionPath) await t.resolves(step.run(context), step.name);
  await checkWhole(t, context, exchanges, hub);
  t.equal(await hub.stop(), 0, 'SIGTERM ends it in good order');
});

t.test('the full session path with the hub killed between every two steps', atLength, async (t) => {
  const dataDir = directoryFor(t);
  const port = await freePort();
  const start = () => startChildHub({ dataDir, port, env: { HUB_RETRY_SCHEDULE_S: '0.2,0.5,1' } });
  let hub = await start();
  t.teardown(() => hub.kill());
  const context = await openPath({ hubUrl: hub.url, adminToken: hub.adminToken, retryUntilAnswered: true });
  t.teardown(() => context.close());
  const exchanges = exchangesOf(context);
  const killedAfter = new Set(someOf(sessionPath, 2));
  for (const step of sessionPath) {
    await t.resolves(step.run(context), step.name);
    if (!killedAfter.has(step)) continue;
    await hub.kill();
    hub = await start();
  }
  await checkWhole(t, context, exchanges, hub);
  t.equal(await hub.stop(), 0);
});
