/**
 * Whatever is pushed, however receivers fail, whenever the hub stops or falls: each receiver sees the changes of each object for the
 * first time in the order of the log, and ends with the hub's own state.
 */

import { locationBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin, type Received, type Reply } from '../support/plain-partner.ts';
import { fc } from '../support/property.ts';
import { partOf } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';
import { Holding } from './watched.ts';

type Failing = 'status' | 'cut' | 'cutAfterTaking' | 'hang' | 'throttle';

type Step =
  | { readonly kind: 'push'; readonly object: number; readonly as: 'put' | 'patch' | 'evse' }
  | { readonly kind: 'fail'; readonly receiver: number; readonly how: Failing; readonly times: number }
  | { readonly kind: 'stop' | 'fall' };

const objects = 3;
const receivers = ['EM0', 'EM1'];

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('push' as const),
      object: fc.nat(objects - 1),
      as: fc.constantFrom('put' as const, 'patch' as const, 'evse' as const),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('fail' as const),
      receiver: fc.nat(receivers.length - 1),
      how: fc.constantFrom<Failing>('status', 'cut', 'cutAfterTaking', 'hang', 'throttle'),
      times: fc.integer({ min: 1, max: 3 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'stop' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'fall' as const }) },
);

interface Evse {
  readonly uid: string;
}

type Location = Record<string, unknown> & { evses: Evse[] };

/** An eMSP that keeps what it is sent, as the specification tells it to. */
class Keeper {
  readonly locations = new Map<string, Location>();
  /** `counter` of each change, when it came for the first time. */
  readonly seen = new Map<string, number[]>();
  readonly #failing: Failing[] = [];
  readonly #hanging = new Holding();

  fail(how: Failing, times: number): void {
    for (let n = 0; n < times; n++) this.#failing.push(how);
  }

  readonly answer = (received: Received): Reply | Promise<Reply> => {
    const [, id = '', uid] = /\/NL\/CPO\/([^/]+)(?:\/([^/]+))?$/.exec(received.path) ?? [];
    const change = JSON.parse(received.body) as Location & { counter: number };
    const seen = this.seen.get(id) ?? [];
    if (!seen.includes(change.counter)) this.seen.set(id, [...seen, change.counter]);
    const failing = this.#failing.shift();
    if (failing === undefined || failing === 'cutAfterTaking') this.#take(received.method, id, uid, change);
    if (failing === 'status') return { status: 500 };
    if (failing === 'throttle') return { status: 429, headers: { 'Retry-After': '0' } };
    if (failing === 'hang') return this.#hanging.answer(received);
    return failing ? { isCut: true } : {};
  };

  #take(method: string, id: string, uid: string | undefined, change: Location): void {
    const before = this.locations.get(id);
    if (method === 'PUT') this.locations.set(id, change);
    else if (!before) throw new Error(`PATCH of ${id}, which was never sent`);
    else if (uid === undefined) this.locations.set(id, { ...before, ...change });
    else {
      const evses = before.evses.map((evse) => (evse.uid === uid ? { ...evse, ...change } : evse));
      this.locations.set(id, { ...before, evses, last_updated: change.last_updated });
    }
  }
}

async function holds(t: Test, steps: readonly Step[]): Promise<void> {
  const dir = directoryFor(t);
  const env = {
    ...{ HUB_RETRY_SCHEDULE_S: '0.02,0.05,0.1', HUB_CIRCUIT_OPEN_MS: '20', HUB_DELIVERY_TIMEOUT_MS: '250' },
  };
  let hub = await hubFor(t, env, {}, dir);
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const keepers = receivers.map(() => new Keeper());
  for (const [n, partyId] of receivers.entries()) {
    const answer = keepers[n]?.answer ?? (() => ({}));
    await partnerFor(t, hub, { role: 'EMSP', countryCode: 'NL', partyId, answer });
    await admin(hub, 'PUT', `/routes/NL-${partyId}/NL-CPO`, { active: true });
  }

  /** Of each object, the changes that were acknowledged. */
  const pushed = new Map<string, number[]>();
  let counter = 0;
  async function push(object: number, as: 'put' | 'patch' | 'evse'): Promise<void> {
    const id = `L${object}`;
    const isNew = !pushed.has(id);
    const last_updated = new Date(Date.parse('2026-01-02T03:00:00Z') + ++counter * 1000).toISOString();
    const path = `/2.2.1/locations/NL/CPO/${id}`;
    const [method, target, body] =
      isNew || as === 'put'
        ? (['PUT', path, locationBody(id, { counter, last_updated })] as const)
        : (['PATCH', as === 'evse' ? `${path}/EVSE1` : path, { counter, last_updated }] as const);
    await cpo.push(method, target, body);
    pushed.set(id, [...(pushed.get(id) ?? []), counter]);
  }

  for (const one of steps) {
    if (one.kind === 'push') await push(one.object, one.as);
    else if (one.kind === 'fail') keepers[one.receiver]?.fail(one.how, one.times);
    else {
      // A fall: from one moment on nothing is remembered any more, though answers may still come in.
      if (one.kind === 'fall') await hub.created.context.store.close();
      await hub.close().catch(() => {});
      hub = await hubFor(t, env, {}, dir);
      cpo.moveTo(hub);
    }
  }
  await quiet(hub);

  for (const [n, keeper] of keepers.entries()) {
    for (const [id, counters] of pushed) {
      const { json } = await cpo.call('GET', `/2.2.1/locations/NL/CPO/${id}`);
      const title = `${receivers[n]} ${id}`;
      if (keeper.seen.get(id)?.join() !== counters.join())
        throw new Error(`${title} came as ${keeper.seen.get(id)?.join()} instead of ${counters.join()}`);
      const [kept, stored] = [keeper.locations.get(id), json.data];
      if (!t.same(kept, stored, `${title} is what the hub has`)) throw new Error(`${title} differs`);
    }
  }
  await hub.close();
}

t.test('each receiver gets each object in the order of the log and ends with the state of the hub', async (t) => {
  let run = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 8, maxLength: 30 }), async (steps) => {
      await t.test(`run ${++run}: ${steps.length} steps`, async (t) => holds(t, steps));
      if (!t.passing()) throw new Error('see the run above');
    }),
    // No shrinking: each run is a whole hub. The seed is printed.
    { numRuns: partOf(30) + 1, endOnFailure: true },
  );
});
