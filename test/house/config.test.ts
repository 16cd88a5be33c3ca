/**
 * Settings: each has its documented name and default, a flag overrides its variable, and each bad value gets one clear
 * line.
 */
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import { command as serveCommand } from '../../src/cli/serve.ts';
import { type Config, ConfigError, hubSettings, listenUrl, loadConfig } from '../../src/config/config.ts';
import { flagOfSetting, keyOfSetting, type SettingName, settingNames } from '../../src/config/settings.ts';
import { isAtLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { testCert, testKey } from '../support/tls.ts';

const fromEnv = (env: Record<string, string>): Config => loadConfig({ env, flags: {} });

/** Variables and defaults that the documents promise to operators. */
const promised: Record<SettingName, unknown> = {
  HUB_HOST: '127.0.0.1',
  HUB_PORT: 8080,
  HUB_ADMIN_HOST: undefined,
  HUB_ADMIN_PORT: undefined,
  HUB_PUBLIC_URL: null,
  HUB_INSECURE_HTTP: false,
  HUB_DATA_DIR: resolve('./data'),
  HUB_STORE: 'level',
  HUB_NODE_URL: null,
  HUB_NODE_HOST: undefined,
  HUB_NODE_PORT: undefined,
  HUB_NODE_INSECURE: false,
  HUB_CLUSTER_SECRET: null,
  HUB_CLUSTER_SECRET_PREVIOUS: null,
  HUB_LEASE_S: 3,
  HUB_COUNTRY_CODE: 'XX',
  HUB_PARTY_ID: 'HUB',
  HUB_NAME: 'OCPI hub',
  HUB_ADMIN_TOKEN: null,
  HUB_VIEWER_TOKEN: null,
  HUB_OPERATORS_FILE: null,
  HUB_REQUIRE_REASON: false,
  HUB_SECRET_KEY: null,
  HUB_SECRET_KEY_PREVIOUS: null,
  HUB_BACKUP_PUBLIC_KEY: null,
  HUB_TLS_CERT: undefined,
  HUB_TLS_KEY: undefined,
  HUB_EGRESS_ALLOW: ['127.0.0.0/8', '::1/128'],
  HUB_TRUSTED_PROXIES: [],
  HUB_CONNECTIONS_MAX: null,
  HUB_RATE_UNAUTHENTICATED_PER_S: 100,
  HUB_RATE_FAILED_TOKENS_PER_S: 5,
  HUB_DNS_SERVERS: null,
  HUB_COMMAND_TIMEOUT_MS: 20_000,
  HUB_COMMAND_RESULT_WINDOW_S: 30,
  HUB_AUTHORIZE_TIMEOUT_MS: 10_000,
  HUB_CALLBACK_TIMEOUT_MS: 10_000,
  HUB_DELIVERY_TIMEOUT_MS: 15_000,
  HUB_RETRY_SCHEDULE_S: [1, 2, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600],
  HUB_RETRY_JITTER: 0.2,
  HUB_RETRY_WINDOW_H: 24,
  HUB_RETRY_WINDOW_CDR_H: 72,
  HUB_DELIVERY_CONCURRENCY: 256,
  HUB_CIRCUIT_FAILURES: 5,
  HUB_CIRCUIT_OPEN_MS: 5000,
  HUB_COMPATIBILITY_WINDOW_H: 24,
  HUB_PROBE_INTERVAL_S: 60,
  HUB_OFFLINE_AFTER_S: 60,
  HUB_ORPHAN_GRACE_S: 120,
  HUB_ORPHAN_SWEEP_S: 300,
  HUB_ORPHAN_CDR_AFTER_S: 0,
  HUB_SILENT_AFTER_H: 12,
  HUB_RATE_LISTS_PER_MIN: 200,
  HUB_RATE_COMMANDS_PER_MIN: 50,
  HUB_RATE_EXCHANGES_PER_MIN: 10,
  HUB_RATE_OTHER_PER_MIN: 6000,
  HUB_QUOTA_MB_PER_DAY: 10000,
  HUB_OBJECTS_PER_PARTY: Math.floor(getHeapStatistics().heap_size_limit / 4 / 256),
  HUB_PAGE_DEFAULT: 100,
  HUB_PAGE_MAX: 1000,
  HUB_CONFIRM_HOST_CHANGE: false,
  HUB_INITIAL_TOKEN_DAYS: 14,
  HUB_EVENTS_KEEP_DAYS: 90,
  HUB_VERIFY_AT_START: 'recent',
  HUB_AUDIT_KEEP_DAYS: 365,
  HUB_SESSIONS_KEEP_DAYS: 0,
  HUB_CDRS_KEEP_DAYS: 0,
  HUB_TOKENS_KEEP_DAYS: 0,
  HUB_NOTIFY_BACKLOG_S: 3600,
  HUB_NOTIFY_DISK_PERCENT: 10,
  HUB_SMTP_URL: null,
  HUB_MAIL_FROM: null,
  HUB_MAIL_TO: null,
  HUB_OIDC_ISSUER: null,
  HUB_OIDC_CLIENT_ID: null,
  HUB_OIDC_CLIENT_SECRET: null,
  HUB_OIDC_REDIRECT_URL: null,
  HUB_OIDC_ROLES: null,
  HUB_OIDC_ROLE_CLAIM: 'groups',
  HUB_OIDC_NAME_CLAIM: 'email',
  HUB_OIDC_SESSION_H: 8,
  HUB_LOG_LEVEL: 'info',
};

t.test('without any setting the hub runs with the documented defaults', async (t) => {
  t.strictSame(settingNames, Object.keys(promised), 'the names are the documented ones');
  const config = fromEnv({}) as unknown as Record<string, unknown>;
  for (const [name, value] of Object.entries(promised)) {
    t.strictSame(config[keyOfSetting(name as SettingName)], value, name);
  }
  t.equal(config.tls, null);
});

t.test('a flag overrides its variable, and an empty variable counts as unset', async (t) => {
  t.equal(fromEnv({ HUB_PORT: '9000' }).port, 9000);
  t.equal(loadConfig({ env: { HUB_PORT: '9000' }, flags: { port: '9001' } }).port, 9001);
  t.equal(fromEnv({ HUB_PORT: '', HUB_ADMIN_TOKEN: ' ' }).port, 8080);
  t.equal(fromEnv({ HUB_ADMIN_TOKEN: ' ' }).adminToken, null);
});

t.test('seconds, hours, days, shares and schedules accept decimals', async (t) => {
  const decimals = settingNames.filter(
    (name) => /_(S|H|DAYS|JITTER)$/.test(name) && !['HUB_RETRY_SCHEDULE_S', 'HUB_LEASE_S'].includes(name),
  );
  t.equal(decimals.length, 21);
  t.equal(fromEnv({ HUB_LEASE_S: '3.5' }).leaseS, 3.5);
  for (const name of decimals) {
    const config = fromEnv({ [name]: '0.25' }) as unknown as Record<string, unknown>;
    t.equal(config[keyOfSetting(name)], 0.25, name);
  }
  t.strictSame(fromEnv({ HUB_RETRY_SCHEDULE_S: '0.05, .5,2' }).retryScheduleS, [0.05, 0.5, 2]);
});

t.test('an invalid value is refused with the setting, the value and the expected form', async (t) => {
  const bad: [SettingName, string, string][] = [
    ['HUB_HOST', 'a b', 'an IP address or a host name'],
    ['HUB_PORT', 'abc', 'a whole number from 0 to 65535'],
    ['HUB_PORT', '65536', 'a whole number from 0 to 65535'],
    ['HUB_PORT', '-1', 'a whole number'],
    ['HUB_PORT', '80.5', 'a whole number'],
    ['HUB_PORT', '0x50', 'a whole number'],
    ['HUB_PUBLIC_URL', 'hub.example', 'an http or https URL'],
    ['HUB_PUBLIC_URL', 'ftp://hub.example', 'an http or https URL'],
    ['HUB_PUBLIC_URL', 'https://hub.example/?x=1', 'without user, query or fragment'],
    ['HUB_INSECURE_HTTP', 'yes', 'true or false'],
    ['HUB_NODE_URL', 'node-1:8080', 'an http or https URL'],
    ['HUB_LEASE_S', '2.9', 'a number from 3 to 300'],
    ['HUB_COUNTRY_CODE', 'NLD', 'two letters'],
    ['HUB_PARTY_ID', 'HUBS', 'one to three letters or digits'],
    ['HUB_EGRESS_ALLOW', '10.0.0.0/33', 'networks such as'],
    ['HUB_EGRESS_ALLOW', '10.0.0.0/8,office', 'networks such as'],
    ['HUB_EGRESS_ALLOW', '10.1', 'networks such as'],
    ['HUB_TRUSTED_PROXIES', 'proxy.example', 'networks such as'],
    ['HUB_CONNECTIONS_MAX', '15', 'a whole number from 16'],
    ['HUB_COMMAND_TIMEOUT_MS', '0', 'a whole number from 1'],
    ['HUB_COMMAND_TIMEOUT_MS', '2147483648', 'to 2147483647'],
    ['HUB_RETRY_SCHEDULE_S', '1,,2', 'a comma-separated list of numbers'],
    ['HUB_RETRY_SCHEDULE_S', '1,x', 'a comma-separated list of numbers'],
    ['HUB_RETRY_SCHEDULE_S', '0', 'a comma-separated list of numbers above 0'],
    ['HUB_RETRY_JITTER', '1.1', 'a number from 0 to 1'],
    ['HUB_RETRY_WINDOW_H', '0', 'a number above 0'],
    ['HUB_RETRY_WINDOW_H', '1e3', 'a number above 0'],
    ['HUB_DELIVERY_CONCURRENCY', '0', 'a whole number from 1'],
    ['HUB_ORPHAN_GRACE_S', 'NaN', 'a number from 0'],
    ['HUB_RATE_LISTS_PER_MIN', '0', 'a whole number from 1'],
    ['HUB_LOG_LEVEL', 'loud', 'one of trace, debug, info'],
    ['HUB_TLS_CERT', '/nowhere/cert.pem', 'a file'],
  ];
  for (const [name, value, expected] of bad) {
    const env = { [name]: value, ...(name === 'HUB_TLS_CERT' ? { HUB_TLS_KEY: value } : {}) };
    const { message } = refused(t, env);
    t.match(message, `${name} (--${flagOfSetting(name)}) is ${JSON.stringify(value)}: expected `, `${name}=${value}`);
    t.match(message, expected, `${name}=${value} says what is expected`);
    t.notMatch(message, '\n', 'in one line');
  }
});

t.test('an invalid secret is named and never shown', async (t) => {
  for (const name of [
    ...(['HUB_ADMIN_TOKEN', 'HUB_VIEWER_TOKEN', 'HUB_SECRET_KEY', 'HUB_SECRET_KEY_PREVIOUS'] as const),
    ...(['HUB_STORE', 'HUB_CLUSTER_SECRET', 'HUB_CLUSTER_SECRET_PREVIOUS'] as const),
  ]) {
    const { message } = refused(t, { [name]: 'my secret' });
    t.match(message, `${name} (--${flagOfSetting(name)}) is not usable: expected `);
    t.notMatch(message, 'my secret');
  }
});

t.test('a placeholder or a secret that is used twice is refused, and not shown', async (t) => {
  const token = 'x'.repeat(32);
  const names = ['HUB_ADMIN_TOKEN', 'HUB_VIEWER_TOKEN', 'HUB_SECRET_KEY', 'HUB_CLUSTER_SECRET'] as const;
  for (const [at, name] of names.entries()) {
    for (const other of names.slice(at + 1)) {
      const { message } = refused(t, { [name]: token, [other]: token });
      t.match(message, `${other} (--${flagOfSetting(other)}) is the same as ${name}: expected a secret of its own`);
      t.notMatch(message, token);
    }
    for (const example of ['change-me-change-me-change-me-32', 'replace-with-your-own-characters', `<${token}>`]) {
      const { message } = refused(t, { [name]: example });
      t.match(message, `${name} (--${flagOfSetting(name)}) is a placeholder: expected a secret of your own`);
      t.notMatch(message, example);
    }
  }
});

t.test('plain HTTP beyond loopback needs an https public URL or an explicit setting [D92]', async (t) => {
  const pems = t.testdir({ 'cert.pem': testCert, 'key.pem': testKey });
  for (const host of ['0.0.0.0', '::', '10.0.0.1', 'hub.internal']) {
    for (const url of [{}, { HUB_PUBLIC_URL: 'http://hub.internal' }, { HUB_PUBLIC_URL: 'http://127.0.0.1:8080' }]) {
      const { message } = refused(t, { HUB_HOST: host, ...url });
      t.match(message, 'HUB_INSECURE_HTTP (--insecure-http) is "false": expected true, or HUB_TLS_CERT and');
      t.match(message, `because ${host} is not loopback`);
      t.equal(fromEnv({ HUB_HOST: host, ...url, HUB_INSECURE_HTTP: 'true' }).host, host);
    }
    t.equal(fromEnv({ HUB_HOST: host, HUB_PUBLIC_URL: 'https://hub.internal' }).host, host, 'a proxy speaks TLS');
    const tls = { HUB_TLS_CERT: join(pems, 'cert.pem'), HUB_TLS_KEY: join(pems, 'key.pem') };
    t.equal(fromEnv({ HUB_HOST: host, ...tls }).host, host, 'the hub speaks TLS');
  }
  for (const host of ['127.0.0.1', '127.1.2.3', 'localhost', '::1']) t.equal(fromEnv({ HUB_HOST: host }).host, host);
  t.match(refused(t, { HUB_ADMIN_HOST: '10.0.0.1' }).message, 'because 10.0.0.1 is not loopback');
});

t.test('sign-in by a provider needs a client, roles, TLS beyond loopback and a redirect URL', async (t) => {
  const whole = {
    HUB_OIDC_ISSUER: 'https://login.example/a/',
    HUB_OIDC_CLIENT_ID: 'hub',
    HUB_OIDC_ROLES: 'a b=admin, c=viewer',
  };
  const { oidcIssuer, oidcRoles } = fromEnv(whole);
  t.equal(oidcIssuer, whole.HUB_OIDC_ISSUER, 'as it stands');
  t.strictSame(
    [...(oidcRoles ?? [])],
    [
      ['a b', 'admin'],
      ['c', 'viewer'],
    ],
  );
  t.equal(fromEnv({ ...whole, HUB_OIDC_ISSUER: 'http://127.0.0.1:9' }).oidcIssuer, 'http://127.0.0.1:9');
  const cases: [Record<string, string>, string][] = [
    [
      { HUB_OIDC_ISSUER: '' },
      'HUB_OIDC_ISSUER (--oidc-issuer) is not set: expected a value, because HUB_OIDC_CLIENT_ID',
    ],
    [{ HUB_OIDC_CLIENT_ID: '' }, 'HUB_OIDC_CLIENT_ID (--oidc-client-id) is not set: expected a value, because'],
    [{ HUB_OIDC_ROLES: '' }, 'HUB_OIDC_ROLES (--oidc-roles) is not set: expected a value, because HUB_OIDC_ISSUER'],
    [
      { HUB_OIDC_ROLES: 'a=owner' },
      'HUB_OIDC_ROLES (--oidc-roles) is "a=owner": expected a comma-separated list of values',
    ],
    [{ HUB_OIDC_ROLES: 'a=admin,' }, 'HUB_OIDC_ROLES (--oidc-roles) is "a=admin,": expected'],
    [
      { HUB_OIDC_ISSUER: 'http://login.example' },
      'HUB_OIDC_ISSUER (--oidc-issuer) is "http://login.example": expected an https',
    ],
    [
      { HUB_ADMIN_PORT: '8081' },
      'HUB_OIDC_REDIRECT_URL (--oidc-redirect-url) is not set: expected a value, because operators',
    ],
  ];
  for (const [changed, words] of cases) t.match(refused(t, { ...whole, ...changed }).message, words);
});

t.test('an unknown variable is refused with the nearest name, and its value is not shown [D93]', async (t) => {
  for (const [name, nearest] of [
    ['HUB_ADMIN_TOKN', 'HUB_ADMIN_TOKEN'],
    ['HUB_DATADIR', 'HUB_DATA_DIR'],
    ['HUB_EVENT_KEEP_DAYS', 'HUB_EVENTS_KEEP_DAYS'],
    ['HUB_PRT', 'HUB_PORT'],
  ] as const) {
    const { message } = refused(t, { [name]: 'my secret' });
    t.match(message, `${name} (did you mean ${nearest}?) is not a setting: ocpi-hub serve --help lists all of them`);
    t.notMatch(message, 'my secret');
    t.notMatch(message, '\n', 'in one line');
  }
  for (const name of ['HUB_', 'HUB_TOKEN', 'HUB_URI', 'HUB_SECONDARY_REGION']) {
    const { message } = refused(t, { [name]: 'my secret' });
    t.equal(message, `${name} is not a setting: ocpi-hub serve --help lists all of them`, 'none is near');
  }
  t.equal(
    refused(t, { HUB_TOKEN: 'my secret', HUB_PORT: '1', HUB_DATADIR: '/data' }).message,
    'HUB_TOKEN, HUB_DATADIR (did you mean HUB_DATA_DIR?) are not settings: ocpi-hub serve --help lists all of them',
  );
  t.equal(fromEnv({ HUB_URL: 'http://hub.example', HUBBLE: '1', MY_HUB_PORT: '1' }).port, 8080, 'others are let be');
  t.equal(fromEnv({ HUB_ADMIN_TOKN: ' ' }).port, 8080, 'an empty one sets nothing');
});

t.test('operators get a listener of their own by its address, its port or both', async (t) => {
  t.equal(fromEnv({}).operators, null);
  t.strictSame(fromEnv({ HUB_ADMIN_PORT: '9000' }).operators, { host: '127.0.0.1', port: 9000 });
  t.strictSame(fromEnv({ HUB_ADMIN_HOST: '::1' }).operators, { host: '::1', port: 8081 });
  t.strictSame(fromEnv({ HUB_ADMIN_HOST: '::1', HUB_ADMIN_PORT: '0' }).operators, { host: '::1', port: 0 });
});

t.test('an operators’ token has at least 24 characters', async (t) => {
  for (const name of ['HUB_ADMIN_TOKEN', 'HUB_VIEWER_TOKEN'] as const) {
    for (const short of ['a', 'x'.repeat(23)]) {
      const { message } = refused(t, { [name]: short });
      t.match(
        message,
        `${name} (--${flagOfSetting(name)}) is not usable: expected 24 to 256 printable ASCII characters`,
      );
    }
    const { adminToken, viewerToken } = fromEnv({ [name]: 'x'.repeat(24) });
    t.strictSame(
      [adminToken, viewerToken].filter((one) => one !== null),
      ['x'.repeat(24)],
    );
  }
});

t.test('the hub may call loopback by default only while its public URL is loopback', async (t) => {
  const loopback = ['127.0.0.0/8', '::1/128'];
  const anywhere = { HUB_HOST: '0.0.0.0', HUB_INSECURE_HTTP: 'true' };
  for (const host of ['127.0.0.1', '127.1.2.3', 'localhost', '::1']) {
    t.strictSame(fromEnv({ HUB_HOST: host }).egressAllow, loopback, host);
    const url = `http://${host.includes(':') ? `[${host}]` : host}:8080`;
    t.strictSame(fromEnv({ ...anywhere, HUB_PUBLIC_URL: url }).egressAllow, loopback, url);
  }
  for (const host of ['0.0.0.0', '::', '10.0.0.1', 'hub.example']) {
    t.strictSame(fromEnv({ ...anywhere, HUB_HOST: host }).egressAllow, [], host);
  }
  for (const url of ['https://hub.example/roaming', 'http://10.0.0.1', 'https://127.0.0.1.example', 'http://[::2]']) {
    t.strictSame(fromEnv({ HUB_HOST: '127.0.0.1', HUB_PUBLIC_URL: url }).egressAllow, [], `behind a proxy, ${url}`);
  }
  t.strictSame(fromEnv({ HUB_EGRESS_ALLOW: 'none' }).egressAllow, []);
  t.strictSame(fromEnv({ HUB_EGRESS_ALLOW: '10.0.0.0/8, 192.0.2.7,fd00::1' }).egressAllow, [
    '10.0.0.0/8',
    '192.0.2.7/32',
    'fd00::1/128',
  ]);
});

t.test('URLs begin with the public URL, or else with the address of the listener [D33]', async (t) => {
  t.equal(
    hubSettings(fromEnv({ HUB_PUBLIC_URL: 'https://hub.example/base/' }), 1).publicUrl,
    'https://hub.example/base',
  );
  t.equal(hubSettings(fromEnv({ HUB_PORT: '0' }), 4711).publicUrl, 'http://127.0.0.1:4711');
  t.equal(listenUrl({ host: '::1', tls: { cert: '', key: '' } }, 443), 'https://[::1]:443');
});

t.test('a hub on a database needs the settings that all nodes must share', async (t) => {
  const database = {
    ...{ HUB_STORE: 'postgres://hub@db1,db2/hub', HUB_ADMIN_TOKEN: 'x'.repeat(24) },
    HUB_SECRET_KEY: '0123456789abcdef',
  };
  const cluster = {
    ...database,
    ...{ HUB_NODE_URL: 'https://node-1:8080', HUB_PUBLIC_URL: 'https://hub.example' },
    HUB_CLUSTER_SECRET: 'x'.repeat(32),
  };
  t.equal(fromEnv(database).store, database.HUB_STORE);
  t.equal(fromEnv(cluster).nodeUrl, 'https://node-1:8080');
  t.equal(fromEnv(cluster).nodes, null);
  t.strictSame(fromEnv({ ...cluster, HUB_NODE_PORT: '9' }).nodes, { host: '127.0.0.1', port: 9 });
  t.strictSame(fromEnv({ ...cluster, HUB_NODE_HOST: '::' }).nodes, { host: '::', port: 8082 });
  const plain = { ...cluster, HUB_NODE_URL: 'http://node-1:8080' };
  t.match(refused(t, plain).message, 'HUB_NODE_INSECURE (--node-insecure) is "false": expected true, or an https');
  t.equal(fromEnv({ ...plain, HUB_NODE_INSECURE: 'true' }).nodeInsecure, true);
  for (const at of ['127.0.0.2', '[::1]', 'localhost']) {
    t.equal(fromEnv({ ...cluster, HUB_NODE_URL: `http://${at}:8080` }).nodeInsecure, false, at);
  }
  t.match(refused(t, { ...database, HUB_NODE_PORT: '9' }).message, 'HUB_NODE_URL (--node-url) is not set');
  for (const name of ['HUB_ADMIN_TOKEN', 'HUB_SECRET_KEY', 'HUB_CLUSTER_SECRET', 'HUB_PUBLIC_URL'] as const) {
    const { message } = refused(t, { ...cluster, [name]: '' });
    t.match(message, `${name} (--${flagOfSetting(name)}) is not set: expected a value, the same on all nodes`);
  }
  t.match(refused(t, { HUB_NODE_URL: 'http://node-1:8080' }).message, 'HUB_NODE_URL');
  t.match(refused(t, { ...cluster, HUB_CLUSTER_SECRET: 'x'.repeat(31) }).message, 'HUB_CLUSTER_SECRET');
});

t.test('the default page size never exceeds the largest one [D31]', async (t) => {
  t.equal(fromEnv({ HUB_PAGE_MAX: '50' }).pageDefault, 50);
});

t.test('HTTPS needs a certificate with its key, and the error names the wrong one', async (t) => {
  const other = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ type: 'pkcs8', format: 'pem' });
  const directory = t.testdir({
    'cert.pem': testCert,
    'key.pem': testKey,
    'other.pem': other,
    'garbage.pem': 'garbage',
  });
  const tlsFiles = (cert: string, key: string) => ({
    HUB_TLS_CERT: join(directory, cert),
    HUB_TLS_KEY: join(directory, key),
  });
  t.strictSame(fromEnv(tlsFiles('cert.pem', 'key.pem')).tls, { cert: testCert, key: testKey });
  t.match(refused(t, { HUB_TLS_CERT: 'cert.pem' }).message, 'HUB_TLS_KEY (--tls-key) is not set');
  t.match(refused(t, { HUB_TLS_KEY: 'key.pem' }).message, 'HUB_TLS_CERT (--tls-cert) is not set');
  t.match(
    refused(t, tlsFiles('cert.pem', 'other.pem')).message,
    'the private key of HUB_TLS_CERT in PEM form, without a passphrase',
  );
  t.match(refused(t, tlsFiles('cert.pem', 'none.pem')).message, 'HUB_TLS_KEY');
  t.match(refused(t, tlsFiles('garbage.pem', 'key.pem')).message, 'a certificate in PEM form');
});

t.test('serve --help lists every setting with flag, variable, unit, default and meaning', async (t) => {
  const help = serveCommand().helpInformation();
  for (const name of settingNames)
    t.match(help, new RegExp(`--${flagOfSetting(name)} <.+>[^]*\\[${name}, default: `), name);
  t.match(help, '[HUB_RETRY_SCHEDULE_S, default: 1,2,5,15,30,60,120,300,600,1200,1800,3600');
});

t.test('ocpi-hub exits with 2 and one line on stderr for wrong usage or an invalid setting', async (t) => {
  const command = resolve('dist/bin/ocpi-hub.js');
  t.ok(existsSync(command), 'was built');
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' });
    return { status, stdout, stderr };
  };
  t.strictSame(run('serve', '--port', 'abc'), {
    status: 2,
    stdout: '',
    stderr: 'ocpi-hub: HUB_PORT (--port) is "abc": expected a whole number from 0 to 65535\n',
  });
  t.match(run('frobnicate'), { status: 2, stderr: /unknown command/ });
  if (!isAtLength) return;
  t.match(run('serve', '--prot', '1'), { status: 2, stderr: /unknown option '--prot'/ });
  t.match(run(), { status: 2 });
  t.match(run('--version'), { status: 0, stdout: /^\d+\.\d+\.\d+\n$/ });
  t.match(run('help', 'serve'), { status: 0, stdout: /--data-dir/ });
});

function refused(t: Test, env: Record<string, string>): Error {
  try {
    fromEnv(env);
  } catch (error) {
    t.type(error, ConfigError, JSON.stringify(env));
    return error as Error;
  }
  throw new Error(`accepted: ${JSON.stringify(env)}`);
}
