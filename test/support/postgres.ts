/**
 * PostgreSQL servers of tests: made in a new directory, on a free port of this machine, with the safety that users have. One is shared by
 * the whole process, with a schema for each test; a test that kills or reconfigures a server, or needs standbys, starts its own. They run as
 * an ordinary user, because the server refuses to be root. `postgresHere` is null where no server is installed.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { appendFileSync, chownSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { freePort } from '../../src/sandbox/free-port.ts';
import { postgresHere as installed, postgresUser } from '../../src/sandbox/postgres.ts';
import type { Test } from './tap.ts';
import { closeAtEnd } from './tap.ts';

export const postgresHere = installed;

/** Of `isReady`, 20 ms apart. */
const START_LOOKS = 3000;

export interface PostgresServer {
  readonly port: number;
  readonly directory: string;
  /** Address of a schema; `more` is added to the query. */
  url(schema: string, more?: string): string;
  /** A statement on the server, as its superuser. */
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Lines of configuration that count from the next start. */
  configure(lines: string): void;
  start(): Promise<void>;
  stop(): Promise<void>;
  /** All of it at once, as a power cut of the machine ends it but for what the kernel holds. */
  kill(): Promise<void>;
  /** All of it stands still, or goes on. */
  freeze(): void;
  thaw(): void;
}

let shared: Promise<PostgresServer> | null = null;

/** The server of this process, for tests that leave it as it is: started for the first of them, stopped when all have ended. */
export function sharedPostgres(): Promise<PostgresServer> {
  shared ??= startPostgres(
    { teardown: closeAtEnd },
    'max_connections = 200\nautovacuum = off\ncheckpoint_timeout = 1h',
  );
  return shared;
}

let schemas = 0;

/** A name that no other test of this process has. */
export function newSchema(name: string): string {
  schemas += 1;
  return `${name}_${schemas}`;
}

/** A session under an `application_name`, which the test or its end ends. */
export async function openSession(
  t: Pick<Test, 'teardown'>,
  { port }: Pick<PostgresServer, 'port'>,
  name: string,
): Promise<Client> {
  const client = new Client({ host: '127.0.0.1', port, user: 'hub', database: 'postgres', application_name: name });
  client.on('error', () => {});
  await client.connect();
  t.teardown(() => client.end().catch(() => {}));
  return client;
}

/** A session that holds a snapshot for as long as the test lasts and writes nothing, as `pg_dump` does. */
export async function openReader(t: Pick<Test, 'teardown'>, server: PostgresServer, name: string): Promise<void> {
  const client = await openSession(t, server, name);
  await client.query('begin isolation level repeatable read read only');
  await client.query('select 1');
}

/** Columns and indexes of a schema, to compare. */
export async function shapeOf(server: PostgresServer, schema: string): Promise<unknown> {
  const columns = await server.query(
    `select table_name, column_name, data_type, collation_name, is_nullable, column_default from information_schema.columns
       where table_schema = $1 order by table_name, ordinal_position`,
    [schema],
  );
  const indexes = await server.query<{ def: string }>(
    'select indexdef as def from pg_indexes where schemaname = $1 order by indexname',
    [schema],
  );
  return [columns, indexes.map(({ def }) => def.replaceAll(schema, 'it'))];
}

/** Stopped and removed with the test. */
export function startPostgres(t: Pick<Test, 'teardown'>, settings = ''): Promise<PostgresServer> {
  return started(t, settings, (directory) => run('cp', ['-a', made(), directory]));
}

let fresh: string | null = null;

/** What `initdb` makes, once for all servers of this process: a copy takes a tenth of its time. */
function made(): string {
  if (fresh === null) {
    const directory = join(newHome(), 'data');
    // Its own sync is for power cuts between making it and the first start.
    runHere('initdb', ['-D', directory, '-U', 'hub', '-E', 'UTF8', '--locale=C', '-k', '-A', 'trust', '--no-sync']);
    fresh = directory;
  }
  return fresh;
}

/** A standby that follows a server under a name, from a copy of it. */
export function startStandby(t: Pick<Test, 'teardown'>, of: PostgresServer, name: string): Promise<PostgresServer> {
  const primary = `host=127.0.0.1 port=${of.port} user=hub application_name=${name}`;
  return started(t, "wal_retrieve_retry_interval = '200ms'", (directory) => {
    runHere('pg_basebackup', ['-d', primary, '-D', directory, '-R', '-X', 'stream', '-c', 'fast', '--no-sync']);
  });
}

function run(program: string, words: readonly string[]): void {
  execFileSync(program, words, { ...postgresUser, cwd: tmpdir(), stdio: 'ignore' });
}

/** A program of the server. */
function runHere(program: string, words: readonly string[]): void {
  if (postgresHere === null) throw new Error('no PostgreSQL server is installed here');
  run(join(postgresHere, program), words);
}

/** A directory of the server's user, removed with this process at the latest. */
function newHome(): string {
  const home = mkdtempSync(join(tmpdir(), 'ocpi-hub-pg-'));
  if (postgresUser !== null) chownSync(home, postgresUser.uid, postgresUser.gid);
  guard(home);
  return home;
}

async function started(
  t: Pick<Test, 'teardown'>,
  settings: string,
  make: (directory: string) => void,
): Promise<PostgresServer> {
  if (postgresHere === null) throw new Error('no PostgreSQL server is installed here');
  const bin = postgresHere;
  const home = newHome();
  const directory = join(home, 'data');
  const pidFile = join(directory, 'postmaster.pid');
  const as = postgresUser ?? {};
  make(directory);
  const port = await freePort();
  const configure = (lines: string): void => appendFileSync(join(directory, 'postgresql.conf'), `\n${lines}\n`);
  configure(`port = ${port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '${home}'\n${settings}`);
  let child: ChildProcess | null = null;
  // Tests look again and again, and a session costs a process of the server.
  const idle: Client[] = [];

  async function ended(signal: NodeJS.Signals): Promise<void> {
    const running = child;
    child = null;
    for (const client of idle.splice(0)) void client.end().catch(() => {});
    if (running === null || running.exitCode !== null || running.signalCode !== null) return;
    const end = new Promise((resolve) => running.once('exit', resolve));
    running.kill(signal);
    await end;
  }

  async function query<Row extends object>(text: string, values: readonly unknown[] = []): Promise<Row[]> {
    const client = idle.pop() ?? (await connected());
    try {
      const { rows } = await client.query<Row>(text, [...values]);
      await client.query('discard all');
      idle.push(client);
      return rows;
    } catch (error) {
      await client.end().catch(() => {});
      throw error;
    }
  }

  async function connected(): Promise<Client> {
    // Whatever a test sets for the role does not hold for the test itself.
    const options = '-c statement_timeout=0';
    const client = new Client({ host: '127.0.0.1', port, user: 'hub', database: 'postgres', options });
    client.on('error', () => {
      if (idle.includes(client)) idle.splice(idle.indexOf(client), 1);
    });
    await client.connect().catch(async (error: unknown) => {
      await client.end().catch(() => {});
      throw error;
    });
    return client;
  }

  const signal = (name: NodeJS.Signals): void => {
    for (const pid of [child?.pid ?? 0, ...childrenOf(child?.pid)]) send(pid, name);
  };

  const server: PostgresServer = {
    ...{ port, directory, query, configure },
    url: (schema, more = '') => `postgres://hub@127.0.0.1:${port}/postgres?single=1&schema=${schema}${more}`,
    async start() {
      child = spawn(join(bin, 'postgres'), ['-D', directory], { ...as, cwd: home, stdio: 'ignore' });
      // A server that is asked while it starts makes a process for each answer.
      for (let look = 1; !isReady(pidFile); look += 1) {
        if (look === START_LOOKS || child.exitCode !== null)
          throw new Error(`the server in ${directory} does not start`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
    stop: () => ended('SIGINT'),
    async kill() {
      const children = childrenOf(child?.pid);
      await ended('SIGKILL');
      // They would go on for a moment, and a new server does not begin beside them.
      for (const pid of children) send(pid, 'SIGKILL');
      while (children.some((pid) => existsSync(`/proc/${pid}`)))
        await new Promise((resolve) => setTimeout(resolve, 10));
      rmSync(pidFile, { force: true });
    },
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
  };
  t.teardown(async () => {
    server.thaw();
    await server.stop();
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  });
  await server.start();
  return server;
}

/** Its input ends with this process, however that ends: servers that still stand are stopped then, and removed. */
const guardian = `while read -r home; do set -- "$@" "$home"; done
for home; do
  lock="$home/data/postmaster.pid"
  pid=$(head -n 1 "$lock") && kill -CONT "$pid" && kill -QUIT "$pid"
  while test -e "$lock" && kill -0 "$pid"; do sleep 0.1; done
  rm -rf "$home"
done`;
let guarding: ChildProcess | null = null;

function guard(home: string): void {
  if (guarding === null) {
    // Detached: a signal to this process and its children is not for it.
    guarding = spawn('sh', ['-c', guardian], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    guarding.unref();
    (guarding.stdin as Socket).unref();
  }
  guarding.stdin?.write(`${home}\n`);
}

/** As `pg_ctl` knows it: a server writes its state into the last line of this file. */
function isReady(pidFile: string): boolean {
  try {
    return /^ready *$/m.test(readFileSync(pidFile, 'utf8'));
  } catch {
    return false;
  }
}

function childrenOf(pid: number | undefined): number[] {
  if (pid === undefined) return [];
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}

/** One that is gone already is as good. */
function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
