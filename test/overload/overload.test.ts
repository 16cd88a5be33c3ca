/**
 * The verdict on a request by figures alone, and the counting of what was taken.
 */

import { HubError } from '../../src/domain/errors.ts';
import { atOnce } from '../../src/domain/json-text.ts';
import { nextTurn } from '../../src/kit/system-clock.ts';
import { inTurns, largeTurn, largeTurns, perTurn } from '../../src/kit/turns.ts';
import { admission } from '../../src/ocpi/admission.ts';
import { judge, type Load, requestsMax, scalesFor, type Urgency } from '../../src/ocpi/overload.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const mebibyte = 1024 * 1024;
const scales = scalesFor(64 * mebibyte);
const idle: Load = { requests: 0, ofPartner: 0, bytes: 0, heap: 0.3, loopDelayMs: 2, forwardingMs: 0 };

/** `take`, `pause` or the figure for which it is shed. */
function verdictOn(urgency: Urgency, load: Partial<Load>): string {
  const verdict = judge(urgency, { ...idle, ...load }, scales);
  if (verdict.kind === 'shed') return verdict.signal;
  return verdict.pauseMs > 0 ? 'pause' : 'take';
}

t.test(
  'lists are refused first, then pushes wait and are refused, requests of a waiting driver come last [OVERLOAD-1]',
  async (t) => {
    const rows: [load: Partial<Load>, list: string, push: string, driver: string][] = [
      [{}, 'take', 'take', 'take'],
      [{ requests: requestsMax * 0.4 }, 'take', 'take', 'take'],
      [{ requests: requestsMax * 0.5 }, 'requests', 'pause', 'take'],
      [{ requests: requestsMax * 0.8 }, 'requests', 'requests', 'take'],
      [{ requests: requestsMax }, 'requests', 'requests', 'requests'],
      [{ ofPartner: requestsMax * 0.125 }, 'ofPartner', 'pause', 'take'],
      [{ ofPartner: requestsMax * 0.2 }, 'ofPartner', 'ofPartner', 'take'],
      [{ ofPartner: requestsMax * 0.25 }, 'ofPartner', 'ofPartner', 'ofPartner'],
      [{ bytes: 31 * mebibyte }, 'take', 'take', 'take'],
      [{ bytes: 32 * mebibyte }, 'bytes', 'pause', 'take'],
      [{ bytes: 52 * mebibyte }, 'bytes', 'bytes', 'take'],
      [{ bytes: 64 * mebibyte }, 'bytes', 'bytes', 'bytes'],
      [{ heap: 0.8 }, 'take', 'take', 'take'],
      [{ heap: 0.83 }, 'heap', 'pause', 'take'],
      [{ heap: 0.91 }, 'heap', 'heap', 'take'],
      [{ heap: 0.96 }, 'heap', 'heap', 'heap'],
      [{ loopDelayMs: 400 }, 'take', 'take', 'take'],
      [{ loopDelayMs: 600 }, 'loopDelayMs', 'pause', 'take'],
      [{ loopDelayMs: 900 }, 'loopDelayMs', 'loopDelayMs', 'take'],
      [{ loopDelayMs: 1000 }, 'loopDelayMs', 'loopDelayMs', 'loopDelayMs'],
      [{ forwardingMs: 16 }, 'take', 'take', 'take'],
      [{ forwardingMs: 100 }, 'take', 'pause', 'take'],
      [{ forwardingMs: 10_000 }, 'forwardingMs', 'pause', 'take'],
      [{ forwardingMs: 16_000 }, 'forwardingMs', 'forwardingMs', 'take'],
      [{ forwardingMs: 60_000 }, 'forwardingMs', 'forwardingMs', 'take'],
      [{ heap: 0.85, loopDelayMs: 900 }, 'loopDelayMs', 'loopDelayMs', 'take'],
    ];
    for (const [load, ...expected] of rows) {
      const found = (['list', 'push', 'driver'] as const).map((urgency) => verdictOn(urgency, load));
      t.strictSame(found, expected, JSON.stringify(load));
    }
  },
);

t.test('every refusal has Retry-After [D2]', async (t) => {
  for (const urgency of ['list', 'push', 'driver'] as const) {
    const verdict = judge(urgency, { ...idle, heap: 1 }, scales);
    t.equal(verdict.kind, 'shed');
    if (verdict.kind === 'shed') t.ok(verdict.retryAfterS >= 1, urgency);
  }
});

t.test('a push waits a quarter of the forwarding lag, at most a second [OVERLOAD-3]', async (t) => {
  const waits = (forwardingMs: number, urgency: Urgency = 'push') => {
    const verdict = judge(urgency, { ...idle, forwardingMs }, scales);
    return verdict.kind === 'take' ? verdict.pauseMs : verdict.signal;
  };
  t.strictSame(
    [0, 16, 40, 400, 3_000, 9_000].map((lag) => waits(lag)),
    [0, 0, 10, 100, 750, 1_000],
  );
  t.equal(waits(9_000, 'driver'), 0);
});

function counted(bytesMax = 10 * mebibyte) {
  const shed: string[] = [];
  const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
  return { shed, ...admission({ felt, bytesMax, shed: (urgency, signal) => shed.push(`${urgency} ${signal}`) }) };
}

const unavailable = (error: unknown) => error instanceof HubError && error.code === 'unavailable';

/** How many of a kind one partner gets in at once. */
function fill(take: ReturnType<typeof counted>['take'], partner: string, urgency: Urgency): number {
  for (let count = 0; ; count++) {
    try {
      take(partner, urgency);
    } catch (error) {
      if (!unavailable(error)) throw error;
      return count;
    }
  }
}

t.test('one partner cannot take the room of the others [OVERLOAD-4]', async (t) => {
  const { take, shed } = counted();
  t.equal(fill(take, 'NL-CPO', 'push'), Math.ceil(requestsMax * 0.2));
  t.strictSame(shed, ['push ofPartner']);
  t.ok(take('NL-EMS', 'list'), 'another one is served as before, lists included');
  t.ok(take('NL-CPO', 'driver'), 'and its own drivers as well');
});

t.test('room is taken until both the work and the answer have ended [ADMISSION-1]', async (t) => {
  const { take, shares } = counted();
  const held = () => shares().bytes * 10 * mebibyte;
  const first = take('NL-CPO', 'push');
  t.equal(first.hold(mebibyte), true);
  t.equal(held(), mebibyte);
  let end = () => {};
  const work = first.work(() => new Promise<void>((resolve) => (end = resolve)));
  first.closed();
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(held(), mebibyte, 'its caller has gone, its work has not');
  end();
  await work;
  t.equal(held(), 0);
  t.equal(shares().requests, 0);

  const second = take('NL-CPO', 'push');
  await second.work(async () => second.answer(2 * mebibyte));
  t.equal(held(), 2 * mebibyte, 'its work is done, its answer is on the way');
  second.closed();
  second.closed();
  t.equal(held(), 0, 'and is counted off once');
  t.equal(shares().ofPartner, 0);

  const [third, other] = [take('NL-CPO', 'push'), take('NL-CPO', 'push')];
  third.closed();
  third.hold(mebibyte);
  await third.work(async () => {});
  t.equal(held(), 0, 'its work began when its caller had gone');
  t.equal(shares().requests, 1 / requestsMax, 'it is counted off once, and the other one stays');
  other.closed();
});

t.test('bytes count as they arrive; a body without room is refused, a single one never [ADMISSION-2]', async (t) => {
  const { take, shares, shed } = counted(mebibyte);
  const lone = take('NL-CPO', 'push');
  t.equal(lone.hold(4 * mebibyte), true, 'a location may be larger than all the room');
  lone.closed();
  const [one, two] = [take('NL-CPO', 'push'), take('NL-TWO', 'push')];
  t.equal(one.hold(mebibyte / 2), true);
  t.equal(two.hold(mebibyte / 4), true);
  t.equal(two.hold(mebibyte / 4), false);
  t.strictSame(shed, ['push bytes']);
  t.equal(shares().bytes, 0.5, 'nothing is kept of it');
  one.hold(mebibyte * 0.4);
  t.equal(take('NL-EMS', 'driver').hold(mebibyte / 20), true, 'the last of the room is for drivers');
});

t.test('lists are read four at a time, two of a partner, in order, also when one fails [ADMISSION-3]', async (t) => {
  const { take } = counted();
  const running: number[] = [];
  const ends: (() => void)[] = [];
  const all = Array.from({ length: 9 }, (_, number) =>
    take(number < 2 ? 'NL-ONE' : number < 7 ? 'NL-EMS' : 'NL-TWO', 'list')
      .work(async () => {
        running.push(number);
        await new Promise<void>((resolve) => ends.push(resolve));
        if (number === 1) throw new Error('unreadable');
        return number;
      })
      .catch(() => 'failed'),
  );
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  await turn();
  t.strictSame(running, [0, 1, 2, 3]);
  ends[1]?.();
  await turn();
  t.strictSame(running, [0, 1, 2, 3, 7], "the next turn is another partner's, in whatever order they came");
  while (ends.length < all.length || running.length < all.length) {
    for (const end of ends) end();
    await turn();
  }
  for (const end of ends) end();
  t.strictSame(await Promise.all(all), [0, 'failed', 2, 3, 4, 5, 6, 7, 8]);
});

t.test(
  'room that others hold refuses nothing of a partner that holds nothing, while a tenth is free [ADMISSION-4]',
  async (t) => {
    const { take, shed } = counted();
    for (const partner of ['NL-AAA', 'NL-BBB', 'NL-CCC']) t.ok(take(partner, 'push').hold(2.25 * mebibyte));
    t.throws(() => take('NL-AAA', 'list'), { code: 'unavailable' }, 'who holds some');
    t.strictSame(shed, ['list bytes']);
    t.equal(await take('NL-EMS', 'list').work(() => 'read'), 'read');
    t.equal(take('NL-EMS', 'push').pauseMs, 0);
    take('NL-DDD', 'push').hold(2.25 * mebibyte);
    t.throws(() => take('NL-EMS', 'list'), { code: 'unavailable' }, 'a tenth is left');
  },
);

t.test('forwarding lag delays and refuses a partner as far as its own deliveries wait [ADMISSION-7]', async (t) => {
  let felt = { heap: 0, loopDelayMs: 0, forwardingMs: 30_000 };
  let asked = 0;
  const own = new Map([
    ['NL-FAN', 25_000],
    ['NL-CPO', 400],
  ]);
  const forwardingOfMs = (partner: string) => {
    asked += 1;
    return own.get(partner) ?? 0;
  };
  const { take } = admission({ felt: () => felt, forwardingOfMs, bytesMax: mebibyte, shed: () => {} });
  t.throws(() => take('NL-FAN', 'push'), { code: 'unavailable' });
  t.throws(() => take('NL-FAN', 'list'), { code: 'unavailable' });
  t.ok(take('NL-FAN', 'driver'), 'as before');
  t.equal(take('NL-CPO', 'push').pauseMs, 100, 'a quarter of its own');
  t.equal(take('NL-EMS', 'push').pauseMs, 0, 'nothing of it waits');
  t.equal(await take('NL-EMS', 'list').work(() => 'read'), 'read');
  t.equal(asked, 6, 'not for what a driver waits for');
  felt = { ...felt, forwardingMs: 200 };
  t.equal(take('NL-FAN', 'push').pauseMs, 50, 'nobody waits longer than for that of the hub');
  felt = { ...felt, forwardingMs: 0 };
  t.equal(take('NL-FAN', 'push').pauseMs, 0);
  t.equal(asked, 7, 'a hub that does not lag asks nothing');
});

t.test('an answer whose caller has gone keeps no room [ADMISSION-1]', async (t) => {
  const { take, shares } = counted();
  const gone = take('NL-CPO', 'push');
  gone.closed();
  await gone.work(async () => {});
  gone.answer(mebibyte);
  t.equal(shares().bytes, 0);
});

t.test(
  'a partner has a quarter of the room, and always one request; the others notice nothing [ADMISSION-4]',
  async (t) => {
    const { take, shares, shed } = counted(10 * mebibyte);
    const reading = (partner: string, bytes: number) => {
      const pass = take(partner, 'push');
      return pass.work(() => pass.reserve(bytes)).then(() => pass);
    };
    const first = await reading('NL-EMS', 2 * mebibyte);
    t.equal(shares().bytes, 0.2, 'room is taken before anything is read');
    await t.rejects(reading('NL-EMS', mebibyte), { code: 'unavailable' }, 'what was refused keeps no room');
    const refused: unknown = await reading('NL-EMS', mebibyte).catch((error: unknown) => error);
    t.ok(refused instanceof HubError && (refused.detail.retryAfterS ?? 0) >= 1, 'it says when to come again');
    t.equal(take('NL-EMS', 'push').hold(mebibyte), false, 'nor may its bodies have it');
    t.equal(take('NL-EMS', 'driver').hold(mebibyte / 2), true, 'its drivers may have the rest of its quarter');
    t.equal(take('NL-EMS', 'driver').hold(mebibyte / 10), false, 'and no more');
    t.ok(await reading('NL-CPO', 4 * mebibyte), 'another partner is served, also what is larger than its quarter');
    t.ok(shed.every((one) => one.endsWith(' bytes')));
    first.answer(2 * mebibyte);
    t.equal(shares().bytes, 0.65, 'what is sent is what was read');
    first.closed();
    t.ok(await reading('NL-EMS', mebibyte), 'its room is its own again when its answer has ended');
  },
);

t.test('a request that reads several objects at once takes one turn, and returns it [ADMISSION-3]', async (t) => {
  const { take } = counted();
  for (let round = 0; round < 3; round++) {
    const pass = take('NL-EMS', 'push');
    await pass.work(() => Promise.all([pass.reserve(1), pass.reserve(1)]));
    pass.closed();
  }
  const settled: string[] = [];
  void take('NL-EMS', 'list').work(() => settled.push('read'));
  await new Promise((resolve) => setImmediate(resolve));
  t.strictSame(settled, ['read'], 'turns are free');
});

t.test('a read whose text is not needed releases its room and its turn when it ends [ADMISSION-3]', async (t) => {
  const { take, shares } = counted(10 * mebibyte);
  const going: Promise<void>[] = [];
  let end = () => {};
  const forwarded = new Promise<void>((resolve) => {
    end = resolve;
  });
  const reads: number[] = [];
  for (let n = 0; n < 3; n++) {
    const pass = take('NL-EMS', 'driver');
    const work = async () => {
      await pass.reading(mebibyte / 2, async () => void reads.push(shares().bytes));
      await t.rejects(
        pass.reading(mebibyte / 2, () => Promise.reject(new Error('unreadable'))),
        /unreadable/,
      );
      await forwarded;
    };
    going.push(pass.work(work).finally(pass.closed));
  }
  await eventually('all have read', async () => reads.length === 3 && shares().bytes === 0);
  t.ok(reads.every((share) => share >= 0.05));
  const list = take('NL-EMS', 'list');
  t.equal(await list.work(() => 'read'), 'read', 'though none has ended');
  end();
  await Promise.all(going);
});

/** Lets promises go on within a turn. */
const settle = async () => {
  for (let i = 0; i < 20; i++) await Promise.resolve();
};

/** Turns of the event loop that pass by hand. */
function turnsByHand() {
  const waiting: (() => void)[] = [];
  return {
    turnOf: () => new Promise<void>((next) => waiting.push(next)),
    async pass(turns: number) {
      for (let turn = 0; turn < turns; turn++) {
        await settle();
        for (const next of waiting.splice(0)) next();
      }
      await settle();
    },
  };
}

t.test(
  '[ADMISSION-6] the parsing of one large body starts once in four turns of the event loop, that of small ones at once',
  async (t) => {
    const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
    const { turnOf, pass: passTurns } = turnsByHand();
    const { take } = admission({
      felt,
      bytesMax: 20 * mebibyte,
      shed: () => {},
      large: largeTurns(turnOf, new SimulatedClock()),
    });
    const begun: string[] = [];
    const start = (partner: string, bytes: number) => {
      const pass = take(partner, 'push');
      t.ok(pass.hold(bytes));
      function* parsing(): Generator<void> {
        begun.push(partner);
        yield;
      }
      // What comes behind the parsing may take for good: no other body waits for it.
      void pass.work(async () => {
        await (pass.parse(parsing) ?? atOnce(parsing()));
        return new Promise(() => {});
      });
      pass.closed();
    };
    for (let n = 0; n < 3; n++) start('NL-AAA', mebibyte);
    start('NL-BBB', mebibyte);
    start('NL-CCC', 65_536);
    start('NL-DDD', 100);
    for (const expected of [['NL-AAA', 'NL-CCC', 'NL-DDD'], ['NL-AAA'], ['NL-BBB'], ['NL-AAA']]) {
      await settle();
      t.strictSame(begun.splice(0).sort(), expected);
      await passTurns(3);
      t.strictSame(begun, [], 'nor in the three turns behind it');
      await passTurns(1);
    }
  },
);

t.test('[ADMISSION-6] a list with a large body returns its turn', async (t) => {
  const { take } = counted(20 * mebibyte);
  const lists = Array.from({ length: 3 }, () => take('NL-AAA', 'list'));
  for (const pass of lists) t.ok(pass.hold(mebibyte));
  t.strictSame(await Promise.all(lists.map((pass) => pass.work(() => 'read'))), ['read', 'read', 'read']);
});

t.test('[ADMISSION-3] so does a list with a large body that is refused', async (t) => {
  const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
  const { take } = admission({ felt, bytesMax: 20 * mebibyte, pageMax: 20 * mebibyte, shed: () => {} });
  const hold = (urgency: Urgency) => {
    const pass = take('NL-AAA', urgency);
    t.ok(pass.hold(mebibyte));
    return pass;
  };
  const lists = Array.from({ length: 3 }, () => hold('list'));
  for (const pass of lists)
    await t.rejects(
      pass.work(() => 'read'),
      { code: 'unavailable' },
    );
  t.equal(await hold('push').work(() => 'stored'), 'stored');
});

t.test(
  '[TURNS-5] a large body is parsed in turns that are far apart, and the next one waits for its end',
  async (t) => {
    const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
    const { turnOf, pass: passTurns } = turnsByHand();
    const clock = new SimulatedClock();
    const { take } = admission({
      ...{ felt, bytesMax: 20 * mebibyte, shed: () => {} },
      large: largeTurns(turnOf, clock),
    });
    const done: string[] = [];
    function* pieces(name: string): Generator<void> {
      for (let n = 1; n <= 3; n++) {
        done.push(`${name}${n}`);
        const endsAt = performance.now() + 3;
        while (performance.now() < endsAt);
        yield;
      }
    }
    for (const name of ['a', 'b', 'c']) {
      const pass = take('NL-AAA', 'push');
      t.ok(pass.hold(mebibyte));
      void pass.work(async () => {
        await pass.parse(() => pieces(name));
        done.push(`${name} checked`);
      });
    }
    const small = take('NL-AAA', 'push');
    t.ok(small.hold(100));
    t.equal(
      small.parse(() => pieces('small')),
      null,
    );
    for (let turn = 0; turn < 20; turn++) {
      await settle();
      t.ok(done.length <= turn + 1, `turn ${turn}: ${done.join(', ')}`);
      await passTurns(4);
      // The rest behind a piece.
      clock.advance(1_000);
    }
    t.strictSame(
      done.filter((name) => !name.includes('c')),
      ['a1', 'b1', 'a2', 'b2', 'a3', 'b3', 'a checked', 'b checked'].filter((name) => !name.includes('c')),
    );
  },
);

t.test('[TURNS-3] after a large text the process pauses for eight times as long', async (t) => {
  const { turnOf, pass: passTurns } = turnsByHand();
  const clock = new SimulatedClock();
  const large = largeTurns(turnOf, clock);
  let begun = 0;
  const begin = async () => {
    await large('NL-AAA');
    begun++;
  };
  for (let n = 0; n < 4; n++) void begin();
  await settle();
  t.equal(begun, 1);
  clock.advance(10);
  await passTurns(4);
  clock.advance(79);
  await settle();
  t.equal(begun, 1, 'its turn took 10 ms');
  clock.advance(1);
  await settle();
  t.equal(begun, 2);
  await passTurns(4);
  t.equal(begun, 3, 'no rest behind one that took no time');
  clock.advance(10_000);
  await passTurns(4);
  t.equal(begun, 4, 'nor a long one behind a process that stood still');
});

t.test(
  '[TURNS-4] after a piece it pauses for eight times as long as that took, and no more turns, whatever else its turn had',
  async (t) => {
    const { turnOf, pass: passTurns } = turnsByHand();
    const clock = new SimulatedClock();
    const large = largeTurns(turnOf, clock);
    let begun = 0;
    function* pieces(): Generator<void> {
      for (let n = 0; n < 3; n++) {
        begun++;
        clock.advance(2);
        yield;
      }
    }
    await large('NL-AAA');
    const done = inTurns(pieces(), (tookMs) => large('NL-AAA', tookMs), clock);
    let isNext = false;
    void large('NL-BBB')?.then(() => {
      isNext = true;
    });
    clock.advance(50);
    await passTurns(1);
    t.equal(begun, 2, 'a rest of 16 ms, not of 416, and they are over');
    await passTurns(1);
    clock.advance(15);
    await settle();
    t.equal(isNext, false);
    clock.advance(1);
    await settle();
    t.equal(isNext, true);
    await passTurns(4);
    t.equal(begun, 3);
    await passTurns(1);
    clock.advance(16);
    await done;
  },
);

t.test(
  '[ADMISSION-6] requests of a waiting driver are read at once, beside large texts that wait for their turns',
  async (t) => {
    const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
    const { turnOf } = turnsByHand();
    const { take } = admission({
      ...{ felt, bytesMax: 100 * mebibyte, shed: () => {} },
      large: largeTurns(turnOf, new SimulatedClock()),
    });
    const begun: string[] = [];
    const start = (partner: string, urgency: Urgency) => {
      const pass = take(partner, urgency);
      void pass.work(async () => {
        await pass.reserve(mebibyte);
        begun.push(`${partner} ${urgency}`);
        await new Promise(() => {});
      });
    };
    for (const partner of ['NL-AAA', 'NL-BBB', 'NL-CCC', 'NL-DDD', 'NL-EEE']) start(partner, 'push');
    start('NL-FFF', 'driver');
    await settle();
    t.strictSame(begun.sort(), ['NL-AAA push', 'NL-FFF driver']);
  },
);

t.test('[ADMISSION-6] the reading of one large object starts once in four turns of the event loop', async (t) => {
  const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
  const { turnOf, pass: passTurns } = turnsByHand();
  const { take } = admission({
    felt,
    bytesMax: 10 * mebibyte,
    shed: () => {},
    large: largeTurns(turnOf, new SimulatedClock()),
  });
  const begun: string[] = [];
  for (const partner of ['NL-AAA', 'NL-BBB', 'NL-CCC']) {
    const pass = take(partner, 'push');
    void pass.work(async () => {
      await pass.reserve(mebibyte);
      begun.push(partner);
    });
    pass.closed();
  }
  for (const partner of ['NL-AAA', 'NL-BBB', 'NL-CCC']) {
    await settle();
    t.strictSame(begun.splice(0), [partner]);
    await passTurns(4);
  }
});

t.test('[ADMISSION-6] a large body is checked in another turn than the one in which it is parsed', async (t) => {
  const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
  const { turnOf, pass: passTurns } = turnsByHand();
  const { take } = admission({
    felt,
    bytesMax: 20 * mebibyte,
    shed: () => {},
    large: largeTurns(turnOf, new SimulatedClock()),
  });
  const begun: string[] = [];
  const start = (partner: string, bytes: number) => {
    const pass = take(partner, 'push');
    t.ok(pass.hold(bytes));
    void pass.work(async () => {
      await (pass.parse(() => parsing(partner)) ?? atOnce(parsing(partner)));
      begun.push(`${partner} checked`);
    });
    pass.closed();
  };
  function* parsing(partner: string): Generator<void> {
    begun.push(`${partner} parsed`);
    yield;
  }
  start('NL-AAA', mebibyte);
  start('NL-BBB', mebibyte);
  start('NL-CCC', 65_536);
  const small = ['NL-CCC parsed', 'NL-CCC checked'];
  for (const expected of [[...small, 'NL-AAA parsed'], ['NL-BBB parsed'], ['NL-AAA checked'], ['NL-BBB checked']]) {
    await settle();
    t.strictSame(begun.splice(0).sort(), expected.sort());
    await passTurns(3);
    t.strictSame(begun, [], 'nor in the three turns behind it');
    await passTurns(1);
  }
});

t.test('[TURNS-2] a large body waits for other large texts of the process', async (t) => {
  const { take } = counted(20 * mebibyte);
  await largeTurn('NL-EMS');
  let isBegun = false;
  const pass = take('NL-CPO', 'push');
  t.ok(pass.hold(mebibyte));
  const work = pass.work(() => {
    isBegun = true;
  });
  for (let n = 0; n < 3; n++) await nextTurn();
  t.notOk(isBegun, 'nor in the three turns behind it');
  await work;
  pass.closed();
});

t.test('[TURNS-1] users take turns, and each is served first in, first out', async (t) => {
  const { turnOf, pass: passTurns } = turnsByHand();
  const inTurn = perTurn({ ofAll: 2 }, turnOf);
  const begun: string[] = [];
  const ask = (name: string) => {
    const turn = inTurn(true, name[0]);
    if (turn === null) begun.push(name);
    else void turn.then(() => begun.push(name));
  };
  for (const name of ['A1', 'A2', 'A3', 'A4', 'A5', 'B1', 'C1', 'C2']) ask(name);
  for (const expected of [['A1', 'A2'], ['A3', 'B1'], ['C1', 'A4'], ['C2', 'A5'], []]) {
    await settle();
    t.strictSame(begun.splice(0), expected);
    await passTurns(1);
  }
  ask('B2');
  t.strictSame(begun, ['B2'], 'nobody waits any more');
});

/** An admission whose turns of the event loop the test begins. */
function turnedByHand() {
  const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
  const turns: (() => void)[] = [];
  const turnOf = () => new Promise<void>((next) => turns.push(next));
  const { take } = admission({ felt, bytesMax: 10 * mebibyte, shed: () => {}, turnOf });
  /** Lets promises go on within the turn. */
  const settle = async () => {
    for (let i = 0; i < 20; i++) await Promise.resolve();
  };
  const turn = async () => {
    for (const next of turns.splice(0)) next();
    await settle();
  };
  return { take, turns, settle, turn };
}

t.test(
  '[ADMISSION-5] 32 requests of a partner for waiting drivers start in a turn while one of another partner waits',
  async (t) => {
    const { take, turns, settle, turn } = turnedByHand();
    const begun: string[] = [];
    /** All of them are admitted before the first begins, and end as soon as they have begun. */
    const start = (partner: string, count: number) => {
      const passes = Array.from({ length: count }, () => take(partner, 'driver'));
      for (const [n, pass] of passes.entries()) {
        void pass.work(() => void begun.push(`${partner} ${n}`));
        pass.closed();
      }
    };
    const names = (partner: string, from: number, to: number) =>
      Array.from({ length: to - from }, (_, n) => `${partner} ${from + n}`);

    start('NL-CPO', 100);
    await settle();
    t.strictSame(begun.splice(0), names('NL-CPO', 0, 100), 'no other waits: nothing is held back');
    const other = take('NL-OTH', 'driver');
    start('NL-CPO', 32);
    await settle();
    t.strictSame(begun.splice(0), names('NL-CPO', 0, 32), 'as many begin at once');
    await turn();
    start('NL-CPO', 100);
    start('NL-ONE', 1);
    await settle();
    t.ok(begun.splice(0).includes('NL-ONE 0'), 'no other partner waits');
    const later: number[] = [];
    while (turns.length > 0) {
      await turn();
      later.push(begun.splice(0).length);
    }
    t.ok(Math.max(...later) <= 32, `${later}`);
    t.equal(
      later.reduce((sum, count) => sum + count, 32),
      100,
      'all of them begin',
    );
    start('NL-CPO', 1);
    await settle();
    t.strictSame(begun, ['NL-CPO 0'], 'and the next one at once');
    other.closed();
  },
);

t.test(
  '[ADMISSION-5] while a driver waits, eight pushes start in a turn of the event loop, in order; otherwise all at once',
  async (t) => {
    const { take, turns, settle, turn } = turnedByHand();
    const begun: string[] = [];
    const start = (urgency: Urgency, name: string) => {
      const pass = take('NL-CPO', urgency);
      void pass.work(() => void begun.push(name));
      pass.closed();
    };
    const pushes = (count: number, from = 0) => {
      for (let i = from; i < from + count; i++) start('push', `push ${i}`);
    };
    const names = (count: number) => Array.from({ length: count }, (_, i) => `push ${i}`);

    pushes(20);
    await settle();
    t.strictSame(begun.splice(0), names(20), 'nobody waits: nothing is held back');
    t.equal(turns.length, 0);

    let answer = () => {};
    const driver = take('NL-CPO', 'driver');
    void driver.work(
      () =>
        new Promise<void>((done) => {
          answer = done;
        }),
    );
    pushes(20);
    start('driver', 'driver');
    start('list', 'list');
    await settle();
    t.strictSame(begun.splice(0).sort(), ['driver', 'list', ...names(8)].sort(), 'eight, and what is no push at once');
    await turn();
    t.equal(begun.splice(0).join(), names(16).slice(8).join());
    pushes(3, 20);
    await settle();
    t.strictSame(begun, [], 'those that arrive later wait behind those that wait');
    answer();
    driver.closed();
    await settle();
    pushes(1, 23);
    await turn();
    t.equal(
      begun.splice(0).join(),
      ['push 16', 'push 17', 'push 18', 'push 19', 'push 20', 'push 21', 'push 22', 'push 23'].join(),
    );
    await turn();
    await turn();
    t.equal(turns.length, 0, 'and then no turn is counted any more');
    pushes(9);
    await settle();
    t.equal(begun.length, 9);
  },
);

t.test('pages of a list in progress count for their partner [ADMISSION-4]', async (t) => {
  const ends: (() => void)[] = [];
  const felt = () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 });
  const { take, shares, partners } = admission({
    felt,
    bytesMax: 10 * mebibyte,
    pageMax: mebibyte,
    shed: () => {},
  });
  const page = async (partner: string) => {
    const pass = take(partner, 'list');
    await pass.work(() => new Promise<void>((resolve) => ends.push(resolve)));
    return pass;
  };
  const unread = take('NL-EMS', 'list');
  unread.answer(1.2 * mebibyte);
  const one = page('NL-EMS');
  await t.rejects(page('NL-EMS'), { code: 'unavailable' }, 'with an answer that is not taken there is room for one');
  const other = page('NL-TWO');
  await new Promise((resolve) => setImmediate(resolve));
  for (const end of ends) end();
  t.ok(await Promise.all([one, other]));
  t.equal(shares().bytes, 0.12, 'read, a page counts what it is');
  t.same([...partners().bytes.keys()], ['NL-EMS'], 'and nothing is reserved any more');
  unread.answer(0.1 * mebibyte);
  await t.rejects(page('NL-EMS'), { code: 'unavailable' }, 'a tenth of the quarter is kept for drivers');
});
