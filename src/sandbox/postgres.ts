/**
 * A temporary PostgreSQL server from the installed programs: in its own directory, on a free port of this machine. The
 * server refuses to run as root; for root it runs as the user `postgres` that its package creates.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { ended, startChild } from './child.ts';
import { freePort } from './free-port.ts';

const INSTALLED = '/usr/lib/postgresql';

/**
 * Directory of the server's programs: the newest packaged version, else the first of PATH; null when none is installed.
 */
export const postgresHere: string | null = (() => {
  const versions = existsSync(INSTALLED) ? readdirSync(INSTALLED) : [];
  const packaged = versions.sort((a, b) => Number(b) - Number(a)).map((version) => join(INSTALLED, version, 'bin'));
  const all = [...packaged, ...(process.env.PATH ?? '').split(delimiter)];
  return all.find((directory) => existsSync(join(directory, 'initdb'))) ?? null;
})();

/** User that the server runs as; null for the current user. */
export const postgresUser = (() => {
  if (process.getuid?.() !== 0) return null;
  const id = (flag: string) => Number(spawnSync('id', [flag, 'postgres'], { encoding: 'utf8' }).stdout);
  return { uid: id('-u'), gid: id('-g') };
})();

export interface TemporaryPostgres {
  readonly port: number;
  /** Stops the server and removes its directory. */
  close(): Promise<void>;
}

/** Rejects with a sentence when no server is installed or it does not start. */
export async function startTemporaryPostgres(): Promise<TemporaryPostgres> {
  if (postgresHere === null) {
    throw new Error(
      'no PostgreSQL server is installed here (initdb is neither in the path nor below /usr/lib/postgresql)',
    );
  }
  const home = mkdtempSync(join(tmpdir(), 'ocpi-hub-pg-'));
  if (postgresUser !== null) chownSync(home, postgresUser.uid, postgresUser.gid);
  const directory = join(home, 'data');
  const as = { ...postgresUser, cwd: home, stdio: 'ignore' } as const;
  const words = ['-D', directory, '-U', 'hub', '-E', 'UTF8', '--locale=C', '-k', '-A', 'trust', '--no-sync'];
  const [made] = await once(startChild(join(postgresHere, 'initdb'), words, as), 'exit');
  if (made !== 0) {
    rmSync(home, { recursive: true, force: true });
    throw new Error('initdb of the installed PostgreSQL server failed');
  }
  const port = await freePort();
  const settings = [`port = ${port}`, `listen_addresses = '127.0.0.1'`, `unix_socket_directories = '${home}'`];
  appendFileSync(join(directory, 'postgresql.conf'), `\n${settings.join('\n')}\n`);
  const child = startChild(join(postgresHere, 'postgres'), ['-D', directory], as);
  const close = async () => {
    await ended(child, 'SIGINT');
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  };
  const isUp = () =>
    spawnSync(join(postgresHere ?? '', 'pg_isready'), ['-q', '-h', '127.0.0.1', '-p', `${port}`]).status;
  for (let attempt = 0; isUp() !== 0; attempt += 1) {
    if (attempt === 300 || child.exitCode !== null) {
      await close();
      throw new Error('the installed PostgreSQL server does not start');
    }
    await sleep(systemClock, 100);
  }
  return { port, close };
}
