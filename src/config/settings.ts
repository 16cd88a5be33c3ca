/**
 * The table of all settings: `config/config.ts` parses by it and `ocpi-hub serve --help` prints it, so that both agree.
 *
 * SETTINGS-1  A setting has one name, its environment variable: `--data-dir` and `dataDir` derive from `HUB_DATA_DIR`.
 * SETTINGS-2  Every `_S`, `_H`, `_DAYS` and schedule setting accepts decimals.
 */

import { notify, oidc } from './operator-settings.ts';
import {
  bearer,
  type CamelCase,
  file,
  flag,
  httpUrl,
  keys,
  milliseconds,
  nameServers,
  networks,
  nodeSecret,
  number,
  oneOf,
  perMinute,
  type Setting,
  schedule,
  secretKey,
  setting,
  span,
  store,
  text,
  timerSMax,
  upperCase,
  whole,
} from './setting-kinds.ts';

export const settings = {
  HUB_HOST: setting(text('address', /^[\w.:-]+$/, 'an IP address or a host name'), '127.0.0.1', {
    meaning: 'address to listen on; 0.0.0.0 for every interface',
    consequence: 'beyond loopback, set HUB_PUBLIC_URL as well',
  }),
  HUB_PORT: setting(whole('port', 0, 65535), '8080', {
    meaning: 'port to listen on; 0 = any free one',
    consequence: 'with 0 the public URL changes at each start',
  }),
  HUB_ADMIN_HOST: setting(text('address', /^[\w.:-]+$/, 'an IP address or a host name'), null, {
    meaning: 'address of a listener of its own for admin API, console, metrics and inspector',
    consequence: 'HUB_HOST then serves none of them',
    otherwise: '127.0.0.1 if HUB_ADMIN_PORT is set, else none',
  }),
  HUB_ADMIN_PORT: setting(whole('port', 0, 65535), null, {
    meaning: 'port of that listener; 0 = any free one',
    consequence: 'commands need it in HUB_URL, Prometheus in its targets',
    otherwise: '8081 if HUB_ADMIN_HOST is set, else none',
  }),
  HUB_PUBLIC_URL: setting(httpUrl, null, {
    meaning: 'base of every URL that the hub emits',
    consequence: 'partners store these URLs: a change needs new credentials of each',
    otherwise: 'http://{host}:{port}',
  }),
  HUB_INSECURE_HTTP: setting(flag, 'false', {
    meaning: 'allows plain HTTP beyond loopback while HUB_PUBLIC_URL is not https',
    consequence: 'with true, anybody on the network reads every token',
  }),
  HUB_DATA_DIR: setting(text('directory', /\S/, 'a path'), './data', {
    meaning: 'where the embedded store and the made secrets are kept',
    consequence: 'another directory is another, empty hub',
  }),
  HUB_STORE: setting(store, 'level', {
    meaning: 'level = embedded LevelDB in the data directory; postgres://... = a database that several nodes share',
    consequence: 'another store is another hub; a database needs HUB_ADMIN_TOKEN and HUB_SECRET_KEY',
    secret: true,
  }),
  HUB_NODE_URL: setting(httpUrl, null, {
    meaning: 'how other nodes reach this one; with a database alone',
    consequence: 'without it the node must be the only one on its database',
  }),
  HUB_NODE_HOST: setting(text('address', /^[\w.:-]+$/, 'an IP address or a host name'), null, {
    meaning: 'address of a listener of its own for other nodes',
    consequence: 'HUB_HOST then serves no node; HUB_NODE_URL must lead to this listener',
    otherwise: '127.0.0.1 if HUB_NODE_PORT is set, else none',
  }),
  HUB_NODE_PORT: setting(whole('port', 1, 65535), null, {
    meaning: 'port of that listener',
    consequence: 'without it other nodes come in where partners do',
    otherwise: '8082 if HUB_NODE_HOST is set, else none',
  }),
  HUB_NODE_INSECURE: setting(flag, 'false', {
    meaning: 'allows an http HUB_NODE_URL that is not loopback',
    consequence: 'nodes encrypt what they say in any case; with true, a weak HUB_CLUSTER_SECRET can be guessed offline',
  }),
  HUB_CLUSTER_SECRET: setting(nodeSecret, null, {
    meaning: 'by which nodes know each other; the same on all of them',
    consequence: 'its holder may pass requests on as a node does',
    secret: true,
  }),
  HUB_CLUSTER_SECRET_PREVIOUS: setting(nodeSecret, null, {
    meaning: 'the secret that HUB_CLUSTER_SECRET replaces: nodes accept it too while they are restarted in turn',
    consequence: 'without it a changed HUB_CLUSTER_SECRET parts the nodes until all have it',
    secret: true,
  }),
  HUB_LEASE_S: setting(number('s', 3, 300), '3', {
    meaning: 'how long a node that stopped is still taken for the owner; the same on all nodes',
    consequence: 'shorter, a busy machine looks dead; longer, the hub stands still for longer when a node dies',
  }),
  HUB_COUNTRY_CODE: setting(upperCase(text('code', /^[A-Za-z]{2}$/, 'two letters')), 'XX', {
    meaning: 'country_code of the HUB role',
    consequence: 'partners address the hub by it',
  }),
  HUB_PARTY_ID: setting(upperCase(text('code', /^[A-Za-z0-9]{1,3}$/, 'one to three letters or digits')), 'HUB', {
    meaning: 'party_id of the HUB role',
    consequence: 'partners address the hub by it',
  }),
  HUB_NAME: setting(text('text', /^\P{Cc}{1,100}$/u, '1 to 100 characters'), 'OCPI hub', {
    meaning: 'business name of the HUB role',
    consequence: 'partners see it in the credentials',
  }),
  HUB_ADMIN_TOKEN: setting(bearer, null, {
    meaning: 'full access to /admin/v1',
    consequence: 'its holder may do anything that operators may',
    secret: true,
    otherwise: 'made at first start, kept in {data}/admin-token',
  }),
  HUB_VIEWER_TOKEN: setting(bearer, null, {
    meaning: 'read-only access to /admin/v1 and the inspector',
    consequence: 'without it there is no read-only access',
    secret: true,
  }),
  HUB_OPERATORS_FILE: setting(text('file', /\S/, 'a path'), null, {
    meaning:
      'operators with names, roles and tokens of their own; made by ocpi-hub operators add, read again on SIGHUP',
    consequence: 'without it all who have the admin token act under one name',
  }),
  HUB_REQUIRE_REASON: setting(flag, 'false', {
    meaning: 'true = every act of an operator needs a reason',
    consequence: 'with true, commands need --reason and requests of programs a field reason',
  }),
  HUB_SECRET_KEY: setting(secretKey, null, {
    meaning: 'encrypts partner tokens at rest',
    consequence: 'under another key the stored partner tokens cannot be read',
    secret: true,
    otherwise: 'made at first start, kept in {data}/secret-key',
  }),
  HUB_SECRET_KEY_PREVIOUS: setting(keys, null, {
    meaning: 'keys that HUB_SECRET_KEY replaces: what they sealed is sealed again, with it, when the hub starts',
    consequence: 'without them a changed HUB_SECRET_KEY is refused at the start',
    secret: true,
  }),
  HUB_BACKUP_PUBLIC_KEY: setting(file, null, {
    meaning: 'X25519 public key, PEM, for which backups are sealed',
    consequence:
      'without it anyone who holds a backup can read it; with it only the private key opens one, and the hub does not have it',
  }),
  HUB_TLS_CERT: setting(file, null, {
    meaning: 'certificate chain, PEM; with HUB_TLS_KEY the hub speaks HTTPS itself',
    consequence: 'without it, put a proxy that speaks TLS in front',
  }),
  HUB_TLS_KEY: setting(file, null, {
    meaning: 'private key of HUB_TLS_CERT, PEM',
    consequence: 'neither is used without the other',
  }),
  HUB_EGRESS_ALLOW: setting(networks, null, {
    meaning: 'private networks that the hub may call; other private, link-local and metadata addresses are refused',
    consequence: 'a partner can make the hub call any address within',
    otherwise: 'loopback if the public URL is loopback, else none',
  }),
  HUB_TRUSTED_PROXIES: setting(networks, 'none', {
    meaning: 'networks of the proxies in front, whose X-Forwarded-For says which address a request came from',
    consequence:
      'without it everybody behind a proxy counts as one address; a network too many lets callers invent theirs',
  }),
  HUB_CONNECTIONS_MAX: setting(whole('connections', 16, 1_000_000), null, {
    meaning: 'connections of callers; one address may have a quarter of them without a token',
    consequence: 'each takes up to three file descriptors, which bound it in any case',
    otherwise: 'a third of the file descriptors, at most 10000',
  }),
  HUB_RATE_UNAUTHENTICATED_PER_S: setting(number('requests per second', 0.01, 1_000_000), '100', {
    meaning: 'requests without a valid token per address and second; answers beyond it wait, up to 30 s',
    consequence: 'higher, a stranger takes more of the time of the hub',
  }),
  HUB_RATE_FAILED_TOKENS_PER_S: setting(number('tokens per second', 0.01, 1_000_000), '5', {
    meaning: "wrong operators' tokens per address and second",
    consequence: 'beyond it the address gets 429, unless it sends a token that was accepted from there before',
  }),
  HUB_DNS_SERVERS: setting(nameServers, null, {
    meaning: 'name servers that the hub asks for the host names of partners; the hosts file comes first',
    consequence: 'a name that they do not know cannot be called',
    otherwise: 'those of the system',
  }),
  HUB_COMMAND_TIMEOUT_MS: setting(milliseconds, '20000', {
    meaning: 'limit of one command forward, hub to CPO',
    source: 'requirement',
    consequence: 'lower, slow CPOs fail; higher, eMSPs wait longer for a failure',
  }),
  HUB_COMMAND_RESULT_WINDOW_S: setting(span('s', timerSMax), '30', {
    meaning: 'data.timeout of a command when the CPO gives none',
    source: 'requirement',
    consequence: 'how long eMSPs wait before silence counts as failure',
  }),
  HUB_AUTHORIZE_TIMEOUT_MS: setting(milliseconds, '10000', {
    meaning: 'limit of one authorize forward',
    consequence: 'a driver waits for it at the charger',
  }),
  HUB_CALLBACK_TIMEOUT_MS: setting(milliseconds, '10000', {
    meaning: 'limit of forwarding a command result to response_url',
    consequence: 'the CPO waits for it; it is not retried',
  }),
  HUB_DELIVERY_TIMEOUT_MS: setting(milliseconds, '15000', {
    meaning: 'limit of one delivery attempt',
    consequence: 'a slow receiver holds its lane this long',
  }),
  HUB_RETRY_SCHEDULE_S: setting(schedule, '1,2,5,15,30,60,120,300,600,1200,1800,3600', {
    meaning: 'waits before attempt 2, 3 and so on; the last one repeats',
    consequence: 'shorter, a partner in trouble is called more often',
  }),
  HUB_RETRY_JITTER: setting(number('share', 0, 1), '0.2', {
    meaning: 'share of each wait by which it varies both ways; a circuit is open for up to half of it less',
    consequence: 'at 0, deliveries that failed together come back together',
  }),
  HUB_RETRY_WINDOW_H: setting(span('h', 87_600), '24', {
    meaning: 'age at which a delivery expires',
    consequence: 'an outage longer than this needs a re-drive',
  }),
  HUB_RETRY_WINDOW_CDR_H: setting(span('h', 87_600), '72', {
    meaning: 'age at which the delivery of a CDR expires',
    consequence: 'an outage longer than this needs a re-drive',
  }),
  HUB_DELIVERY_CONCURRENCY: setting(whole('requests', 1, 1024), '256', {
    meaning: 'deliveries in flight per receiving partner at most; below it the limit follows the pace of the partner',
    consequence: 'a partner that answers in 200 ms gets at most 5 times as many a second',
  }),
  HUB_CIRCUIT_FAILURES: setting(whole('failures', 1, 1000), '5', {
    meaning: 'failures in a row that open a circuit; those of deliveries must be of three objects',
    consequence: 'lower, short troubles shut a partner out',
  }),
  HUB_CIRCUIT_OPEN_MS: setting(milliseconds, '5000', {
    meaning: 'how long a circuit stays open at first; it doubles up to 60 s',
    consequence: 'authorize and commands fail at once meanwhile',
  }),
  HUB_COMPATIBILITY_WINDOW_H: setting(span('h', 87_600), '24', {
    meaning: 'how old an accepted START_SESSION may be to still decide the eMSP of a session (CPOs in COMPATIBILITY)',
    consequence: 'longer finds the eMSP of older sessions, and of re-used cards wrongly',
  }),
  HUB_PROBE_INTERVAL_S: setting(span('s', timerSMax), '60', {
    meaning: 'how often a silent partner is probed',
    consequence: 'shorter, an outage shows earlier, for more requests',
  }),
  HUB_OFFLINE_AFTER_S: setting(number('s', 0, timerSMax), '60', {
    meaning: 'how long probes fail before the parties become OFFLINE',
    consequence: 'shorter, hub client info flickers',
  }),
  HUB_ORPHAN_GRACE_S: setting(number('s', 0, timerSMax), '120', {
    meaning: 'time from an accepted STOP_SESSION until its missing COMPLETED is a case',
    source: 'requirement',
    consequence: 'shorter, slow CPOs show up as cases',
  }),
  HUB_ORPHAN_SWEEP_S: setting(span('s', timerSMax), '300', {
    meaning: 'how often cases are opened',
    source: 'requirement',
    consequence: 'a case opens up to this much after its grace',
  }),
  HUB_ORPHAN_CDR_AFTER_S: setting(number('s', 0, timerSMax), '0', {
    meaning: 'time from COMPLETED until a missing CDR is a case; 0 = off',
    consequence: 'CPOs that bill in batches need more than their batch interval',
  }),
  HUB_SILENT_AFTER_H: setting(number('h', 0, 8_760), '12', {
    meaning: 'time without a push after which a connected CPO counts as silent; 0 = never',
    consequence: 'operators see a silent CPO under attention; too short, and quiet nights look like failures',
  }),
  HUB_RATE_LISTS_PER_MIN: setting(perMinute, '200', {
    meaning: 'list requests per party and list endpoint',
    source: 'requirement',
    consequence: 'beyond it the hub answers 429',
  }),
  HUB_RATE_COMMANDS_PER_MIN: setting(perMinute, '50', {
    meaning: 'commands per party',
    source: 'requirement',
    consequence: 'beyond it the hub answers 429',
  }),
  HUB_RATE_EXCHANGES_PER_MIN: setting(perMinute, '10', {
    meaning: 'POST and PUT of credentials per partner',
    consequence: 'beyond it the hub answers 429',
  }),
  HUB_RATE_OTHER_PER_MIN: setting(perMinute, '6000', {
    meaning: 'all other requests per party; each 64 KiB that one sends, reads or changes counts as one more',
    consequence: 'beyond it the hub answers 429',
  }),
  HUB_QUOTA_MB_PER_DAY: setting(whole('MB', 0, 1_000_000_000), '10000', {
    meaning:
      'what a party may have stored within a day (UTC): its pushes and the objects that they change; 0 = no limit',
    consequence: 'beyond it the pushes of that party get 429 until the day ends; at 80 % the hub warns',
  }),
  HUB_OBJECTS_PER_PARTY: setting(whole('objects', 0, 1_000_000_000), null, {
    meaning: 'objects that a party may have stored; 0 = no limit',
    consequence:
      'beyond it new objects of that party get 429; at 80 % the hub warns; without a limit one party can fill the heap',
    otherwise: 'a quarter of the heap limit, at 256 bytes an object',
  }),
  HUB_PAGE_DEFAULT: setting(whole('objects', 1, 100_000), '100', {
    meaning: 'page size of lists without limit; never above the maximum',
    consequence: 'a client without limit gets pages of this size',
  }),
  HUB_PAGE_MAX: setting(whole('objects', 1, 100_000), '1000', {
    meaning: 'largest page of a list',
    consequence: 'a page is held in memory as a whole',
  }),
  HUB_CONFIRM_HOST_CHANGE: setting(flag, 'false', {
    meaning: 'true = a PUT of credentials that changes the host of url waits for an operator',
    consequence: 'with false, a leaked hub token lets its holder take a partner over until an operator notices',
  }),
  HUB_INITIAL_TOKEN_DAYS: setting(number('days', 0, 36_500), '14', {
    meaning: 'how long an initial token can be used to register; 0 = for ever',
    consequence: 'longer, a token that leaks from a mail can be used for longer; shorter, partners need a second one',
  }),
  HUB_EVENTS_KEEP_DAYS: setting(number('days', 0, 36_500), '90', {
    meaning: 'how long the event log is kept, and with it how each delivery went; 0 = for ever',
    consequence: 'what is older can be neither traced nor replayed; with 0 the store grows without bound',
  }),
  HUB_VERIFY_AT_START: setting(oneOf('all', 'recent'), 'recent', {
    meaning:
      'what a start of the embedded store verifies before it serves: the end of the log and the rest later, or all',
    consequence: 'with all a large store is ready later, by some 6 s of CPU for each million events',
  }),
  HUB_AUDIT_KEEP_DAYS: setting(number('days', 0, 36_500), '365', {
    meaning: 'how long entries of the audit log are kept; 0 = for ever',
    consequence: 'older acts of operators are no longer known',
  }),
  HUB_SESSIONS_KEEP_DAYS: setting(number('days', 0, 36_500), '0', {
    meaning: 'how long a session is kept after its last update; 0 = for ever',
    consequence:
      'partners can no longer read an older session, and its CDR finds no session; with 0 the store grows without bound',
  }),
  HUB_CDRS_KEEP_DAYS: setting(number('days', 0, 36_500), '0', {
    meaning: 'how long a CDR is kept after its last update; 0 = for ever',
    consequence: 'partners can no longer read an older CDR, and one that is pushed again is forwarded again',
  }),
  HUB_TOKENS_KEEP_DAYS: setting(number('days', 0, 36_500), '0', {
    meaning: 'how long a token is kept after its last update, valid or not; 0 = for ever',
    consequence: 'an eMSP must update its tokens within that time, or CPOs can no longer read them',
  }),
  ...notify,
  ...oidc,
  HUB_LOG_LEVEL: setting(oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'), 'info', {
    meaning: 'least level that is logged',
    consequence: 'above info there is no line per request',
  }),
};

export type SettingName = keyof typeof settings;

type KeyOf<Name extends SettingName> = Name extends `HUB_${infer Rest}` ? CamelCase<Rest> : never;

/** Parsed settings, keyed by the camelCase of their name without `HUB_`. */
export type SettingValues = {
  [Name in SettingName as KeyOf<Name>]: (typeof settings)[Name] extends Setting<infer T> ? T : never;
};

export const settingNames = Object.keys(settings) as SettingName[];

/** `HUB_DATA_DIR` → `dataDir`; the flag below: `data-dir`. */
export function keyOfSetting(name: SettingName): string {
  return flagOfSetting(name).replace(/-(.)/g, (_, letter: string) => letter.toUpperCase());
}

export function flagOfSetting(name: SettingName): string {
  return name.slice('HUB_'.length).toLowerCase().replaceAll('_', '-');
}
