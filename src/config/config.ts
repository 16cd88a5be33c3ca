/**
 * Reads environment variables and flags into one validated `Config`. `config/settings.ts` describes each setting.
 *
 * CONFIG-1  A flag overrides its environment variable; an empty variable counts as unset.
 * CONFIG-2  An invalid value stops the start with one line: the setting, its value, and what is expected. Secrets are
 *     never shown.
 * CONFIG-3  Unknown `HUB_...` variables stop the start, too, because a misspelt variable would silently set nothing.
 *     The line names all of them, each with the most similar setting.
 * CONFIG-4  A secret that is a placeholder of an example, or the same as another secret of the hub, stops the start.
 * CONFIG-5  Plain HTTP on an address that is not loopback stops the start, unless the public URL is https (a proxy
 *     speaks TLS) or `HUB_INSECURE_HTTP` is true. [D92]
 * CONFIG-6  A plain `HUB_NODE_URL` beyond loopback stops the start, unless `HUB_NODE_INSECURE` is true.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { getHeapStatistics } from 'node:v8';
import type { HubSettings } from '../hub/ports/ports.ts';
import { bareHost } from '../kit/url.ts';
import { loopbackNetworks } from './setting-kinds.ts';
import {
  flagOfSetting,
  keyOfSetting,
  type SettingName,
  type SettingValues,
  settingNames,
  settings,
} from './settings.ts';

export interface Tls {
  /** PEM texts. */
  readonly cert: string;
  readonly key: string;
}

export interface Listener {
  readonly host: string;
  readonly port: number;
}

/** Parsed settings, and values that are derived from several of them. */
export interface Config
  extends Readonly<
    Omit<
      SettingValues,
      | ('tlsCert' | 'tlsKey' | 'egressAllow' | 'dataDir' | 'pageDefault' | 'adminHost' | 'adminPort')
      | ('nodeHost' | 'nodePort' | 'objectsPerParty')
    >
  > {
  /** Absolute path. */
  readonly dataDir: string;
  readonly tls: Tls | null;
  /** The listener of the operators; null: they share that of the partners. */
  readonly operators: Listener | null;
  /** The listener of other nodes; null: they come in where partners do. */
  readonly nodes: Listener | null;
  /** Networks in CIDR form. */
  readonly egressAllow: readonly string[];
  /** Never above `pageMax`. */
  readonly pageDefault: number;
  /** 0: no limit. */
  readonly objectsPerParty: number;
}

export interface ConfigSource {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Keyed by the flag in camelCase, as commander provides them: `{ dataDir: './data' }`. */
  readonly flags: Readonly<Record<string, string | undefined>>;
}

export class ConfigError extends Error {
  override readonly name = 'ConfigError';
}

/** The usual ports of the listeners of operators and nodes. */
const [operatorsPort, nodesPort] = [8081, 8082];

/** What the order of lists takes of the heap for an object, bytes. */
const heapPerObject = 256;
/** Objects of one party by which a quarter of the heap limit is full. */
const objectsBorne = Math.floor(getHeapStatistics().heap_size_limit / 4 / heapPerObject);

/** Variables of the client commands, which may be set in the same environment. */
const ofCommands = ['HUB_URL'];

/** Throws `ConfigError`. Reads the TLS files, nothing else. */
export function loadConfig(source: ConfigSource): Config {
  refuseUnknown(source.env);
  const texts = new Map(settingNames.map((name) => [name, textOf(name, source)]));
  const parsed: Record<string, unknown> = {};
  for (const [name, text] of texts) parsed[keyOfSetting(name)] = parse(name, text);
  const { tlsCert, tlsKey, egressAllow, pageDefault, objectsPerParty, ...others } = parsed as SettingValues;
  const { adminHost, adminPort, nodeHost, nodePort, ...values } = others;
  const config = {
    ...values,
    dataDir: resolve(values.dataDir),
    tls: tlsOf(tlsCert, tlsKey),
    operators: listenerOf(adminHost, adminPort, operatorsPort),
    nodes: listenerOf(nodeHost, nodePort, nodesPort),
    egressAllow: egressAllow ?? (isLoopback(values) ? loopbackNetworks : []),
    pageDefault: Math.min(pageDefault, values.pageMax),
    objectsPerParty: objectsPerParty ?? objectsBorne,
  };
  refuseWeak(texts);
  refusePlainHttp(config);
  if (config.nodes !== null && config.nodeUrl === null) {
    throw refusal('HUB_NODE_URL', 'not set', 'a value, because HUB_NODE_PORT or HUB_NODE_HOST is set');
  }
  mustBeWhole(config);
  mustFitProvider(config);
  if (config.store !== 'level') mustFitDatabase(config);
  else if (config.nodeUrl !== null) throw refusal('HUB_NODE_URL', 'set', 'none, because HUB_STORE is level');
  return config;
}

/** Secrets of the hub, each of which must be its own; `HUB_STORE` contains a password of somebody else. */
const ownSecrets = [
  'HUB_ADMIN_TOKEN',
  'HUB_VIEWER_TOKEN',
  'HUB_SECRET_KEY',
  'HUB_CLUSTER_SECRET',
  'HUB_CLUSTER_SECRET_PREVIOUS',
] as const;
/** What examples and templates have in the place of a secret. */
const placeholder = /change.?(me|it|this)|replace.?(me|it|this|with)|placeholder|example|^your\W|^<.*>$/i;

/** [CONFIG-4] */
function refuseWeak(texts: ReadonlyMap<SettingName, string | null>): void {
  const owners = new Map<string, SettingName>();
  for (const name of ownSecrets) {
    const secret = texts.get(name)?.trim();
    if (!secret) continue;
    if (placeholder.test(secret)) throw refusal(name, 'a placeholder', `a secret of your own, ${howToMake}`);
    const owner = owners.get(secret);
    if (owner) throw refusal(name, `the same as ${owner}`, `a secret of its own, ${howToMake}`);
    owners.set(secret, name);
  }
}

const howToMake = 'for example from openssl rand -hex 32';

function listenerOf(host: string | null, port: number | null, usualPort: number): Listener | null {
  if (host === null && port === null) return null;
  return { host: host ?? '127.0.0.1', port: port ?? usualPort };
}

/** [CONFIG-5] */
function refusePlainHttp(config: Config): void {
  const [open] = plainBeyondLoopback(config);
  if (open === undefined || config.insecureHttp || config.publicUrl?.startsWith('https:')) return;
  throw refusal(
    'HUB_INSECURE_HTTP',
    '"false"',
    `true, or HUB_TLS_CERT and HUB_TLS_KEY, or a HUB_PUBLIC_URL with https, because ${open} is not loopback and every ` +
      'token would cross the network readable',
  );
}

/** The addresses on which the hub itself speaks plain HTTP to other machines. */
export function plainBeyondLoopback({ tls, host, operators }: Pick<Config, 'tls' | 'host' | 'operators'>): string[] {
  const hosts = tls === null ? [host, ...(operators ? [operators.host] : [])] : [];
  return hosts.filter((one) => !isLoopbackHost(one));
}

/** Mail needs its server, its sender and who gets it; a provider needs to be known, and roles. */
function mustBeWhole(config: Config): void {
  const { smtpUrl, mailFrom, mailTo, oidcIssuer, oidcClientId, oidcRoles } = config;
  const groups = [
    { HUB_SMTP_URL: smtpUrl, HUB_MAIL_FROM: mailFrom, HUB_MAIL_TO: mailTo },
    { HUB_OIDC_ISSUER: oidcIssuer, HUB_OIDC_CLIENT_ID: oidcClientId, HUB_OIDC_ROLES: oidcRoles },
  ];
  for (const values of groups.map((group) => Object.entries(group) as [SettingName, unknown][])) {
    const [known, missing] = [values.find(([, value]) => value), values.find(([, value]) => !value)];
    if (known && missing) throw refusal(missing[0], 'not set', `a value, because ${known[0]} is set`);
  }
}

/** The way to the provider and back. */
function mustFitProvider({ oidcIssuer, oidcRedirectUrl, operators }: Config): void {
  if (oidcIssuer === null) return;
  const issuer = new URL(oidcIssuer);
  if (issuer.protocol === 'http:' && !isLoopbackHost(bareHost(issuer)))
    throw refusal('HUB_OIDC_ISSUER', JSON.stringify(oidcIssuer), 'an https URL, or one of loopback');
  if (operators === null || oidcRedirectUrl !== null) return;
  throw refusal('HUB_OIDC_REDIRECT_URL', 'not set', 'a value, because operators have a listener of their own');
}

/** With a database, requires the settings that several nodes must share, since a single node cannot generate them. */
function mustFitDatabase(config: Config): void {
  const needs = (name: SettingName, value: unknown, why: string) => {
    if (value === null) throw refusal(name, 'not set', `a value, the same on all nodes, because ${why}`);
  };
  needs('HUB_ADMIN_TOKEN', config.adminToken, 'HUB_STORE is a database');
  needs('HUB_SECRET_KEY', config.secretKey, 'HUB_STORE is a database');
  if (config.nodeUrl === null) return;
  needs('HUB_CLUSTER_SECRET', config.clusterSecret, 'HUB_NODE_URL is set');
  needs('HUB_PUBLIC_URL', config.publicUrl, 'HUB_NODE_URL is set');
  // [CONFIG-6]
  const url = new URL(config.nodeUrl);
  if (url.protocol === 'https:' || config.nodeInsecure || isLoopbackHost(bareHost(url))) return;
  throw refusal(
    'HUB_NODE_INSECURE',
    '"false"',
    `true, or an https HUB_NODE_URL, because HUB_NODE_URL is ${config.nodeUrl}: plain HTTP beyond loopback`,
  );
}

/** The settings of the hub itself. `port` is the actual port, since the configured one may be 0. */
export function hubSettings(config: Config, port: number): HubSettings {
  return { ...config, publicUrl: config.publicUrl ?? listenUrl(config, port) };
}

/** The URL on which the hub listens, e.g. `http://127.0.0.1:8080`. */
export function listenUrl({ host, tls }: Pick<Config, 'host' | 'tls'>, port: number): string {
  return `${tls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** [CONFIG-3] */
function refuseUnknown(env: ConfigSource['env']): void {
  const known: readonly string[] = [...settingNames, ...ofCommands];
  const isUnknown = (name: string) => name.startsWith('HUB_') && !known.includes(name) && env[name]?.trim();
  const unknown = Object.keys(env).filter(isUnknown);
  if (unknown.length === 0) return;
  const named = unknown.map((name) => {
    const meant = nearestSetting(name);
    return meant ? `${name} (did you mean ${meant}?)` : name;
  });
  const are = unknown.length > 1 ? 'are not settings' : 'is not a setting';
  throw new ConfigError(`${named.join(', ')} ${are}: ocpi-hub serve --help lists all of them`);
}

/** The setting that a misspelt name most likely means: at most 3 edits away, fewer for short names. */
function nearestSetting(name: string): SettingName | null {
  const editsMax = Math.min(3, (name.length - 'HUB_'.length) / 3);
  const near = settingNames.map((setting) => ({ setting, edits: editsBetween(name, setting) }));
  const [nearest] = near.filter(({ edits }) => edits <= editsMax).sort((a, b) => a.edits - b.edits);
  return nearest?.setting ?? null;
}

/** Levenshtein distance. */
function editsBetween(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, char] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries()) {
      const [left = 0, above = 0, before = 0] = [next[j], row[j + 1], row[j]];
      next.push(Math.min(left + 1, above + 1, before + (char === other ? 0 : 1)));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

function textOf(name: SettingName, { env, flags }: ConfigSource): string | null {
  return flags[keyOfSetting(name)] ?? (env[name]?.trim() || settings[name].fallback);
}

function parse(name: SettingName, text: string | null): unknown {
  if (text === null) return null;
  const { schema, expected, secret } = settings[name];
  const result = schema.safeParse(text.trim());
  if (result.success) return result.data;
  throw refusal(name, secret ? 'not usable' : JSON.stringify(text), expected);
}

function refusal(name: SettingName, was: string, expected: string): ConfigError {
  return new ConfigError(settingIs(name, was, expected));
}

/** How every message about a setting that cannot be used reads. */
export function settingIs(name: SettingName, was: string, expected: string): string {
  return `${name} (--${flagOfSetting(name)}) is ${was}: expected ${expected}`;
}

/**
 * Whether partners reach the hub only from its own machine. The public URL takes precedence over the host, because a
 * proxy on that machine may accept requests from elsewhere.
 */
function isLoopback({ publicUrl, host }: Pick<Config, 'publicUrl' | 'host'>): boolean {
  return isLoopbackHost(publicUrl === null ? host : bareHost(new URL(publicUrl)));
}

function isLoopbackHost(reached: string): boolean {
  return reached === 'localhost' || reached === '::1' || /^127(\.\d{1,3}){3}$/.test(reached);
}

function tlsOf(certPath: string | null, keyPath: string | null): Tls | null {
  if (certPath === null && keyPath === null) return null;
  if (certPath === null) throw refusal('HUB_TLS_CERT', 'not set', 'a file, because HUB_TLS_KEY is set');
  if (keyPath === null) throw refusal('HUB_TLS_KEY', 'not set', 'a file, because HUB_TLS_CERT is set');
  const tls = { cert: readPem('HUB_TLS_CERT', certPath), key: readPem('HUB_TLS_KEY', keyPath) };
  const usable = (name: SettingName, path: string, options: Partial<Tls>, expected: string) => {
    try {
      createSecureContext(options);
    } catch {
      throw refusal(name, JSON.stringify(path), expected);
    }
  };
  usable('HUB_TLS_CERT', certPath, { cert: tls.cert }, 'a file with a certificate in PEM form');
  usable('HUB_TLS_KEY', keyPath, tls, 'a file with the private key of HUB_TLS_CERT in PEM form, without a passphrase');
  return tls;
}

function readPem(name: SettingName, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw refusal(name, JSON.stringify(path), `a file that can be read (${code})`);
  }
}
