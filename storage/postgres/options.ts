/**
 * What a PostgreSQL store is opened with, its address among them:
 *
 *     postgres://user:password@host1:5432,host2:5432/database?schema=ocpi_hub&single=1&sslmode=verify-full&sslrootcert=/ca.pem
 *
 * OPTIONS-1  Without `sslmode` the connection is encrypted and the server's name verified (`verify-full`), unless
 *     every host is loopback or a Unix socket.
 */

import { readFileSync } from 'node:fs';
import { isIPv4 } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type { Clock } from '../../src/kit/clock.ts';
import type * as contract from '../contract.ts';
import type { Sealing } from '../level/backup-keys.ts';
import type { OnPoint } from '../level/leveldb.ts';

export interface PostgresStoreOptions {
  readonly url: string;
  /** Display name of this node. */
  readonly node: string;
  /** Where peers reach this node. */
  readonly nodeUrl?: string | null;
  /**
   * The only node: opening waits for the log, and rejects when another node keeps renewing its lease. Default: true.
   */
  readonly sole?: boolean;
  readonly ttlMs?: number;
  /** Clock for leases and waits. Default: the system clock. */
  readonly clock?: Clock;
  readonly answerMs?: number;
  /** What is wrong with how other nodes reach this one. */
  readonly doubts?: () => readonly string[];
  /** What else the operator should mend. */
  readonly notices?: () => readonly string[];
  readonly gained?: (fence: contract.Fence) => void;
  readonly lost?: () => void;
  readonly onPoint?: OnPoint;
  /** Absent or null: backups are not sealed. */
  readonly sealing?: Sealing | null;
}

// The address: several hosts are the servers of one cluster, one of which is the primary. Missing parts (user, password, database)
// come from the usual places of PostgreSQL clients: PGUSER, PGPASSWORD, `.pgpass`.

export interface PostgresAddress {
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  readonly user: string | undefined;
  readonly password: string | undefined;
  readonly database: string | undefined;
  readonly ssl: false | ConnectionOptions;
  /** Schema that contains all tables of the store. */
  readonly schema: string;
  /** The operator accepts a single server without a standby, which loses everything with its disk. */
  readonly single: boolean;
  /** For messages: without the password. */
  readonly shown: string;
}

const FORM = /^postgres(?:ql)?:\/\/(?:([^:@/?]*)(?::([^@/?]*))?@)?([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/;
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;
const PARAMETERS: ReadonlySet<string> = new Set(['schema', 'single', 'sslmode', 'sslrootcert', 'host']);
const PORT = 5432;

/** Throws a TypeError that says what is wrong; it never contains the password. */
export function parsePostgresUrl(url: string): PostgresAddress {
  const parts = FORM.exec(url);
  if (parts === null)
    throw new TypeError('expected postgres://user@host:port/database, several hosts as host1:port1,host2:port2');
  const [, user, password, authority = '', database, query = ''] = parts;
  const parameters = new URLSearchParams(query);
  for (const name of parameters.keys()) {
    if (!PARAMETERS.has(name)) {
      throw new TypeError(
        `the address of the database has an unknown "${name}": it takes ${[...PARAMETERS].join(', ')}`,
      );
    }
  }
  const schema = parameters.get('schema') ?? 'ocpi_hub';
  if (!SCHEMA.test(schema)) throw new TypeError('the schema of the store is a name of small letters, digits and _');
  const hosts = hostsOf(parameters.get('host') ?? authority);
  const decoded = (text: string | undefined) => (text ? decodeURIComponent(text) : undefined);
  const shownHosts = hosts.map(({ host, port }) => `${host}:${port}`).join(',');
  return {
    hosts,
    user: decoded(user),
    password: decoded(password),
    database: decoded(database),
    ssl: sslOf(parameters, hosts),
    schema,
    single: parameters.get('single') === '1',
    shown: `postgres://${user ? `${user}@` : ''}${shownHosts}/${database ?? ''}?schema=${schema}`,
  };
}

/** A host that begins with `/` is the directory of a Unix socket. */
function hostsOf(list: string): PostgresAddress['hosts'] {
  const hosts = list.split(',').map((each) => {
    const [, host = '', port] = /^(\[[^\]]+\]|[^:]*)(?::(\d+))?$/.exec(each) ?? [];
    return { host: decodeURIComponent(host.replace(/^\[|\]$/g, '')), port: port ? Number(port) : PORT };
  });
  if (hosts.some(({ host }) => host === '')) throw new TypeError(`${JSON.stringify(list)} names no host of a database`);
  return hosts;
}

/** Whether what is sent there stays on this machine. */
const isLocal = (host: string): boolean =>
  host.startsWith('/') ||
  host.toLowerCase() === 'localhost' ||
  host === '::1' ||
  (isIPv4(host) && host.startsWith('127.'));

/** [OPTIONS-1] */
function sslOf(parameters: URLSearchParams, hosts: PostgresAddress['hosts']): false | ConnectionOptions {
  const usual = hosts.every(({ host }) => isLocal(host)) ? 'disable' : 'verify-full';
  const mode = parameters.get('sslmode') ?? usual;
  const file = parameters.get('sslrootcert');
  const ca = file === null ? {} : { ca: readFileSync(file, 'utf8') };
  if (mode === 'disable') return false;
  if (mode === 'verify-full') return { ...ca, rejectUnauthorized: true };
  if (mode === 'verify-ca') return { ...ca, rejectUnauthorized: true, checkServerIdentity: () => undefined };
  if (mode === 'require') return { rejectUnauthorized: false };
  throw new TypeError('sslmode is one of disable, require, verify-ca, verify-full');
}
