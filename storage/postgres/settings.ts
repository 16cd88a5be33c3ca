/** Checks the settings of a PostgreSQL server: some of them lose or hide acknowledged writes. */
import type { Client } from 'pg';
import { StoreUnavailable } from '../contract.ts';

export interface ServerSettings {
  /** `server_version_num`, e.g. 150004. */
  readonly version: number;
  readonly encoding: string;
  readonly fsync: string;
  readonly full_page_writes: string;
  readonly synchronous_commit: string;
  readonly synchronous_standby_names: string;
  readonly zero_damaged_pages: string;
  readonly ignore_checksum_failure: string;
  readonly data_checksums: string;
}

const VERSION_MIN = 150_000;

const asked = ['fsync', 'full_page_writes', 'synchronous_commit', 'synchronous_standby_names'] as const;
/** Some servers show these only to superusers. */
const mayBeHidden = ['zero_damaged_pages', 'ignore_checksum_failure', 'data_checksums'] as const;

/** One sentence for each setting that makes the server unsafe. `single` allows a server without a standby. */
export function unsafeSettings(settings: ServerSettings, single: boolean): string[] {
  const { version, encoding, synchronous_commit: commit, synchronous_standby_names: standbys } = settings;
  const wrong: string[] = [];
  const add = (isWrong: boolean, sentence: string) => void (isWrong && wrong.push(sentence));
  add(version < VERSION_MIN, `the server has version ${Math.floor(version / 10_000)}: 15 or newer is needed`);
  add(encoding !== 'UTF8', `the database has server_encoding ${encoding}: UTF8 is needed`);
  add(settings.fsync !== 'on', 'fsync is off: a power cut would lose or spoil what was acknowledged');
  add(settings.full_page_writes !== 'on', 'full_page_writes is off: a power cut would spoil pages');
  add(commit === 'off', 'synchronous_commit is off: commits would be acknowledged before they are on the disk');
  add(
    standbys !== '' && (commit === 'local' || commit === 'remote_write'),
    `synchronous_commit is ${commit}: commits would be acknowledged before a standby has them on its disk; on or remote_apply is needed`,
  );
  add(
    standbys === '' && !single,
    'synchronous_standby_names is empty: commits would be lost with this server (a single server that is meant to be one is ' +
      'named with ?single=1 in the address)',
  );
  add(settings.zero_damaged_pages === 'on', 'zero_damaged_pages is on: damage would be hidden');
  add(settings.ignore_checksum_failure === 'on', 'ignore_checksum_failure is on: damage would be served as data');
  return wrong;
}

/** A warning for the operator that does not keep the hub from starting; null when there is none. */
export function warningOf(settings: ServerSettings): string | null {
  if (settings.data_checksums !== 'off') return null;
  return 'data_checksums is off: what rots on the disk of the database would be served as data (pg_checksums --enable)';
}

/** Reads the settings as they apply to this database session. */
async function readSettings(client: Client): Promise<ServerSettings> {
  const columns = [
    ...asked.map((name) => `current_setting('${name}') as ${name}`),
    ...mayBeHidden.map((name) => `current_setting('${name}', true) as ${name}`),
  ];
  const { rows } = await client.query<ServerSettings>(
    `select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding,
       ${columns.join(', ')}`,
  );
  const [settings] = rows;
  if (settings === undefined) throw new StoreUnavailable('the database server does not report its settings');
  return settings;
}

/** Rejects with every unsafe setting; resolves with a warning or null. */
export async function mustBeSafe(client: Client, single: boolean): Promise<string | null> {
  const settings = await readSettings(client);
  const wrong = unsafeSettings(settings, single);
  if (wrong.length > 0) throw new StoreUnavailable(`the database is not safe to write on: ${wrong.join('; ')}`);
  return warningOf(settings);
}
