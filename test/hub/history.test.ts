/** The history of a hub: what passed by minute and hour, over restarts, refusals of the store, and the end of its time. */
import type { HistoryView, MonthlyReport, PartnerHistory } from '../../src/api/history.ts';
import { sharedBy } from '../../src/cluster/tenure.ts';
import { createHub } from '../../src/hub/create-hub.ts';
import { hoursKind, minutesKind } from '../../src/hub/maintain/history.ts';
import { locationBody } from '../support/bodies.ts';
import { callOnce } from '../support/caller.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;
const quiet = { HUB_PROBE_INTERVAL_S: '2000000', HUB_SILENT_AFTER_H: '0', HUB_RETRY_SCHEDULE_S: '30' };

const ofHub = async (hub: TestHub, query = '') =>
  (await admin(hub, 'GET', `/history?${query}`)) as unknown as HistoryView;
const of = async (hub: TestHub, id: string, query = '') =>
  (await admin(hub, 'GET', `/parties/${id}/history?${query}`)) as unknown as PartnerHistory;
const countsOf = ({ points }: HistoryView) =>
  points.map(({ at, pushes, deliveries, errors }) => `${at.slice(11, 16)} ${pushes} ${deliveries} ${errors}`);

/** A routed pair, whose eMSP refuses while `refuses.now`, at ten o'clock. */
async function scene(t: Test, env: Readonly<Record<string, string>> = {}) {
  const clock = new SimulatedClock('2026-05-01T10:00:00.000Z');
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, { ...quiet, ...env }, { clock }, dataDir);
  const refuses = { now: false };
  const { cpo } = await routedPair(t, hub, { emsp: () => (refuses.now ? { status: 500, text: 'no' } : {}) });
  let pushed = 0;
  const push = async (at: TestHub, count = 1) => {
    cpo.moveTo(at);
    for (let n = 0; n < count; n++) {
      pushed += 1;
      await cpo.push('PUT', `/2.2.1/locations/NL/CPO/L${pushed}`, locationBody(`L${pushed}`));
    }
    await at.settled();
  };
  const pass = async (at: TestHub, ms: number, stepMs = minuteMs) => {
    for (let passed = 0; passed < ms; passed += stepMs) {
      clock.advance(stepMs);
      await at.settled();
    }
  };
  const again = () => hubFor(t, { ...quiet, ...env }, { clock }, dataDir);
  return { clock, hub, refuses, push, pass, again };
}

t.test('each minute with traffic has one point: pushes, deliveries, errors, latency', async (t) => {
  const { hub, refuses, push, pass } = await scene(t);
  await pass(hub, minuteMs);
  await push(hub, 3);
  await pass(hub, 2 * minuteMs);
  refuses.now = true;
  await push(hub);
  refuses.now = false;
  await pass(hub, minuteMs, 10_000);
  await pass(hub, minuteMs);
  t.strictSame(countsOf(await ofHub(hub)), ['10:01 3 3 0', '10:03 1 1 1']);
  const emsp = await of(hub, 'NL-EMS');
  t.match(emsp, { party: 'NL-EMS', step: 'minute', to: '2026-05-01T10:05:00.000Z' });
  t.strictSame(countsOf(emsp), ['10:01 0 3 0', '10:03 0 1 1']);
  t.ok(emsp.points.every(({ availability }) => availability === 1));
  t.equal(typeof emsp.points[0]?.latency_p95_ms, 'number');
  t.strictSame(countsOf(await of(hub, 'nl-cpo')), ['10:01 3 0 0', '10:03 1 0 0']);
  const asked = 'from=2026-05-01T10:01:00Z&to=2026-05-01T10:02:00Z';
  t.strictSame(countsOf(await ofHub(hub, asked)), ['10:01 3 3 0'], 'from is inclusive, to exclusive');
  t.strictSame(countsOf(await ofHub(hub, 'step=hour')), ['10:00 4 4 1'], 'the present hour is shown, too');
});

t.test('[MAINTAIN-HISTORY-4] without traffic nothing is written', async (t) => {
  const { hub, push, pass } = await scene(t);
  await push(hub);
  await pass(hub, 3 * hourMs, hourMs / 4);
  const before = await itemsOf(hub, '/events?type=history.recorded');
  await pass(hub, 5 * hourMs, hourMs / 4);
  t.strictSame(await itemsOf(hub, '/events?type=history.recorded'), before);
  t.match(before, [
    { about: 'history:traffic', by: 'hub', data: { step: 'minute', at: '2026-05-01T10:00:00.000Z' } },
    {},
    {},
  ]);
});

t.test('[MAINTAIN-HISTORY-4] points survive a restart, within a minute, within an hour and after it', async (t) => {
  const { hub, push, pass, again, clock } = await scene(t);
  await push(hub, 2);
  clock.advance(20_000);
  await hub.close();
  const second = await again();
  await push(second, 1);
  await pass(second, 2 * minuteMs, 20_000);
  t.strictSame(countsOf(await ofHub(second)), ['10:00 3 3 0'], 'a minute that two processes share is one sum');
  await second.close();
  clock.advance(hourMs);
  const third = await again();
  t.strictSame(countsOf(await ofHub(third)), ['10:00 3 3 0']);
  await pass(third, hourMs, 5 * minuteMs);
  await push(third, 1);
  await pass(third, hourMs, 5 * minuteMs);
  t.strictSame(countsOf(await ofHub(third, 'step=hour')), ['10:00 3 3 0', '12:00 1 1 0']);
  t.strictSame(countsOf(await ofHub(third)), ['10:00 3 3 0', '12:02 1 1 0']);
});

t.test('[MAINTAIN-HISTORY-1] a minute that the store refuses becomes part of the next one', async (t) => {
  const { hub, push, pass } = await scene(t);
  await pass(hub, minuteMs);
  const { recorder } = hub.created.context;
  const { record } = recorder;
  recorder.record = async (recording) => {
    if (recording.facts[0]?.event.type === 'history.recorded') throw new Error('refused');
    return record.call(recorder, recording);
  };
  await push(hub, 2);
  await pass(hub, 2 * minuteMs);
  await push(hub, 1);
  t.strictSame(countsOf(await ofHub(hub)), []);
  recorder.record = record;
  await pass(hub, minuteMs);
  t.strictSame(countsOf(await ofHub(hub)), ['10:01 3 3 0'], 'as one sum, at the first of them');
});

t.test(
  '[MAINTAIN-HISTORY-3] an hour that was cut off between two commits is written once more, and not counted twice',
  async (t) => {
    const { hub, push, pass, again } = await scene(t);
    for (let n = 0; n < 3; n++) {
      await push(hub, 2);
      await pass(hub, minuteMs);
    }
    const { recorder } = hub.created.context;
    const { record } = recorder;
    let hours = 0;
    recorder.record = async (recording) => {
      const event = recording.facts[0]?.event;
      if (event?.type === 'history.recorded' && event.data.step === 'hour' && hours++ > 0) throw new Error('cut off');
      return record.call(recorder, recording);
    };
    await pass(hub, hourMs, 5 * minuteMs);
    t.ok(hours > 1, 'the last commit of the hour was cut off');
    const minutes = ['10:00 2 2 0', '10:01 2 2 0', '10:02 2 2 0'];
    const whole = async (at: TestHub) => {
      t.strictSame(countsOf(await ofHub(at)), minutes);
      t.strictSame(countsOf(await ofHub(at, 'step=hour')), ['10:00 6 6 0']);
    };
    await whole(hub);
    await hub.close();
    const second = await again();
    await whole(second);
    await pass(second, hourMs, 5 * minuteMs);
    await whole(second);
    t.equal((await rowsOf(second, 'history')).length, 0, 'the minutes went with the last commit');
  },
);

async function rowsOf(hub: TestHub, kind: string) {
  const rows = [];
  for await (const row of hub.created.context.store.scan(kind)) rows.push(row);
  return rows;
}

t.test(
  '[MAINTAIN-HISTORY-2] minutes expire after 24 h and hours after 90 days, also in the store',
  atLength,
  async (t) => {
    const { hub, push, pass, again } = await scene(t, { HUB_EVENTS_KEEP_DAYS: '1' });
    for (let hour = 0; hour < 30; hour++) {
      await push(hub);
      await pass(hub, hourMs, hourMs / 2);
    }
    t.ok(hub.created.context.store.horizon() > 0, 'the log was trimmed');
    const minutes = countsOf(await ofHub(hub));
    t.equal(minutes.length, 24);
    t.equal(countsOf(await ofHub(hub, 'step=hour')).length, 30);
    // The hub, the CPO and the eMSP.
    t.equal((await rowsOf(hub, minutesKind)).length, 3 * 24);
    t.ok((await rowsOf(hub, 'history')).length <= 1);
    for (let day = 0; day < 95; day++) {
      await push(hub);
      await pass(hub, dayMs, dayMs / 2);
    }
    const days = countsOf(await ofHub(hub, 'step=hour'));
    t.equal(days.length, 90);
    t.equal((await rowsOf(hub, hoursKind)).length, 3 * 91, 'a day that is over gives its place to a later one');
    await hub.close();
    const second = await again();
    t.strictSame(countsOf(await ofHub(second, 'step=hour')), days);
  },
);

t.test('[VIEWS-HISTORY-2] availability is the share of the watched time in which a partner was not down', async (t) => {
  const { hub, push, pass, clock } = await scene(t);
  await pass(hub, 10 * minuteMs);
  await admin(hub, 'POST', '/parties/NL-EMS/suspend');
  await pass(hub, 15 * minuteMs);
  await push(hub);
  await pass(hub, 35 * minuteMs);
  const hour = await of(hub, 'NL-EMS', 'step=hour');
  t.match(hour.points, [{ at: '2026-05-01T10:00:00.000Z', availability: 0.1666 }], '10 minutes of 60');
  t.match((await of(hub, 'NL-CPO', 'step=hour')).points, [{ availability: 1 }]);
  await hub.close();
  clock.advance(5 * hourMs);
});

t.test('the report of a month lists its days, and can be downloaded', async (t) => {
  const { hub, push, pass } = await scene(t);
  for (let day = 0; day < 3; day++) {
    await push(hub, day + 1);
    await pass(hub, dayMs, dayMs / 4);
  }
  const report = (await admin(hub, 'GET', '/parties/NL-EMS/report/2026-05')) as unknown as MonthlyReport;
  t.match(report, { party: 'NL-EMS', month: '2026-05', to: '2026-06-01T00:00:00.000Z' });
  t.match(report.total, { pushes: 0, deliveries: 6, errors: 0, availability: 1, hours: 3 });
  t.strictSame(
    report.days.map(({ day, deliveries }) => `${day} ${deliveries}`),
    ['2026-05-01 1', '2026-05-02 2', '2026-05-03 3'],
  );
  const fileOf = (path: string, accept: string, token = hub.adminToken) =>
    callOnce('GET', `${hub.url}/admin/v1${path}`, undefined, { authorization: `Bearer ${token}`, accept });
  const csv = (await fileOf('/parties/NL-EMS/report/2026-05', 'text/csv')).text.split('\n');
  t.equal(csv[0], 'day,pushes,deliveries,errors,latency_p50_ms,latency_p95_ms,availability,hours');
  t.match(csv[2], /^2026-05-02,0,2,0,[\d.]+,[\d.]+,1,1$/);
  const lines = (await fileOf('/parties/NL-EMS/history?step=hour', 'application/x-ndjson')).text.trimEnd().split('\n');
  t.strictSame(
    lines.map((line) => JSON.parse(line)),
    (await of(hub, 'NL-EMS', 'step=hour')).points,
  );
  for (const path of ['/parties/NL-XXX/history', '/parties/NL-XXX/report/2026-05'])
    t.equal((await fileOf(path, 'application/json')).status, 404, path);
  for (const path of ['/history?step=day', '/parties/NL-EMS/report/2026-13', '/parties/NL-EMS/report/may'])
    t.equal((await fileOf(path, 'application/json')).status, 422, path);
  t.equal((await fileOf('/history', 'text/csv', 'a-token-that-nobody-has-in-this-test')).status, 401);
  const empty = (await admin(hub, 'GET', '/parties/NL-EMS/report/2025-01')) as unknown as MonthlyReport;
  t.match(empty, { days: [], total: { deliveries: 0, availability: null, hours: 0 } });
});

t.test('the command line prints the history of a partner, and its report of a month', async (t) => {
  const { hub, push, pass } = await scene(t);
  await push(hub, 2);
  await pass(hub, 2 * minuteMs);
  const env = { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken };
  const ran = async (line: string, code = 0) => {
    const ended = await runCommand(line.split(' '), env);
    t.equal(ended.code, code, line);
    return ended;
  };
  const table = (await ran('parties history NL-EMS')).out.split('\n');
  t.match(table[0], /^BEGIN +PUSHES +DELIVERIES +ERRORS +P50 +P95 +AVAILABLE$/);
  t.match(table[1], /^2026-05-01T10:00Z +0 +2 +0 +1 ms +1 ms +100 %$/);
  t.strictSame(JSON.parse((await ran('parties history NL-EMS --hours --json')).out), {
    ...(await of(hub, 'NL-EMS', 'step=hour')),
  });
  t.match((await ran('parties history NL-EMS --csv')).out, /^at,pushes,.*\n2026-05-01T10:00:00\.000Z,0,2,0,/);
  t.match((await ran('parties history NL-EMS --to 2026-04-01')).err, 'No point of NL-EMS is recorded in that time');
  const month = (await ran('parties report NL-EMS --month 2026-05')).out;
  t.match(month, /^NL-EMS · .*2026-05\nDAY .*\n2026-05-01 +0 +2 .*\ntotal +0 +2 /);
  t.match((await ran('parties report NL-EMS --month 2026-05 --csv')).out, /^day,.*\n2026-05-01,0,2,/);
  t.match((await ran('parties report NL-EMS --month 2025-05')).out, 'Nothing is recorded for that month');
  t.match((await ran('parties report NL-EMS --month soon', 2)).err, 'expected a month');
  t.match((await ran('parties report NL-EMS --csv', 2)).err, '--month');
});

t.test('[MAINTAIN-HISTORY-5] the owner counts the traffic of other nodes, once', async (t) => {
  const { hub, push, pass } = await scene(t);
  const { created } = hub;
  const { store, ports, settings, directory } = created.context;
  const having = { held: () => null, onHealth: () => {}, appended: () => {} };
  const door = createHub(sharedBy(store, having), ports, settings, 'test', 'door');
  await door.recover();
  t.teardown(() => door.close());
  const partner = directory.partner('NL-CPO');
  const party = partner?.roles[0];
  if (!partner || !party) throw new Error('no CPO');
  const trace = { requestId: 'r', correlationId: 'c' };
  const body = JSON.stringify(locationBody('D1'));
  const change = { module: 'locations', method: 'PUT', owner: 'NL-CPO', id: 'D1', within: [], warnings: [] } as const;
  const pushed = { ...change, facts: { publish: true }, lastUpdated: '2026-03-01T00:00:00Z', body };
  await door.hub.accept({ partner, party, id: 'NL-CPO', trace }, pushed, async () => async () => {});
  created.follow(store.head());
  await created.followed(store.head());
  await push(hub);
  await pass(hub, minuteMs);
  t.strictSame(countsOf(await of(hub, 'NL-CPO')), ['10:00 2 0 0']);
  t.strictSame(countsOf(await of(hub, 'NL-EMS')), ['10:00 0 2 0']);
});
