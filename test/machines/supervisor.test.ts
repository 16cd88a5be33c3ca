import { assign, setup } from 'xstate';
import { type ActorSpec, type ActorView, type HeardEvent, Supervisor } from '../../machines/supervisor.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

/** Counts; throws when told to. */
const counter = setup({
  types: { context: {} as { count: number }, events: {} as { type: 'add' } | { type: 'boom' } },
  actions: {
    started: () => {},
    boom: () => {
      throw new Error('boom');
    },
  },
}).createMachine({
  context: { count: 0 },
  entry: 'started',
  on: { add: { actions: assign({ count: ({ context }) => context.count + 1 }) }, boom: { actions: 'boom' } },
});

function supervised() {
  const clock = new SimulatedClock();
  const quarantined: string[] = [];
  const changes: ActorView[] = [];
  let starts = 0;
  const supervisor = new Supervisor(clock, {
    failed: () => {},
    unread: () => {},
    quarantined: ({ id }) => quarantined.push(id),
  });
  supervisor.watch({
    changed: (id) => changes.push(...[...supervisor.views()].filter((view) => view.id === id)),
    ended: (last) => changes.push(last),
  });
  const facts = new Map<string, HeardEvent[]>();
  const spec = (id: string): ActorSpec<typeof counter> => ({
    id,
    kind: 'counter',
    machine: counter.provide({ actions: { started: () => starts++ } }),
    input: undefined,
    parties: [],
    history: async () => facts.get(id) ?? [],
  });
  const count = (id: string) => supervisor.snapshot(counter, id)?.context.count;
  /** A fact is recorded first, then told. */
  const record = (id: string) => {
    const seq = (facts.get(id)?.length ?? 0) + 1;
    facts.set(id, [...(facts.get(id) ?? []), { type: 'add', seq }]);
    supervisor.send(id, { type: 'add', seq });
  };
  return { clock, supervisor, spec, count, record, facts, quarantined, changes, starts: () => starts };
}

/** Lets promises settle; simulated time stands still. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

t.test(
  'an actor that throws is rebuilt from the log, and the others notice nothing [SUPERVISOR-1, SUPERVISOR-2]',
  async (t) => {
    const { clock, supervisor, spec, count, record } = supervised();
    supervisor.start(spec('ill'));
    supervisor.start(spec('well'));
    for (const id of ['ill', 'well', 'ill']) record(id);
    supervisor.send('ill', { type: 'boom' });
    t.equal(count('ill'), undefined, 'it is down');
    record('well');
    t.equal(count('well'), 2, 'the other goes on');
    record('ill');
    supervisor.send('ill', { type: 'add' });
    clock.advance(100);
    await settle();
    t.equal(count('ill'), 4, 'three facts from the log, each once, and what was sent meanwhile');
  },
);

t.test('a rebuilt actor does not repeat the effects of its start', async (t) => {
  const { supervisor, spec, count, facts, starts } = supervised();
  facts.set('a', [{ type: 'add', seq: 1 }]);
  await supervisor.revive(spec('a'));
  t.equal(count('a'), 1);
  t.equal(starts(), 0);
  supervisor.start(spec('b'));
  t.equal(starts(), 1, 'a new one does');
});

t.test(
  'an actor that keeps throwing is quarantined, visibly, and affects no other [SUPERVISOR-3, SUPERVISOR-4]',
  async (t) => {
    const { clock, supervisor, spec, quarantined, changes } = supervised();
    supervisor.start(spec('ill'));
    supervisor.start(spec('well'));
    for (let round = 1; round <= 6; round++) {
      supervisor.send('ill', { type: 'boom' });
      clock.advance(5_000);
      await settle();
    }
    t.same(quarantined, ['ill']);
    t.equal(changes.findLast(({ id }) => id === 'ill')?.status, 'quarantined');
    t.equal([...supervisor.views()].find(({ id }) => id === 'well')?.status, 'active');
    supervisor.send('ill', { type: 'add' });
    supervisor.send('nobody', { type: 'add' });
    t.equal(supervisor.lost, 2, 'sends that reach nobody are counted');
  },
);

t.test('five failures spread over more than a minute do not quarantine an actor', async (t) => {
  const { clock, supervisor, spec, count, quarantined } = supervised();
  supervisor.start(spec('ill'));
  for (let round = 1; round <= 10; round++) {
    supervisor.send('ill', { type: 'boom' });
    clock.advance(20_000);
    await settle();
  }
  t.same(quarantined, []);
  t.equal(count('ill'), 0);
});

t.test(
  'a store that cannot be read is no failure of an actor, which is rebuilt once it can [SUPERVISOR-7]',
  async (t) => {
    const clock = new SimulatedClock();
    const told: string[] = [];
    const supervisor = new Supervisor(clock, {
      failed: ({ id }) => told.push(`${id} failed`),
      unread: ({ id, status }) => told.push(`${id} unread, ${status}`),
      quarantined: ({ id }) => told.push(`${id} quarantined`),
    });
    let isClosed = true;
    const history = async () => {
      if (isClosed) throw new Error('the store is closed');
      return [{ type: 'add', seq: 1 }];
    };
    await supervisor.revive({ id: 'a', kind: 'counter', machine: counter, input: undefined, parties: [], history });
    for (let second = 1; second <= 8; second++) {
      clock.advance(1_000);
      await settle();
    }
    t.same(told, Array(9).fill('a unread, restarting'));
    isClosed = false;
    clock.advance(1_000);
    await settle();
    t.match(supervisor.view('a'), { status: 'active', restarts: 0, snapshot: { context: { count: 1 } } });
  },
);

t.test('an observer that throws breaks nothing [SUPERVISOR-5]', async (t) => {
  const clock = new SimulatedClock();
  const failures: string[] = [];
  const supervisor = new Supervisor(clock, {
    failed: ({ id }) => failures.push(id),
    unread: () => {},
    quarantined: () => {},
  });
  const broken = () => {
    throw new Error('observer');
  };
  supervisor.watch({ changed: broken, ended: broken });
  const ends: ActorView[] = [];
  const unwatch = supervisor.watch({ changed: () => {}, ended: (last) => ends.push(last) });
  const machine = counter;
  const spec = { kind: 'counter', machine, input: undefined, parties: [], history: async () => [] };
  supervisor.start({ id: 'a', ...spec });
  supervisor.send('a', { type: 'add' });
  t.equal(supervisor.snapshot(counter, 'a')?.context.count, 1);
  supervisor.stop('a');
  t.match(
    ends,
    [{ id: 'a', status: 'ended', snapshot: { status: 'stopped', context: { count: 1 } } }],
    'and the next one hears',
  );
  unwatch();
  supervisor.start({ id: 'b', ...spec });
  supervisor.stop('b');
  t.equal(ends.length, 1, 'who stopped watching hears no more');
  t.same(failures, []);
});

t.test('an id runs once', async (t) => {
  const { supervisor, spec } = supervised();
  supervisor.start(spec('a'));
  t.throws(() => supervisor.start(spec('a')), { message: 'actor a is already running' });
  supervisor.stop('a');
  supervisor.start(spec('a'));
  t.ok(supervisor.has('a'));
});

/** Its hands answer `ping` with events of their own. */
const echo = setup({
  types: { context: {} as { heard: string[] }, events: {} as { type: 'ping' } | { type: 'one' } | { type: 'two' } },
  actions: { started: () => {}, answer: () => {} },
}).createMachine({
  context: { heard: [] },
  entry: 'started',
  on: {
    ping: { actions: ['answer', assign({ heard: ({ context }) => [...context.heard, 'ping'] })] },
    '*': { actions: assign({ heard: ({ context, event }) => [...context.heard, event.type] }) },
  },
});

t.test('one machine serves all actors of a kind: its effects get the actor that they are for', async (t) => {
  const seen: unknown[] = [];
  const supervisor = new Supervisor(new SimulatedClock(), {
    failed: () => {},
    unread: () => {},
    quarantined: () => {},
  });
  const heard = (id: string) => supervisor.snapshot(echo, id)?.context.heard;
  const machine = echo.provide({
    actions: {
      started: ({ self }) => {
        seen.push([self.id, heard(self.id)]);
        supervisor.send(self.id, { type: 'one' });
      },
      answer: ({ self }) => {
        supervisor.send(self.id, { type: 'one' });
        supervisor.send(self.id === 'a' ? 'b' : 'a', { type: 'two' });
        seen.push([self.id, heard(self.id), heard('b')]);
      },
    },
  });
  const spec = { kind: 'echo', machine, input: undefined, parties: [], history: async () => [] };
  for (const id of ['a', 'b']) supervisor.start({ id, ...spec });
  t.strictSame(seen.splice(0), [
    ['a', []],
    ['b', []],
  ]);
  t.strictSame(heard('a'), ['one'], 'what a start sends to itself comes after it');
  supervisor.send('a', { type: 'ping' });
  t.strictSame(seen, [['a', ['one'], ['one', 'two']]], 'the other takes it at once, itself it has to wait');
  t.strictSame(heard('a'), ['one', 'ping', 'one']);
  t.equal(supervisor.lost, 0);
});

t.test('an actor that is stopped by its own effect accepts nothing more', async (t) => {
  const ends: unknown[] = [];
  const supervisor = new Supervisor(new SimulatedClock(), {
    failed: () => {},
    unread: () => {},
    quarantined: () => {},
  });
  supervisor.watch({ changed: () => {}, ended: ({ id, snapshot }) => ends.push([id, snapshot?.context]) });
  const machine = echo.provide({
    actions: {
      answer: ({ self }) => {
        supervisor.send(self.id, { type: 'one' });
        supervisor.stop(self.id);
      },
    },
  });
  supervisor.start({ id: 'a', kind: 'echo', machine, input: undefined, parties: [], history: async () => [] });
  supervisor.send('a', { type: 'ping' });
  t.equal(supervisor.has('a'), false);
  t.strictSame(ends, [['a', { heard: [] }]]);
});
