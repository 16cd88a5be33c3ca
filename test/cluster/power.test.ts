/**
 * All power is cut, nodes and database at once, and the disk of the database is full: nothing is acknowledged that is not kept, and everything
 * goes on when there is power and room again.
 */
import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { directoryFor } from '../support/directory.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { eventually } from '../support/plain-partner.ts';
import { startPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { goesOn, mustAddUp, startLoad } from './load.ts';
import { longer, startNodes, untilJoined } from './nodes.ts';

const env = { HUB_LEASE_S: '6', HUB_RATE_OTHER_PER_MIN: '1000000' };
const cuts = 5;

t.test(`the power is cut ${cuts} times, of all nodes and of the database`, longer, async (t) => {
  const server = await startPostgres(t);
  const nodes = await startNodes(t, server, 'power', { count: 3, env });
  const { cpo, emsp } = await routedPair(t, nodes);
  const load = startLoad(nodes.url, cpo, 'P');
  const pauses: number[] = [];
  for (let i = 0; i < cuts; i += 1) {
    await goesOn(load);
    await Promise.all([server.kill(), ...nodes.all.map(({ hub }) => hub.kill())]);
    const begun = performance.now();
    await server.start();
    await Promise.all(nodes.all.map((node) => node.start()));
    await goesOn(load, 1);
    pauses.push(Math.round(performance.now() - begun));
  }
  await untilJoined(nodes.all);
  await goesOn(load);
  await load.stop();
  t.comment(`from the return of the power to the next acknowledged write: ${pauses.join(', ')} ms`);
  await mustAddUp(t, server, 'power', [load], emsp);
});

/** A file system of so many MiB; null where none may be made. */
function mounted(directory: string, mib: number): string | null {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', directory], { stdio: 'ignore' });
    chmodSync(directory, 0o777);
    return directory;
  } catch {
    return null;
  }
}

t.test('the disk of the database is full', longer, async (t) => {
  const disk = mounted(directoryFor(t), 160);
  if (disk === null) return t.comment('no file system can be made here');
  t.teardown(() => execFileSync('umount', ['-l', disk]));
  const { TMPDIR } = process.env;
  process.env.TMPDIR = disk;
  const starting = startPostgres(t, "wal_recycle = off\nmax_wal_size = '48MB'");
  if (TMPDIR === undefined) delete process.env.TMPDIR;
  else process.env.TMPDIR = TMPDIR;
  const server = await starting;
  const nodes = await startNodes(t, server, 'brim', { env });
  await untilJoined(nodes.all);
  const { cpo, emsp } = await routedPair(t, nodes);
  const load = startLoad(nodes.url, cpo, 'F');
  await goesOn(load);
  const filler = join(disk, 'filler');
  const fill = () => {
    try {
      for (;;) appendFileSync(filler, Buffer.alloc(4096));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  };
  const refused = () => load.failed().filter(({ status }) => status === 503).length;
  const isFull = async () => {
    fill();
    return refused() > 100;
  };
  await eventually('writes are refused', isFull, 300_000);
  const ended = load.failed().filter(({ endedAt }) => endedAt > 0);
  const said = ended.map(({ status, why }) => why ?? status);
  t.comment(`refused with ${[...new Set(said)].join(', ')}`);
  const readyz = await fetch(`${nodes.all[0]?.url}/readyz`);
  t.comment(`/readyz ${readyz.status} ${await readyz.text()}`);
  t.comment(
    `log: ${nodes.all[0]?.hub
      .log()
      .split('\n')
      .filter((line) => line.includes('the store'))
      .slice(-2)
      .join(' ')
      .slice(0, 600)}`,
  );
  rmSync(filler);
  // A server that cannot write its log ends, and whoever runs it starts it again.
  const isThere = await server.query('select 1').then(
    () => true,
    () => false,
  );
  t.comment(`the server ${isThere ? 'goes on' : 'had ended'}`);
  if (!isThere) {
    await server.kill();
    await server.start();
  }
  await goesOn(load, 50, 180_000);
  await load.stop();
  await mustAddUp(t, server, 'brim', [load], emsp);
});
