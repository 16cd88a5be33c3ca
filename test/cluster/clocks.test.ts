/**
 * Clocks that do not agree: those of the nodes among each other, and the database's with its nodes'. Nothing is decided by them that
 * another one decides otherwise: no delivery ends, nobody takes over, no object has two deliveries at a time; and nodes say so.
 */
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { directoryFor } from '../support/directory.ts';
import { admin, eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres, startPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { mustAddUp } from './load.ts';
import { longer, type Nodes, startNodes, untilJoined } from './nodes.ts';
import { startTraffic, type Traffic } from './traffic.ts';

const env = { HUB_LEASE_S: '6', HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RATE_COMMANDS_PER_MIN: '1000000' };
/** Moves the clocks of processes that are started with it; monotonic ones are left alone. */
const library = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';
const runs = existsSync(library) ? longer : { skip: 'libfaketime is not installed here' };

/** For Node: its wall clock is so far ahead. */
function ahead(seconds: number): Record<string, string> {
  const code = `const D = Date, by = ${seconds * 1000};
    globalThis.Date = class extends D {
      constructor(...of) { of.length ? super(...of) : super(D.now() + by); }
      static now() { return D.now() + by; }
    };`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
}

async function through(t: Test, nodes: Nodes): Promise<Traffic> {
  await untilJoined(nodes.all);
  const urls = nodes.all.map(({ url }) => url);
  let turn = 0;
  const traffic = await startTraffic(t, nodes, { choose: () => urls[turn++ % urls.length] ?? '' });
  await traffic.goesOn();
  return traffic;
}

async function warned(nodes: Nodes, warning: RegExp): Promise<void> {
  for (const { url } of nodes.all) {
    await eventually(`${url} says ${warning}`, async () => warning.test(await (await fetch(`${url}/readyz`)).text()));
  }
}

async function noneDead(t: Test, nodes: Nodes): Promise<void> {
  t.strictSame((await admin(nodes, 'GET', '/deliveries?state=DEAD')).items, [], 'no delivery is dead');
}

t.test('the clocks of the nodes differ by half a minute', longer, async (t) => {
  const server = await sharedPostgres();
  const schema = newSchema('clocks');
  const nodes = await startNodes(t, server, schema, { count: 3, env, of: (_, i) => ahead([30, -30, 15][i] ?? 0) });
  const traffic = await through(t, nodes);
  const { emsp, pushes } = traffic;
  const begun = performance.now();
  await warned(nodes, /clock is more than a second/);
  await traffic.goesOn(60);
  t.equal(await nodes.token(), 1, 'nobody takes over');
  t.strictSame(traffic.failed(begun), [], 'nothing fails');
  t.comment(`nodes apart: ${traffic.summary(begun)}`);
  const { initial_token } = await admin(nodes, 'POST', '/parties/NL-EMS/initial-token');
  await emsp.registerAgain(String(initial_token));
  await traffic.goesOn();
  const owner = await nodes.owner();
  await owner.hub.kill();
  await eventually('a node with another clock is the owner', async () => (await nodes.owner()) !== owner);
  await owner.start();
  await untilJoined(nodes.all);
  await traffic.goesOn();
  await traffic.stop();
  await mustAddUp(t, server, schema, [pushes], emsp);
  await noneDead(t, nodes);
  t.strictSame(traffic.doubled, [], 'no object had two deliveries at a time');
});

t.test('the clock of the database steps by half a minute', runs, async (t) => {
  const directory = directoryFor(t);
  // The server is another user.
  chmodSync(directory, 0o755);
  const file = join(directory, 'offset');
  const move = (seconds: number) => writeFileSync(file, `${seconds < 0 ? '' : '+'}${seconds}s\n`, { mode: 0o644 });
  move(0);
  const moved = {
    ...{ LD_PRELOAD: library, FAKETIME_TIMESTAMP_FILE: file, FAKETIME_NO_CACHE: '1' },
    ...{ FAKETIME_DONT_FAKE_MONOTONIC: '1', FAKETIME_DISABLE_SHM: '1' },
  };
  const server = await startPostgres(t);
  await server.stop();
  Object.assign(process.env, moved);
  await server.start().finally(() => {
    for (const name of Object.keys(moved)) delete process.env[name];
  });
  const nodes = await startNodes(t, server, 'moved', { count: 3, env });
  const traffic = await through(t, nodes);
  for (const seconds of [30, 0, -30, 0]) {
    const since = performance.now();
    move(seconds);
    const [row] = await server.query<{ ahead: number }>(
      'select extract(epoch from clock_timestamp())::float8 - $1::float8 as ahead',
      [Date.now() / 1000],
    );
    t.ok(Math.abs(Number(row?.ahead) - seconds) < 5, `the database is ${seconds} s ahead`);
    await traffic.goesOn(60);
    if (seconds !== 0) await warned(nodes, /the database's clock is more than a second/);
    t.comment(`database ${seconds} s ahead: ${traffic.summary(since)}`);
    t.strictSame(traffic.failed(since), [], 'nothing fails');
    t.equal(await nodes.token(), 1, 'nobody takes over');
  }
  // What a node that was killed had is free a lease later, whatever the clock has done since.
  const owner = await nodes.owner();
  const killed = performance.now();
  await owner.hub.kill();
  move(-30);
  await eventually('another one is the owner', async () => (await nodes.owner()) !== owner);
  t.comment(
    `clock put back 30 s at the kill of the owner: another one after ${Math.round(performance.now() - killed)} ms`,
  );
  await owner.start();
  await untilJoined(nodes.all);
  await traffic.goesOn();
  await traffic.stop();
  await mustAddUp(t, server, 'moved', [traffic.pushes], traffic.emsp);
  await noneDead(t, nodes);
  t.strictSame(traffic.doubled, [], 'no object had two deliveries at a time');
});
