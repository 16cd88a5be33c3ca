/**
 * The wall clock a day ahead or back: every wait of a hub ends when it would have ended, nothing opens, closes or
 * expires, and a restart changes nothing of that. Time is a simulated clock; sockets and disk are real.
 */
import { join } from 'node:path';
import type { Replaced } from '../../src/main.ts';
import { asyncCircuit, deliveriesOf, Holding, putSession } from '../delivery/watched.ts';
import { cdrBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { closed, hubFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { callsTo, itemsOf, quiet } from '../support/observed.ts';
import { admin, type PlainPartner, type PlainPartnerOptions } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';
import { inTime } from './retention-scene.ts';

const begun = '2026-03-01T10:00:00Z';
const minuteMs = 60_000;
const dayMs = 86_400_000;
const cpoParty = { country_code: 'NL', party_id: 'CPO' };
/** A retry comes after a minute, and no circuit opens by it. */
const env = { HUB_RETRY_JITTER: '0', HUB_RETRY_SCHEDULE_S: '60', HUB_CIRCUIT_FAILURES: '1000' };

interface Scene {
  readonly hub: TestHub;
  readonly clock: SimulatedClock;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
}

type Answers = { readonly cpo?: PlainPartnerOptions['answer']; readonly emsp?: PlainPartnerOptions['answer'] };

async function scene(
  t: Test,
  of: Record<string, string>,
  answers: Answers = {},
  replaced: Replaced = {},
  dir?: string,
) {
  const clock = new SimulatedClock(begun);
  const hub = await hubFor(t, { ...env, ...of }, { clock, ...replaced }, dir);
  return { hub, clock, ...(await routedPair(t, hub, { cpo: accepts, ...answers })) };
}

const accepts: PlainPartnerOptions['answer'] = ({ method }) =>
  method === 'POST' ? { body: { result: 'ACCEPTED', timeout: 30 } } : {};

const command = ({ emsp }: Scene, name: string, of: object) =>
  emsp.call('POST', `/2.2.1/commands/${name}`, { response_url: `${emsp.url}/ocpi/result`, ...of });

async function stopped(of: Scene): Promise<void> {
  await putSession(of.cpo, 'S1', { status: 'ACTIVE' });
  await command(of, 'STOP_SESSION', { session_id: 'S1' });
  await of.hub.settled();
}

/** Somebody sets it right after each time of day that is made of a hub time. */
class RestlessClock extends SimulatedClock {
  isRestless = false;
  #ms: number;

  constructor(startedAt: string, ms: number) {
    super(startedAt);
    this.#ms = ms;
  }

  override stamp(at: number): number {
    const text = super.stamp(at);
    if (this.isRestless) {
      this.step(this.#ms);
      this.#ms = -this.#ms;
    }
    return text;
  }
}

/** Where the case of a session stands: in its grace, or open. */
async function caseOf({ hub }: Scene): Promise<unknown> {
  await hub.settled();
  const [found] = [...(await itemsOf(hub, '/orphans')), ...(await itemsOf(hub, '/orphans?state=GRACE'))];
  return found?.state;
}

/** A wait: how it begins, how long it is, and what is seen until and after its end. */
interface Wait {
  readonly title: string;
  readonly env?: Record<string, string>;
  readonly answers?: () => Answers;
  readonly begin: (scene: Scene) => Promise<void>;
  readonly ms: number;
  readonly seen: (scene: Scene) => Promise<unknown>;
  readonly until: unknown;
  readonly after: unknown;
  /** What is seen once more; `after` when absent. */
  readonly again?: unknown;
}

/** Fails once. */
const failing = (): Answers => {
  let failures = 0;
  return { emsp: () => (failures++ === 0 ? { status: 500 } : {}) };
};

const waits: readonly Wait[] = [
  {
    title: 'a delivery that is tried again',
    answers: failing,
    begin: async ({ cpo, hub }) => {
      await putSession(cpo, 'S1');
      await hub.settled();
    },
    ms: minuteMs,
    seen: async ({ hub }) => {
      await hub.settled();
      return (await deliveriesOf(hub)).map(({ state }) => state);
    },
    until: ['PENDING'],
    after: ['DELIVERED'],
  },
  {
    title: 'an open circuit',
    env: { HUB_CIRCUIT_FAILURES: '1' },
    answers: failing,
    begin: async ({ cpo, hub }) => {
      await putSession(cpo, 'S1');
      await hub.settled();
    },
    ms: 5_000,
    seen: async ({ hub }) => asyncCircuit(hub, 'NL-EMS'),
    until: 'open',
    after: 'halfOpen',
  },
  {
    title: 'the grace of a stopped session, to the sweep after it',
    begin: stopped,
    ms: 2 * minuteMs,
    seen: caseOf,
    until: 'GRACE',
    after: 'OPEN',
    env: { HUB_ORPHAN_GRACE_S: '60', HUB_ORPHAN_SWEEP_S: '120' },
  },
  {
    title: 'a command whose result does not come',
    begin: async (of) => {
      await putSession(of.cpo, 'S1', { status: 'ACTIVE' });
      await command(of, 'STOP_SESSION', { session_id: 'S1' });
      await of.hub.settled();
    },
    ms: 30_000,
    seen: async ({ hub }) => {
      await hub.settled();
      return (await itemsOf(hub, '/commands')).map(({ state }) => state);
    },
    until: ['awaiting'],
    after: ['silent'],
  },
  {
    title: 'the minute of a rate limit',
    env: { HUB_RATE_LISTS_PER_MIN: '1' },
    begin: async ({ emsp }) => void (await emsp.call('GET', '/2.2.1/tariffs')),
    ms: minuteMs,
    seen: async ({ emsp }) => (await emsp.call('GET', '/2.2.1/tariffs')).status,
    until: 429,
    after: 200,
    again: 429,
  },
  {
    title: 'the interval of a probe',
    begin: async ({ cpo }) => void cpo.asked.splice(0),
    ms: minuteMs,
    seen: async ({ cpo, hub }) => {
      await hub.settled();
      return cpo.asked.length;
    },
    until: 0,
    after: 1,
  },
];

for (const ms of [dayMs, -dayMs]) {
  const how = ms > 0 ? 'a day ahead' : 'a day back';
  // Each wait meets one of the two, by turns; at length both.
  let nth = 0;
  const byTurns = () => (nth++ % 2 === Number(ms < 0) ? {} : atLength);

  for (const wait of waits) {
    t.test(`${wait.title}: the wall clock goes ${how}`, byTurns(), async (t) => {
      const of = await scene(t, wait.env ?? {}, wait.answers?.());
      const { hub, clock } = of;
      await wait.begin(of);
      t.strictSame(await wait.seen(of), wait.until, 'it has begun');
      clock.step(ms);
      clock.advance(0);
      await hub.settled();
      t.strictSame(await wait.seen(of), wait.until, 'the step ends it not');
      clock.advance(wait.ms - 1);
      t.strictSame(await wait.seen(of), wait.until, 'nor makes it shorter');
      clock.advance(1);
      t.strictSame(await wait.seen(of), wait.after, 'nor longer');
      clock.step(-ms);
      clock.advance(0);
      t.strictSame(await wait.seen(of), wait.again ?? wait.after, 'and a clock that is put right changes nothing');
    });
  }

  t.test(`a CDR waits ten seconds for its session: the wall clock goes ${how}`, byTurns(), async (t) => {
    const holding = new Holding();
    const { hub, clock, cpo, emsp } = await scene(t, {}, { emsp: holding.answer });
    await putSession(cpo, 'S1');
    await hub.settled(emsp);
    await cpo.push('POST', '/2.2.1/cdrs', cdrBody('C1', { session_id: 'S1' }));
    clock.step(ms);
    clock.advance(9_999);
    await hub.settled(emsp);
    t.equal(callsTo(emsp, 'cdrs').length, 0);
    clock.advance(1);
    await hub.settled(emsp);
    t.equal(callsTo(emsp, 'cdrs').length, 1);
    holding.releaseAll();
    await quiet(hub);
  });

  t.test(`a former token has a day: the wall clock goes ${how}`, byTurns(), async (t) => {
    const { hub, clock, cpo } = await scene(t, { HUB_PROBE_INTERVAL_S: '1000000' });
    const body = { token: cpo.token, url: `${cpo.url}/ocpi/versions`, roles: [{ role: 'CPO', ...cpoParty }] };
    t.equal((await cpo.call('PUT', '/2.2.1/credentials', body)).status, 200);
    clock.step(ms);
    const used = async () => (await cpo.call('GET', '/2.2.1/credentials')).status;
    t.equal(await used(), 200);
    clock.advance(dayMs - 1);
    t.equal(await used(), 200);
    clock.advance(1);
    t.equal(await used(), 401);
    await hub.settled();
  });

  t.test(`the log is kept as long as was said: the wall clock goes ${how}`, byTurns(), async (t) => {
    const of = await scene(t, { HUB_EVENTS_KEEP_DAYS: '1', HUB_PROBE_INTERVAL_S: '1000000' });
    const { hub, clock, cpo } = of;
    await putSession(cpo, 'S1');
    await quiet(hub);
    const { store } = hub.created.context;
    clock.step(ms);
    for (const hours of [1, 23]) {
      clock.advance(hours * 60 * minuteMs);
      await hub.settled();
      t.equal(store.horizon(), 0, 'nothing is a day old');
    }
    // Recorded at a time of day that came twice, it counts as younger than it is, never as older.
    clock.advance(60 * minuteMs + (ms < 0 ? dayMs : 0));
    await inTime(of, 1_000, 'the log is trimmed', () => store.horizon() > 0);
  });

  t.test(
    `the ends of waits are written by one reading of the clock, that goes ${how} and back all the time [CLOCK-3]`,
    byTurns(),
    async (t) => {
      const clock = new RestlessClock(begun, ms);
      const settings = { HUB_ORPHAN_GRACE_S: '60', HUB_ORPHAN_SWEEP_S: '120' };
      const hub = await hubFor(t, { ...env, ...settings }, { clock });
      const of = { hub, clock, ...(await routedPair(t, hub, { cpo: accepts, ...failing() })) };
      clock.isRestless = true;
      await stopped(of);
      clock.isRestless = false;
      const [delivery] = await deliveriesOf(hub);
      const { due_at: due, attempts } = delivery ?? {};
      const first = Date.parse(attempts?.[0]?.at ?? '');
      t.equal(Date.parse(due ?? '') - first, minuteMs, 'of a delivery');
      const [armed] = await itemsOf(hub, '/events?type=orphan.armed');
      const { graceEndsAt } = (armed?.data ?? {}) as { graceEndsAt?: string };
      t.equal(Date.parse(graceEndsAt ?? '') - Date.parse(String(armed?.at)), minuteMs, 'of a grace');
    },
  );

  t.test(`what is owed to a partner that registered anew is sent: the wall clock goes ${how}`, byTurns(), async (t) => {
    const { hub, clock, cpo, emsp } = await scene(t, {});
    await emsp.call('DELETE', '/2.2.1/credentials');
    clock.step(ms);
    clock.advance(minuteMs);
    const { initial_token } = await admin(hub, 'POST', '/parties/NL-EMS/initial-token');
    await emsp.registerAgain(String(initial_token));
    await putSession(cpo, 'S1');
    await quiet(hub);
    t.match(await deliveriesOf(hub), [{ state: 'DELIVERED' }]);
  });

  for (const [when, before, after] of [
    ['before', ms, 0],
    ['while it is down', 0, ms],
  ] as const) {
    t.test(`a restart of the hub, the wall clock goes ${how} ${when}`, byTurns(), async (t) => {
      const dir = join(directoryFor(t), 'data');
      const machine = (bootMs: number, clock: SimulatedClock) => ({
        boot: 'one',
        monotonic: () => bootMs + clock.monotonic(),
      });
      const first = new SimulatedClock(begun);
      const ill = { clock: first, machine: machine(5_000, first) };
      const settings = { HUB_ORPHAN_GRACE_S: '120', HUB_ORPHAN_SWEEP_S: '1', HUB_RETRY_WINDOW_H: '1' };
      let isIll = true;
      const of = await scene(t, settings, { emsp: () => (isIll ? { status: 500 } : {}) }, ill, dir);
      const [hub, { cpo, emsp }] = [of.hub, of];
      await stopped(of);
      t.match(await deliveriesOf(hub), [{ state: 'PENDING' }]);
      if (before !== 0) first.step(before);
      first.advance(2_000);
      await hub.settled();
      await closed(hub, first);
      isIll = false;
      emsp.received.splice(0);
      const passed = first.monotonic() + 1_000;
      const second = new SimulatedClock(new Date(first.wall() + 1_000 + after).toISOString());
      const replaced = { clock: second, machine: machine(5_000 + passed, second) };
      const again = await hubFor(t, { ...env, ...settings }, replaced, dir);
      const seen = async () => {
        await again.settled();
        const [delivery] = await deliveriesOf(again);
        const [command] = await itemsOf(again, '/commands');
        return [delivery?.state, command?.state, await caseOf({ ...of, hub: again })];
      };
      const ends = [30_000, 60_000, 120_000].map((end) => end - passed);
      const [silent = 0, tried = 0, opened = 0] = ends;
      for (const [until, states] of [
        [0, ['PENDING', 'awaiting', 'GRACE']],
        [silent - 1, ['PENDING', 'awaiting', 'GRACE']],
        [silent, ['PENDING', 'silent', 'GRACE']],
        [tried - 1, ['PENDING', 'silent', 'GRACE']],
        [tried, ['DELIVERED', 'silent', 'GRACE']],
        [opened - 1, ['DELIVERED', 'silent', 'GRACE']],
      ] as const) {
        second.advance(until - second.monotonic());
        t.strictSame(await seen(), states, `${until} ms after the restart`);
      }
      await inTime(
        { hub: again, clock: second },
        1_000,
        'a sweep opens the case',
        async () => (await seen())[2] === 'OPEN',
      );
      t.ok(second.monotonic() - opened <= 3_000, 'the next one');
      t.equal(callsTo(emsp, 'sessions').length, 1);
      t.equal(callsTo(cpo, 'commands').length, 1, 'the stop is not sent again');
    });
  }
}

t.test('after a restart on another boot, with the wall clock a day back, no wait exceeds its maximum', async (t) => {
  const dir = join(directoryFor(t), 'data');
  const settings = { HUB_ORPHAN_GRACE_S: '120', HUB_ORPHAN_SWEEP_S: '1' };
  let isIll = true;
  const of = await scene(t, settings, { emsp: () => (isIll ? { status: 500 } : {}) }, {}, dir);
  await stopped(of);
  await closed(of.hub, of.clock);
  isIll = false;
  const clock = new SimulatedClock(new Date(Date.parse(begun) - dayMs).toISOString());
  const again = await hubFor(t, { ...env, ...settings }, { clock }, dir);
  clock.advance(30_000);
  await again.settled();
  t.match(await itemsOf(again, '/commands'), [{ state: 'silent' }]);
  clock.advance(30_000);
  await quiet(again);
  t.match(await deliveriesOf(again), [{ state: 'DELIVERED' }]);
  clock.advance(60_000);
  const isOpen = async () => (await caseOf({ ...of, hub: again })) === 'OPEN';
  await inTime({ hub: again, clock }, 1_000, 'a sweep opens the case', isOpen);
  t.ok(clock.monotonic() <= 123_000);
  of.cpo.moveTo(again);
  await putSession(of.cpo, 'S2');
  await quiet(again);
  t.match(await deliveriesOf(again), [{ state: 'DELIVERED' }, { state: 'DELIVERED' }], 'and nothing new expires');
});
