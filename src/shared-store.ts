/** Opens the store on PostgreSQL. */
import { hostname } from 'node:os';
import { parsePostgresUrl } from '../storage/postgres/url.ts';
import { removeUnsealed, sealingOf } from './backup-keys.ts';
import { type Config, ConfigError } from './config.ts';
import type { Clock } from './kit/clock.ts';
import { systemClock } from './kit/system-clock.ts';
import type { Starting } from './starting.ts';

interface Told {
  readonly changed: () => void;
  readonly doubts: () => readonly string[];
  readonly starting: Pick<Starting, 'until'>;
}

/**
 * Waits for a database that is away. [STARTING-4] The leases of the store use the machine's timers, even when a test
 * replaces the hub's clock.
 */
export async function openSharedStore(config: Config, clock: Clock, { changed, doubts, starting }: Told) {
  const { store: url, nodeUrl, leaseS } = config;
  try {
    parsePostgresUrl(url);
  } catch (error) {
    throw new ConfigError(`HUB_STORE (--store) is not usable: ${(error as Error).message}`);
  }
  const sealing = sealingOf(config);
  await removeUnsealed(config.dataDir);
  // An embedded hub does without the client of a database.
  const { DatabaseAway } = await import('../storage/postgres/connect.ts');
  const { openPostgresStore } = await import('../storage/postgres/store.ts');
  const open = () =>
    openPostgresStore({
      sealing,
      url,
      node: `${hostname()}:${process.pid}`,
      nodeUrl,
      sole: nodeUrl === null,
      ttlMs: leaseS * 1000,
      gained: changed,
      lost: changed,
      doubts,
      clock: { ...systemClock, wall: () => clock.wall() },
    });
  return starting.until(open, (error) => error instanceof DatabaseAway);
}
