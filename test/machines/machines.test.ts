/** Each machine as a table: what it is in, what happens, what it is in then, and which effects it names. */
import { type AnyStateMachine, initialTransition, transition } from 'xstate';
import { commandMachine } from '../../machines/command.ts';
import { allowance, courierMachine } from '../../machines/courier.ts';
import { orphanStopMachine } from '../../machines/orphan-stop.ts';
import { partnerMachine } from '../../machines/partner.ts';
import type { HeardEvent } from '../../machines/supervisor.ts';
import { t } from '../support/tap.ts';

const machineOwn = (type: string) => !type.startsWith('xstate.');

/** Feeds events one by one; gives state, context and the effects named at each step. */
function walk(machine: AnyStateMachine, input: unknown, events: readonly HeardEvent[]) {
  const start = initialTransition(machine, input);
  let snapshot = start[0];
  const effects: string[][] = [start[1].map((action) => action.type).filter(machineOwn)];
  for (const event of events) {
    const [next, actions] = transition(machine, snapshot, event);
    snapshot = next;
    effects.push(actions.map((action) => action.type).filter(machineOwn));
  }
  return { snapshot, value: snapshot.value, context: snapshot.context, effects };
}

const rules = { failuresMax: 3, openMs: 1000, openMsMax: { sync: 3000, async: 8000 } };
const partner = (...events: HeardEvent[]) => walk(partnerMachine, { rules, at: 0 }, events);
const failed = (at: number) => ({ type: 'sync.failed', at });
const reached = (at: number) => ({ type: 'sync.reached', at });

t.test('partner: the connection follows recorded facts', async (t) => {
  const table: [string[], string][] = [
    [[], 'registered'],
    [['partner.registered'], 'connected'],
    [['partner.offline'], 'registered'],
    [['partner.registered', 'partner.offline'], 'offline'],
    [['partner.registered', 'partner.offline', 'partner.online'], 'connected'],
    [['partner.registered', 'partner.suspended'], 'suspended'],
    [['partner.registered', 'partner.suspended', 'partner.online'], 'suspended'],
    [['partner.registered', 'partner.suspended', 'partner.registered'], 'connected'],
    [['partner.registered', 'sync.failed'], 'connected'],
  ];
  for (const [types, expected] of table) {
    const { value } = partner(...types.map((type, at) => ({ type, at })));
    t.equal(value.connection, expected, types.join(' → ') || 'at first');
  }
});

t.test(
  'partner: a circuit opens at so many failures in a row, and a success between them starts the count anew [P2]',
  async (t) => {
    t.equal(partner(failed(1), failed(2)).value.sync, 'closed');
    const opened = partner(failed(1), failed(2), failed(3));
    t.equal(opened.value.sync, 'open');
    t.same(opened.effects.at(-1), ['circuitOpened']);
    t.equal(opened.context.sync.until, 1003, 'open for openMs from the failure that opened it');
    t.equal(opened.value.async, 'closed', 'the other circuit is its own');
    t.equal(partner(failed(1), failed(2), reached(3), failed(4), failed(5)).value.sync, 'closed');
  },
);

t.test(
  'partner: a circuit that an operator opens counts no failure, and new credentials close one [D80]',
  async (t) => {
    const opened = partner({ type: 'sync.operatorOpened', at: 1 });
    t.equal(opened.value.sync, 'open');
    t.match(opened.context.sync, { failures: 0, failed: 0, calls: 0, until: 1001 });
    const renewed = partner(failed(1), failed(2), failed(3), { type: 'sync.renewed', at: 4 });
    t.equal(renewed.value.sync, 'closed');
    t.match(renewed.context.sync, { failures: 0, until: null });
    t.same(renewed.effects.at(-1), ['circuitClosed']);
  },
);

t.test('partner: a circuit opens at half of at least ten calls within 30 s [P2]', async (t) => {
  const alternating = (count: number, stepMs: number) =>
    Array.from({ length: count }, (_, i) => (i % 2 === 0 ? reached(i * stepMs) : failed(i * stepMs)));
  t.equal(partner(...alternating(9, 100)).value.sync, 'closed', 'nine calls are too few');
  t.equal(partner(...alternating(10, 100)).value.sync, 'open');
  t.equal(partner(...alternating(10, 5000)).value.sync, 'closed', 'spread over more than 30 s');
});

t.test(
  'partner: open, then one call at a time, then closed after two successes or open for twice as long',
  async (t) => {
    const opened = [failed(1), failed(2), failed(3)];
    const due = { type: 'sync.due', at: 1003 };
    const trying = { type: 'sync.trying', at: 1004 };
    t.same(partner(...opened, due).value.sync, { halfOpen: 'ready' });
    t.same(partner(...opened, due, trying).value.sync, { halfOpen: 'trying' });
    t.same(
      partner(...opened, due, trying, reached(1005)).value.sync,
      { halfOpen: 'ready' },
      'one success is not enough',
    );
    const closed = partner(...opened, due, trying, reached(1005), trying, reached(1006));
    t.equal(closed.value.sync, 'closed');
    t.same(closed.effects.at(-1), ['circuitClosed']);
    t.equal(closed.context.sync.openMs, 1000, 'it has forgotten its illness');
    const again = partner(...opened, due, trying, failed(2000));
    t.equal(again.value.sync, 'open');
    t.equal(again.context.sync.until, 4000, 'twice as long');
    const third = partner(...opened, due, failed(2000), { type: 'sync.due', at: 4000 }, failed(5000));
    t.equal(third.context.sync.until, 8000, 'never longer than its maximum');
    t.same(partner(...opened, failed(5)).value.sync, 'open', 'a late failure does not move the instant');
    t.equal(partner(...opened, failed(5)).context.sync.until, 1003);
  },
);

t.test('partner: a neutral end frees the one call of a half-open circuit', async (t) => {
  const events = [failed(1), failed(2), failed(3), { type: 'sync.due', at: 1003 }, { type: 'sync.trying', at: 1004 }];
  t.same(partner(...events, { type: 'sync.neutral', at: 1005 }).value.sync, { halfOpen: 'ready' });
});

t.test('partner: folded from the log an open circuit starts half-open, a closed one closed [P3]', async (t) => {
  t.same(partner({ type: 'sync.wasOpened' }).value.sync, { halfOpen: 'ready' });
  t.same(partner({ type: 'sync.wasOpened' }, { type: 'sync.wasClosed' }).value.sync, 'closed');
});

t.test('courier: how many may be in flight, by door and circuit [C1]', async (t) => {
  const table: [string[], number][] = [
    [[], 8],
    [['circuit.opened'], 0],
    [['circuit.opened', 'circuit.halfOpened'], 1],
    [['circuit.opened', 'circuit.halfOpened', 'circuit.closed'], 1],
    [['circuit.opened', 'circuit.halfOpened', 'circuit.closed', 'delivered'], 2],
    [['circuit.opened', 'circuit.closed', 'delivered', 'delivered'], 4],
    [['circuit.closed', 'delivered', 'delivered', 'delivered', 'delivered'], 8],
    [['pause'], 0],
    [['pause', 'resume'], 8],
    [['pause', 'circuit.opened', 'resume'], 0],
    [['pause', 'circuit.opened', 'circuit.halfOpened', 'resume'], 1],
    [['suspend', 'connect'], 8],
    [['circuit.opened', 'suspend'], 8],
  ];
  for (const [types, expected] of table) {
    const { snapshot } = walk(
      courierMachine,
      { slotsMax: 8 },
      types.map((type) => ({ type })),
    );
    t.equal(allowance(snapshot), expected, types.join(' → ') || 'at first');
  }
});

t.test('courier: whatever lets more go out names the pump [C2]', async (t) => {
  const pumped = (...types: string[]) =>
    walk(
      courierMachine,
      { slotsMax: 8 },
      types.map((type) => ({ type })),
    )
      .effects.at(-1)
      ?.includes('pump');
  for (const types of [
    ['pause', 'resume'],
    ['suspend', 'connect'],
    ['suspend'],
    ['circuit.closed'],
    ['circuit.halfOpened'],
  ]) {
    t.equal(pumped(...types), true, types.join(' → '));
  }
  t.equal(pumped('circuit.closed', 'delivered'), true, 'a slot more after an illness');
  t.equal(pumped('delivered'), false, 'nothing new when well');
});

const answered = (result: string) => ({ type: 'command.answered', at: 100, data: { result, timeoutS: 30 } });
const result = { type: 'command.resultReceived', at: 200, data: { result: 'ACCEPTED' } };
const relayed = { type: 'command.relayed', at: 300, data: { result: 'ACCEPTED' } };
const relayFailed = { type: 'command.relayFailed', at: 300, data: { result: 'ACCEPTED', reason: 'timeout' } };
const silent = { type: 'command.silent', at: 30_100 };

t.test('command: accept, callback, relay, in every order that happens [M1, M2, M3, D29]', async (t) => {
  const table: [string, HeardEvent[], string, string[]][] = [
    ['at first', [], 'forwarding', []],
    ['refused by the CPO', [answered('REJECTED')], 'rejected', []],
    ['could not be asked', [{ type: 'command.failed', at: 1, data: { reason: '' } }], 'rejected', []],
    ['accepted', [answered('ACCEPTED')], 'awaiting', ['arm']],
    ['a result', [answered('ACCEPTED'), result], 'relaying', ['arm']],
    ['relayed', [answered('ACCEPTED'), result, relayed], 'relayed', []],
    ['the relay failed', [answered('ACCEPTED'), result, relayFailed], 'relayed', []],
    [
      'no result in time',
      [answered('ACCEPTED'), { type: 'deadline.passed', at: 30_100 }],
      'awaiting',
      ['recordSilent'],
    ],
    ['silence recorded', [answered('ACCEPTED'), silent], 'silent', []],
    ['a result before the answer', [result], 'relaying', ['arm']],
    ['the answer after the result', [result, answered('ACCEPTED')], 'relaying', []],
    ['a late result', [answered('ACCEPTED'), silent, result], 'relaying', ['arm']],
    ['a second result', [answered('ACCEPTED'), result, relayed, result], 'relaying', ['arm']],
    ['a result after a refusal', [answered('REJECTED'), result], 'relaying', ['arm']],
  ];
  for (const [name, events, state, effects] of table) {
    const walked = walk(commandMachine, undefined, events);
    t.equal(walked.value, state, name);
    t.same(walked.effects.at(-1), effects, `${name}: effects`);
  }
  t.equal(walk(commandMachine, undefined, [answered('ACCEPTED')]).context.due, 30_100, 'the wait is an instant');
  t.equal(walk(commandMachine, undefined, [answered('ACCEPTED'), result]).context.due, null, 'and ends with a result');
});

t.test('orphan stop: grace, sweep, case, resolution, and nothing invented [N1, D36]', async (t) => {
  const at = 130_000;
  const passed = { type: 'deadline.passed', at: 120_000 };
  const opened = { type: 'orphan.opened', at };
  const table: [string, HeardEvent[], string, string[]][] = [
    ['armed', [], 'grace', ['arm']],
    ['completed in time', [{ type: 'orphan.disarmed', at }], 'disarmed', ['arm']],
    ['a sweep during the grace', [{ type: 'sweep', at: 60_000 }], 'grace', []],
    ['the grace is over', [passed], 'due', []],
    ['the next sweep', [passed, { type: 'sweep', at }], 'due', ['recordOpened']],
    ['opened', [passed, opened], 'open', ['askCpo']],
    ['completed before the sweep', [passed, { type: 'orphan.disarmed', at }], 'disarmed', []],
    ['another sweep', [passed, opened, { type: 'sweep', at }], 'open', []],
    ['completed late', [passed, opened, { type: 'orphan.resolved', at }], 'resolved', []],
  ];
  for (const [name, events, state, effects] of table) {
    const walked = walk(orphanStopMachine, { due: 120_000 }, events);
    t.equal(walked.value, state, name);
    t.same(walked.effects.at(-1), effects, `${name}: effects`);
  }
});
