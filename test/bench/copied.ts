/** A site brought into a database by the command that users have, and a hub on what came of it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { settingsOf, untilJoined } from '../cluster/nodes.ts';
import type { ChildHub } from '../support/child-hub.ts';
import { runProcess } from '../support/command.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { serverS } from './cluster.ts';
import { endedS } from './processes.ts';
import { startMeasuredHub } from './scene.ts';
import type { Site } from './site.ts';

/** What a command has cost. */
export interface Ran {
  readonly out: string;
  readonly seconds: number;
  /** Of CPU, of the command and of PostgreSQL. */
  readonly commandS: number;
  readonly databaseS: number;
}

export async function ran(
  server: PostgresServer,
  words: readonly string[],
  env?: Readonly<Record<string, string>>,
): Promise<Ran> {
  const taken = () => [performance.now() / 1000, endedS(process.pid), serverS(server)] as const;
  const before = taken();
  const { code, out, err } = await runProcess(words, env);
  if (code !== 0) throw new Error(`${words.slice(0, 2).join(' ')} ended with ${code}: ${err}`);
  const [seconds = 0, commandS = 0, databaseS = 0] = taken().map((value, i) => value - (before[i] ?? 0));
  return { out, seconds, commandS, databaseS };
}

/** Copies the store of a site, which no hub uses, into a schema. */
export const copySite = (server: PostgresServer, { dataDir }: Site, schema: string): Promise<Ran> =>
  ran(server, ['store', 'copy', '--data-dir', dataDir, '--to', server.url(schema)]);

/** The key under which a site keeps the tokens of its partners. */
export const keyOf = ({ dataDir }: Site) => ({
  HUB_SECRET_KEY: readFileSync(join(dataDir, 'secret-key'), 'utf8').trim(),
});

/** A hub on the schema into which a site was copied; it is the owner. */
export async function startCopied(server: PostgresServer, site: Site, schema: string, port: number): Promise<ChildHub> {
  const limits = { HUB_RATE_OTHER_PER_MIN: '100000000', HUB_RATE_LISTS_PER_MIN: '100000000', HUB_LEASE_S: '3' };
  const env = settingsOf(`http://127.0.0.1:${port}`, port, server.url(schema), { ...limits, ...keyOf(site) });
  const hub = await startMeasuredHub({ dataDir: '/nowhere', port, env });
  await untilJoined([hub]);
  return hub;
}
