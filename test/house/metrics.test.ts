/**
 * `/metrics` of a hub with real partners. The dashboard and alerts in docs/ query only metrics and labels that exist
 * there.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Counter, Histogram, Registry } from 'prom-client';
import type { RunningHub } from '../../src/main.ts';
import { cellsIn } from '../../src/metrics/metric-cells.ts';
import { createMetrics } from '../../src/metrics/metrics.ts';
import { BALLAST_BYTES } from '../../storage/level/leveldb.ts';
import { backupStore, restoreBackup } from '../../storage/level/restore.ts';
import { cdrBody, locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { setCircuit } from '../support/forward-failures.ts';
import { hastyClock } from '../support/given-up.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { admin, eventually, type Received } from '../support/plain-partner.ts';
import { poison } from '../support/poison.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { testCert } from '../support/tls.ts';

type Labels = Readonly<Record<string, string>>;

interface Sample {
  readonly name: string;
  readonly labels: Labels;
  readonly value: number;
}

const viewerToken = 'viewer-token-of-the-metrics';

async function scraped(hub: RunningHub): Promise<string> {
  const { status, text } = await get(hub, '/metrics', { authorization: `Bearer ${hub.adminToken}` });
  if (status !== 200) throw new Error(`/metrics answered ${status}`);
  return text;
}

const get = (hub: RunningHub, path: string, headers = {}) => callOnce('GET', `${hub.url}${path}`, undefined, headers);

/** Parses the Prometheus text format: one sample per line, label values quoted. */
function samplesOf(text: string): Sample[] {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return lines.map((line) => {
    const [, name = '', inside = '', value = ''] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === '') throw new Error(`not a sample: ${line}`);
    const labels = [...inside.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = '', text = '']) => [key, text]);
    return { name, labels: Object.fromEntries(labels) as Labels, value: Number(value) };
  });
}

/** Sum of the samples with these labels; null when no sample has them. */
function sumOf(samples: readonly Sample[], name: string, labels: Labels = {}): number | null {
  const found = samples.filter(
    (one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value),
  );
  return found.length === 0 ? null : found.reduce((sum, { value }) => sum + value, 0);
}

async function measured(hub: RunningHub, name: string, labels: Labels = {}): Promise<number | null> {
  return sumOf(samplesOf(await scraped(hub)), `ocpi_hub_${name}`, labels);
}

const isAuthorize = ({ path }: Received) => path.includes('/authorize');
const isCommand = ({ path }: Received) => path.includes('/commands/');
const session = (id: string) => `/2.2.1/sessions/NL/CPO/${id}`;

/** One of each outcome: delivered, dead, without a receiver, refused, authorized, a command with its result. */
async function traffic(t: Test, hub: TestHub): Promise<void> {
  const results: string[] = [];
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: (received) => {
      if (!isCommand(received)) return { body: { allowed: 'ALLOWED' } };
      results.push(new URL((JSON.parse(received.body) as { response_url: string }).response_url).pathname);
      return { body: { result: 'ACCEPTED', timeout: 30 } };
    },
    emsp: (received) => {
      if (isAuthorize(received)) return { body: { allowed: 'BLOCKED' } };
      return received.path.includes('/tariffs/') ? { status: 404, text: '{}' } : {};
    },
  });
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1'));
  await cpo.call('PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1'));
  await cpo.call('PUT', session('S1'), sessionBody('S1'));
  await cpo.call('PUT', session('S2'), sessionBody('S2', { cdr_token: undefined }));
  await cpo.call('PATCH', session('NONE'), { kwh: 2, last_updated: '2026-01-02T03:04:05Z' });
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
  await cpo.call('POST', '/2.2.1/cdrs', cdrBody('C1'));
  const toEmsp = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  await cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', undefined, toEmsp);
  await emsp.call('POST', '/2.2.1/commands/START_SESSION', {
    response_url: `${emsp.url}/results/1`,
    token: { uid: 'CARD1', type: 'RFID', contract_id: 'NL-EMS-C1' },
    location_id: 'LOC1',
  });
  const [callback = ''] = results;
  await cpo.call('POST', callback.replace(/^\/ocpi/, ''), { result: 'ACCEPTED' });
  await hub.settled();
  t.ok(((await measured(hub, 'deliveries_total')) ?? 0) >= 4, 'all that is owed has ended');
}

t.test('/metrics is open to every role that may read the admin API [contract, 3]', async (t) => {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  const asked = (headers: Record<string, string>) => get(hub, '/metrics', headers);
  const refused = await asked({});
  t.equal(refused.status, 401);
  t.match(refused.headers.get('content-type'), /^application\/problem\+json/);
  t.match(refused.headers.get('www-authenticate'), /^Bearer/);
  t.match(JSON.parse(refused.text), { status: 401, title: /./, instance: '/metrics' });
  t.equal((await asked({ authorization: 'Bearer wrong' })).status, 401);
  t.equal((await asked({ authorization: `Token ${hub.adminToken}` })).status, 401);
  for (const token of [hub.adminToken, viewerToken]) {
    const answer = await asked({ authorization: `Bearer ${token}` });
    t.equal(answer.status, 200);
    t.match(answer.headers.get('content-type'), /^text\/plain; version=0\.0\.4/);
    t.ok(samplesOf(answer.text).length > 50, 'samples');
  }
  t.notMatch(await scraped(hub), hub.adminToken, 'the token is not among them');
});

t.test('every step from acceptance to delivery is counted once', async (t) => {
  const hub = await hubFor(t);
  await traffic(t, hub);
  const samples = samplesOf(await scraped(hub));
  const value = (name: string, labels: Labels = {}) => sumOf(samples, `ocpi_hub_${name}`, labels);
  const push = { source: 'push' };
  t.equal(value('ingest_total', { ...push, module: 'sessions', method: 'PUT', result: 'created' }), 2);
  t.equal(value('ingest_total', { ...push, module: 'sessions', method: 'PATCH', result: 'notFound' }), 1);
  t.equal(value('ingest_total', { ...push, module: 'cdrs', method: 'POST', result: 'created' }), 1);
  t.equal(value('ingest_total', { ...push, module: 'cdrs', method: 'POST', result: 'duplicate' }), 1);
  t.equal(value('not_forwarded_total', { module: 'sessions', reason: 'cdr_token missing' }), 1);
  t.equal(value('not_forwarded_total', { module: 'sessions', reason: 'not routed' }), 0, 'known reasons begin at zero');

  for (const module of ['locations', 'sessions', 'cdrs']) {
    t.equal(value('attempts_total', { module, class: 'delivered' }), 1, `${module} attempted`);
    t.equal(value('delivery_latency_seconds_count', { module }), 1, `${module} delivered`);
    t.equal(value('delivery_latency_seconds_bucket', { module, le: '+Inf' }), 1);
  }
  t.equal(value('attempts_total', { module: 'tariffs', class: 'not_found' }), 1);
  t.equal(value('deliveries_total', { module: 'tariffs', class: 'not_found' }), 1);
  t.equal(value('delivery_latency_seconds_count', { module: 'tariffs' }), null, 'what is dead was not delivered');
  t.equal(value('dead_letters', { partner: 'NL-EMS' }), 1);
  t.equal(value('dead_letters', { partner: 'NL-CPO' }), 0);

  t.equal(value('authorize_duration_seconds_count', { direction: 'toEmsp', outcome: 'BLOCKED' }), 1);
  t.equal(value('command_duration_seconds_count', { command: 'START_SESSION', outcome: 'ACCEPTED' }), 1);
  t.equal(value('command_result_duration_seconds_count', { outcome: 'relayed' }), 1);

  t.ok((value('commit_duration_seconds_count') ?? 0) > 5, 'every write is measured');
  t.equal(value('commit_duration_seconds_count'), value('commit_waiting_count'));
  t.equal(value('http_requests_total', { module: 'cdrs', http_status: '201', ocpi_status: '1000' }), 1);
  t.equal(value('http_requests_total', { module: 'sessions', http_status: '404', ocpi_status: '2003' }), 1);
  t.equal(value('http_request_duration_seconds_count', { module: 'cdrs' }), 2);
});

t.test('gauges are read when they are scraped: partners, circuits, actors, store', async (t) => {
  const hub = await hubFor(t);
  await routedPair(t, hub);
  const samples = samplesOf(await scraped(hub));
  const value = (name: string, labels: Labels = {}) => sumOf(samples, `ocpi_hub_${name}`, labels);
  for (const partner of ['NL-CPO', 'NL-EMS']) {
    t.equal(value('partner_status', { partner, status: 'CONNECTED' }), 1);
    t.equal(value('partner_status', { partner }), 1, 'one status at a time');
    t.equal(value('circuit_state', { partner, circuit: 'sync', state: 'closed' }), 1);
    t.equal(value('circuit_state', { partner }), 1, 'one state at a time, and none of a circuit that never failed');
    for (const name of ['backlog_deliveries', 'backlog_oldest_age_seconds', 'overdue_deliveries', 'dead_letters']) {
      t.equal(value(name, { partner }), 0, `${name} of ${partner}`);
    }
  }
  t.equal(value('actors', { kind: 'partner', state: 'connected' }), 2);
  for (const kind of ['partner', 'courier', 'circuit', 'command', 'orphan-stop', 'orphan-cdr'])
    t.equal(value('actor_restarts_total', { kind }), 0, `counters of alerts begin at zero: ${kind}`);
  for (const type of ['circuit.opened', 'delivery.dead'])
    t.equal(value('unrecorded_total', { type }), 0, `${type}, too`);
  t.equal(value('ready'), 1);
  t.equal(value('store_state', { state: 'open' }), 1);
  t.equal(value('store_state'), 1);
  const status = await admin(hub, 'GET', '/status');
  t.equal(value('events_total'), status.sequence);
  t.ok((sumOf(samples, 'nodejs_eventloop_lag_p99_seconds') ?? 0) > 0, 'event loop lag');
  const node = createMetrics('0.0.0');
  const { operations } = hub.created.hub;
  for (const [held, length] of [
    [null, null],
    [operations, status.sequence],
    [null, null],
  ] as const) {
    const { text } = await node.exposition(held, {});
    t.equal(sumOf(samplesOf(text), 'ocpi_hub_events_total'), length, 'a takeover is no increase');
  }
  const roles = [{ role: 'EMSP', country_code: 'NL', party_id: 'PUL' }];
  await admin(hub, 'POST', '/parties', { roles, pull_only: true });
  t.equal(await measured(hub, 'pull_only', { partner: 'NL-PUL' }), 1);
  t.equal(await measured(hub, 'pull_only'), 1, 'no other partner is');
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  t.equal(await measured(hub, 'partner_status', { partner: 'NL-EMS', status: 'SUSPENDED' }), 1);
  t.equal(await measured(hub, 'partner_status', { partner: 'NL-EMS', status: 'CONNECTED' }), 0);
});

t.test(
  'a failing partner shows as backlog, age and open circuit, and is not overdue while its circuit is open',
  async (t) => {
    const clock = new SimulatedClock('2026-01-02T03:04:05Z');
    const env = { HUB_CIRCUIT_FAILURES: '3', HUB_CIRCUIT_OPEN_MS: '300000', HUB_RETRY_SCHEDULE_S: '30' };
    const hub = await hubFor(t, env, { clock });
    let isIll = true;
    const { cpo } = await routedPair(t, hub, { emsp: () => (isIll ? { status: 503, text: '{}' } : {}) });
    const partner = 'NL-EMS';
    const circuit = { partner, circuit: 'sessions' };
    for (const id of ['S1', 'S2', 'S3']) await cpo.call('PUT', session(id), sessionBody(id));
    await hub.settled();
    t.equal(await measured(hub, 'circuit_state', { ...circuit, state: 'open' }), 1, 'its circuit opens');
    t.equal(await measured(hub, 'circuit_state', { ...circuit, state: 'closed' }), 0);
    t.equal(await measured(hub, 'circuit_state', { partner, circuit: 'sync', state: 'closed' }), 1);
    t.equal(await measured(hub, 'backlog_deliveries', { partner }), 3);
    t.equal(await measured(hub, 'deliveries_total', { module: 'sessions' }), null, 'nothing has ended');
    clock.advance(200_000);
    t.equal(await measured(hub, 'backlog_oldest_age_seconds', { partner }), 200);
    t.equal(await measured(hub, 'overdue_deliveries', { partner }), 0, 'its circuit is open');

    isIll = false;
    clock.advance(200_000);
    await hub.settled();
    const delivered = await measured(hub, 'deliveries_total', { module: 'sessions', class: 'delivered' });
    t.equal(delivered, 3, 'all is delivered');
    t.equal(await measured(hub, 'overdue_deliveries', { partner }), 0);
    t.equal(await measured(hub, 'backlog_deliveries', { partner }), 0);
    t.equal(await measured(hub, 'circuit_state', { ...circuit, state: 'open' }), 0);
    const under = await measured(hub, 'delivery_latency_seconds_bucket', { module: 'sessions', le: '300' });
    t.equal(under, 0, 'their time counts from acceptance');
  },
);

t.test('deliveries that an operator holds back are backlog and not overdue', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  const hub = await hubFor(t, {}, { clock });
  const { cpo, emsp } = await routedPair(t, hub);
  const partner = 'NL-EMS';
  await admin(hub, 'PATCH', `/parties/${partner}`, { paused: true });
  await cpo.call('PUT', session('S1'), sessionBody('S1'));
  clock.advance(600_000);
  t.equal(await measured(hub, 'backlog_oldest_age_seconds', { partner }), 600);
  t.equal(await measured(hub, 'backlog_deliveries', { partner }), 1);
  t.equal(await measured(hub, 'overdue_deliveries', { partner }), 0);
  await admin(hub, 'PATCH', `/parties/${partner}`, { paused: false });
  await hub.settled();
  t.equal(emsp.received.length, 1, 'it arrives');
});

t.test('a delivery that could go and does not end is overdue after a minute', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  const hub = await hubFor(t, {}, { clock });
  let answer = (): void => {};
  const held = new Promise<void>((resolve) => {
    answer = resolve;
  });
  t.teardown(() => answer());
  const { cpo, emsp } = await routedPair(t, hub, { emsp: () => held.then(() => ({})) });
  const partner = 'NL-EMS';
  await cpo.call('PUT', session('S1'), sessionBody('S1'));
  await hub.settled(emsp);
  t.equal(emsp.received.length, 1, 'it is in flight');
  clock.advance(59_000);
  t.equal(await measured(hub, 'overdue_deliveries', { partner }), 0);
  clock.advance(2_000);
  t.equal(await measured(hub, 'overdue_deliveries', { partner }), 1);
  answer();
  await hub.settled();
  t.equal(await measured(hub, 'overdue_deliveries', { partner }), 0, 'it ends');
});

t.test(
  'an actor that throws is counted, then quarantined, and events sent to it then are counted as lost',
  async (t) => {
    const hub = await hubFor(t, {}, { clock: hastyClock });
    await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    const { supervisor } = hub.created.context;
    const kind = 'partner';
    for (let restarts = 1; restarts <= 5; restarts++) {
      supervisor.send('partner:NL-CPO', poison());
      t.equal(await measured(hub, 'actor_restarts_total', { kind }), restarts);
      await eventually(
        'it is up again',
        async () => (await measured(hub, 'actors', { kind, state: 'connected' })) === 1,
      );
    }
    t.equal(await measured(hub, 'actor_quarantines_total', { kind }), 0);
    supervisor.send('partner:NL-CPO', poison());
    t.equal(await measured(hub, 'actor_quarantines_total', { kind }), 1);
    t.equal(await measured(hub, 'actor_restarts_total', { kind }), 5);
    t.equal(await measured(hub, 'actors', { kind, state: 'quarantined' }), 1);
    t.equal(await measured(hub, 'actors', { kind, state: 'connected' }), null, 'it is not shown twice');
    const lost = (await measured(hub, 'lost_sends_total')) ?? 0;
    supervisor.send('partner:NL-CPO', { type: 'sync.reached', at: 0 });
    t.equal(await measured(hub, 'lost_sends_total'), lost + 1);
  },
);

t.test('a restart loses no event, whatever the states of partners and circuits', async (t) => {
  const dataDir = directoryFor(t);
  const env = { HUB_CIRCUIT_FAILURES: '1', HUB_CIRCUIT_OPEN_MS: '300000', HUB_RETRY_SCHEDULE_S: '300' };
  const first = await hubFor(t, env, {}, dataDir);
  const { cpo } = await routedPair(t, first, { emsp: () => ({ status: 503, text: '{}' }) });
  for (const partyId of ['PAU', 'SUS']) await partnerFor(t, first, { role: 'EMSP', countryCode: 'NL', partyId });
  await admin(first, 'PATCH', '/parties/NL-PAU', { paused: true });
  await admin(first, 'POST', '/parties/NL-SUS/suspend');
  await cpo.call('PUT', session('S1'), sessionBody('S1'));
  const ofSessions = { partner: 'NL-EMS', circuit: 'sessions' };
  await first.settled();
  t.equal(await measured(first, 'circuit_state', { ...ofSessions, state: 'open' }), 1, 'a circuit is open');
  await first.close();
  const second = await hubFor(t, env, {}, dataDir);
  t.equal(await measured(second, 'actors', { kind: 'courier' }), 4, 'every courier is there');
  t.equal(await measured(second, 'lost_sends_total'), 0);
});

t.test('no label has a value from an object or one that a partner made up', async (t) => {
  const hub = await hubFor(t);
  const { cpo, emsp } = await routedPair(t, hub, {
    cpo: (received) => (isCommand(received) ? { body: { result: 'FANTASY' } } : {}),
    emsp: () => ({ body: { allowed: 'FANTASY' } }),
  });
  await cpo.call('PUT', session('FANTASY'), sessionBody('FANTASY'));
  await cpo.call('PUT', '/2.2.1/locations/NL/CPO/FANTASY', locationBody('FANTASY'));
  await cpo.call('GET', '/2.2.1/FANTASY');
  await get(hub, '/FANTASY');
  await get(hub, '/admin/v1/FANTASY');
  const toEmsp = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
  await cpo.call('POST', '/2.2.1/tokens/FANTASY/authorize', undefined, toEmsp);
  await emsp.call('POST', '/2.2.1/commands/UNLOCK_CONNECTOR', {
    ...{ response_url: `${emsp.url}/FANTASY`, location_id: 'FANTASY', evse_uid: 'EVSE1', connector_id: '1' },
  });
  await emsp.call('POST', '/2.2.1/commands/FANTASY', { response_url: `${emsp.url}/x` });
  const text = await scraped(hub);
  t.notMatch(text, /fantasy/i);
  const samples = samplesOf(text);
  t.equal(sumOf(samples, 'ocpi_hub_command_duration_seconds_count', { outcome: 'other' }), 1);
  t.equal(sumOf(samples, 'ocpi_hub_authorize_duration_seconds_count', { outcome: 'authorizeIncomplete' }), 1);
});

t.test('a recovering or failed hub still has metrics', async (t) => {
  const hub = await hubFor(t);
  await hub.created.context.store.close();
  t.equal((await get(hub, '/readyz')).status, 503);
  t.equal(await measured(hub, 'ready'), 0);
  t.equal(await measured(hub, 'store_state', { state: 'closed' }), 1);
});

/** Prometheus marks a series as stale, and a target as down, within this many minutes. */
const scrapedWithinMin = 5;

/** Labels that Prometheus adds when it scrapes. */
const scrapers: ReadonlySet<string> = new Set(['instance', 'job']);

/** Every metric that a text queries, with the labels in its selectors. */
function askedFor(text: string): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const [, name = '', selector = ''] of text.matchAll(/\b((?:ocpi_hub|nodejs|process)_\w+)(?:\{([^}]*)\})?/g)) {
    const labels = found.get(name) ?? new Set<string>();
    for (const [, label = ''] of selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)) labels.add(label);
    found.set(name, labels);
  }
  return found;
}

t.test('expiry is measured: certificate, disk and backup', async (t) => {
  const root = directoryFor(t);
  const meters = createMetrics('0.0.0');
  meters.upkeep.certificate(testCert);
  meters.upkeep.dataDir(join(root, 'of-a-node-that-needs-none'));
  const { text } = await meters.exposition(null, {});
  t.equal(sumOf(samplesOf(text), 'ocpi_hub_certificate_expires_timestamp_seconds'), Date.UTC(2120, 0, 1) / 1000);
  t.equal(sumOf(samplesOf(text), 'ocpi_hub_data_free_bytes'), 0);

  const clock = new SimulatedClock('2026-05-01T10:00:00Z');
  const hub = await hubFor(t, {}, { clock });
  const read = async () => {
    const samples = samplesOf(await scraped(hub));
    const of = (name: string) => sumOf(samples, `ocpi_hub_${name}`) ?? Number.NaN;
    return { ends: of('certificate_expires_timestamp_seconds'), backup: of('backup_timestamp_seconds'), of };
  };
  const { of, ...before } = await read();
  t.same(before, { ends: 0, backup: 0 }, 'neither is there');
  t.ok(of('data_free_bytes') > 0 && of('data_free_bytes') < of('data_size_bytes'));
  await admin(hub, 'POST', '/backup', { directory: join(root, 'backup') });
  await eventually('the backup has ended', async () => (await read()).backup > 0);
  t.equal((await read()).backup, Date.UTC(2026, 4, 1, 10) / 1000);
});

t.test('dashboard and alerts use only metrics and labels that a hub with traffic has', async (t) => {
  const hub = await hubFor(t);
  await traffic(t, hub);
  const labelsOf = new Map<string, Set<string>>();
  for (const { name, labels } of samplesOf(await scraped(hub))) {
    labelsOf.set(name, new Set([...(labelsOf.get(name) ?? []), ...Object.keys(labels)]));
  }
  const dashboard = JSON.parse(readFileSync('docs/grafana/ocpi-hub.json', 'utf8')) as {
    panels: { title: string; targets?: { expr: string }[] }[];
  };
  const queries = dashboard.panels.flatMap(({ targets }) => targets?.map(({ expr }) => expr) ?? []);
  t.ok(queries.length > 30, `${queries.length} queries on the dashboard`);
  const alerts = readFileSync('docs/alerts.yml', 'utf8');
  t.ok((alerts.match(/- alert: /g) ?? []).length > 10, 'alerts');
  const rules = [...alerts.matchAll(/expr: (?:>-\n)?((?:.*\n)+?) {8}(?:for|labels):/g)].map(([, expr = '']) => expr);
  t.equal(rules.length, alerts.match(/- alert: /g)?.length, 'an expression for each');
  for (const expr of [...queries, ...rules]) {
    const known = new Set([...askedFor(expr).keys()].flatMap((name) => [...(labelsOf.get(name) ?? [])]));
    const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(/,\s*/));
    for (const label of grouped) t.ok(known.has(label) || scrapers.has(label), `${label} in ${expr.trim()}`);
  }
  for (const [name, labels] of [...askedFor(queries.join('\n')), ...askedFor(alerts)]) {
    t.ok(labelsOf.has(name), `${name} is there`);
    for (const label of labels) t.ok(scrapers.has(label) || labelsOf.get(name)?.has(label), `${name} has ${label}`);
  }
});

/** The expression of an alert, which stands on one line. */
const exprOf = (name: string) =>
  new RegExp(`- alert: ${name}\\n(?: +#.*\\n)* +expr: (.*)`).exec(readFileSync('docs/alerts.yml', 'utf8'))?.[1] ?? '';

t.test('an alert that mentions a time span has the span as its value: `and` keeps the left value', async (t) => {
  const rules = readFileSync('docs/alerts.yml', 'utf8').split('- alert: ').slice(1);
  const spans = rules.filter((rule) => /_timestamp_seconds/.test(rule) && /\$value \| humanizeDuration/.test(rule));
  const names = spans.map((rule) => rule.split('\n', 1)[0] ?? '');
  t.strictSame(names, ['HubCertificateEnds', 'HubBackupOld']);
  for (const name of names) t.match(exprOf(name).split(' and ')[0], 'time()', name);
});

t.test('an alert queries what its text says: a node, a partner or guesses', async (t) => {
  /** Whether the first selector of an alert takes this value of the label. */
  const takes = (alert: string, label: string, value: string) => {
    const [, how, pattern = ''] = new RegExp(`[{,]${label}(!~|=~|!=|=)"([^"]*)"`).exec(exprOf(alert)) ?? [];
    return new RegExp(`^(${pattern})$`).test(value) === (how === '=' || how === '=~');
  };
  t.ok(takes('HubStoredNotForwarded', 'reason', 'not routed'));
  t.notOk(takes('HubStoredNotForwarded', 'reason', 'pull only'), 'which is so for every session of such an eMSP');
  for (const module of ['sessions', 'admin', 'other']) {
    t.equal(takes('HubRateLimited', 'module', module), module === 'sessions', module);
    t.equal(takes('HubGuessesRefused', 'module', module), module !== 'sessions', module);
  }
  const ofBackup = exprOf('HubBackupOld');
  t.equal(ofBackup.split('max by (job) (ocpi_hub_backup_timestamp_seconds)').length, 3, 'a former owner says nothing');
  const [, least = ''] =
    /^ocpi_hub_data_size_bytes > 0 and ocpi_hub_data_free_bytes < (\d+) \* 1024 \* 1024$/.exec(exprOf('HubDiskFull')) ??
    [];
  t.equal(Number(least) << 20, 2 * 2 * BALLAST_BYTES, 'a node without a data directory says nothing');
});

t.test('a half-open circuit that waits for the next call is not open: HubCircuitNotClosed does not fire', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  const hub = await hubFor(t, {}, { clock });
  await routedPair(t, hub);
  const circuit = { partner: 'NL-EMS', circuit: 'sync' };
  const [, state = '', value = ''] = /\{state="(\w+)"\}\S* == (\d)$/.exec(exprOf('HubCircuitNotClosed')) ?? [];
  const holds = async () => (await measured(hub, 'circuit_state', { ...circuit, state })) === Number(value);
  t.notOk(await holds());
  setCircuit(hub, 'NL-EMS', 'sync', 'open');
  t.ok(await holds());
  clock.advance(6_000);
  t.equal(await measured(hub, 'circuit_state', { ...circuit, state: 'halfOpen' }), 1, 'after the 5 s of an opening');
  t.equal(await measured(hub, 'actors', { kind: 'circuit', state: 'halfOpen' }), 1, 'by that name, as everywhere');
  t.notOk(await holds());
});

t.test('the sequence of the last event falls after a restore only: HubLogWentBack detects that', async (t) => {
  const place = directoryFor(t);
  const [data, backup] = [join(place, 'data'), join(place, 'backup')];
  const counted = async (hub: RunningHub) => sumOf(samplesOf(await scraped(hub)), 'ocpi_hub_events_total') ?? 0;
  /** Events at a start, and once more is recorded. */
  const run = async (party_id: string) => {
    const hub = await hubFor(t, {}, {}, data);
    const begun = await counted(hub);
    await admin(hub, 'POST', '/parties', { roles: [{ role: 'CPO', country_code: 'NL', party_id }] });
    const ended = await counted(hub);
    await hub.close();
    return { begun, ended };
  };
  const first = await run('AAA');
  await backupStore(join(data, 'store'), backup);
  const second = await run('BBB');
  t.ok(second.begun >= first.ended && second.ended > second.begun, 'a restart counts on');
  await restoreBackup(backup, join(data, 'store'), { replace: true, now: new Date() });
  const third = await run('CCC');
  t.ok(third.begun < second.ended, `${second.ended} events, then ${third.begun}`);
  const [, asked = ''] = /HubLogWentBack\n(?: +#.*\n)* +expr: (.*)/.exec(readFileSync('docs/alerts.yml', 'utf8')) ?? [];
  t.equal(asked, 'resets(ocpi_hub_events_total[1h]) > 0');
});

t.test('a hub that is down fires an alert, and no paging alert resolves before it fires', async (t) => {
  const alerts = readFileSync('docs/alerts.yml', 'utf8');
  const rules = alerts.split('- alert: ').slice(1);
  const minutes = (rule: string, field: string) =>
    Number(new RegExp(`^ +${field}: (\\d+)m$`, 'm').exec(rule)?.[1] ?? 0);
  const down = rules.find((rule) => rule.startsWith('HubDown\n')) ?? '';
  const [, job = ''] = /^ {2}- job_name: (\S+)$/m.exec(readFileSync('docs/METRICS.md', 'utf8')) ?? [];
  t.match(down, `expr: up{job="${job}"} == 0 or absent(up{job="${job}"})\n`, 'the job of the scrape configuration');
  t.match(down, 'severity: page');
  t.match(down, /still opens its store .*GET \/readyz/, 'as a long start does, which gives no metrics either');
  for (const rule of rules.filter((one) => one !== down && one.includes('severity: page'))) {
    const longer = minutes(rule, 'keep_firing_for') > minutes(down, 'for') + scrapedWithinMin;
    t.ok(longer, `${rule.split('\n', 1)[0]} is kept firing`);
  }
});

t.test('docs/METRICS.md lists every metric of the hub, and no other', async (t) => {
  const hub = await hubFor(t);
  const told = new Set((await scraped(hub)).match(/(?<=^# TYPE )ocpi_hub_\w+/gm));
  t.ok(told.size > 25, `${told.size} metrics`);
  const listed = readFileSync('docs/METRICS.md', 'utf8').match(/(?<=^\| `)ocpi_hub_\w+/gm) ?? [];
  t.strictSame([...listed].sort(), [...told].sort());
});

type Counted = Readonly<Record<string, string | number>>;

interface Kinds {
  readonly counter: { inc(labels: Counted, by?: number): void };
  readonly bare: { observe(labels: Counted, value: number): void };
  readonly seconds: { observe(labels: Counted, value: number): void };
}

t.test('counters and histograms are exposed in the form of prom-client [METRIC-CELLS-1]', async (t) => {
  const [own, theirs] = [new Registry(), new Registry()];
  const [bounds, labelNames, registers] = [[0.001, 0.5, 10], ['module', 'class'] as const, [theirs]];
  const cells = cellsIn(own);
  const ours = {
    counter: cells.counter('made_total', 'Made', labelNames),
    bare: cells.histogram('bare', 'Without a label', bounds),
    seconds: cells.histogram('seconds', 'With "labels"', bounds, labelNames),
  };
  const counted = {
    counter: new Counter({ name: 'ocpi_hub_made_total', help: 'Made', labelNames, registers }),
    bare: new Histogram({ name: 'ocpi_hub_bare', help: 'Without a label', buckets: bounds, registers }),
    seconds: new Histogram({
      name: 'ocpi_hub_seconds',
      help: 'With "labels"',
      buckets: bounds,
      labelNames,
      registers,
    }),
  };
  const both: readonly Kinds[] = [ours, counted];
  const isSame = async (at: string) => t.equal(await own.metrics(), await theirs.metrics(), at);
  await isSame('before the first count');
  for (const value of [0.3, 0.001, 10, 10.5, 0, 0.1, 0.2]) {
    for (const module of ['sessions', 'cdrs', 'a "b"\\']) {
      const labels = { class: value > 1 ? 500 : '', module };
      for (const { counter, bare, seconds } of both) {
        counter.inc(labels);
        counter.inc({ module: 'tokens', class: value }, 2);
        bare.observe({}, value);
        seconds.observe(labels, value);
      }
    }
    for (const { counter } of both) counter.inc({ module: 'never', class: value }, 0);
    await isSame(`after ${value}`);
  }
});
