/** Each machine as a table: what it is in, what happens, what it is in then, and which effects it names. */
import { type AnyStateMachine, initialTransition, transition } from 'xstate';
import { circuitMachine, slotsOf } from '../../machines/circuit.ts';
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

const partner = (...events: HeardEvent[]) => walk(partnerMachine, { rules: { offlineAfterMs: 60_000 } }, events);
const rules = { failuresMax: 3, objectsMin: 0, openMs: 1000, openMsMax: 3000, slotsMax: 8 };
const circuit = (...events: HeardEvent[]) => walk(circuitMachine, { rules, at: 0 }, events);
const failed = (at: number) => ({ type: 'call.failed', at });
const reached = (at: number) => ({ type: 'call.reached', at });
/** A circuit of deliveries, whose failures must be of three objects. */
const ofDeliveries = (...events: HeardEvent[]) =>
  walk(circuitMachine, { rules: { ...rules, objectsMin: 3 }, at: 0 }, events);
const failedOf = (object: string, at = 1) => ({ type: 'call.failed', at, object });

t.test('partner: the connection follows the recorded events', async (t) => {
  const table: [string[], string][] = [
    [[], 'registered'],
    [['partner.registered'], 'connected'],
    [['partner.offline'], 'registered'],
    [['partner.registered', 'partner.offline'], 'offline'],
    [['partner.registered', 'partner.offline', 'partner.online'], 'connected'],
    [['partner.registered', 'partner.suspended'], 'suspended'],
    [['partner.registered', 'partner.suspended', 'partner.online'], 'suspended'],
    [['partner.registered', 'partner.suspended', 'partner.registered'], 'connected'],
  ];
  for (const [types, expected] of table) {
    const { value } = partner(...types.map((type, at) => ({ type, at })));
    t.equal(value.connection, expected, types.join(' → ') || 'at first');
  }
});

t.test(
  'circuit: a number of failures in a row opens it, and a success in between restarts the count [CIRCUIT-2]',
  async (t) => {
    t.equal(circuit(failed(1), failed(2)).value, 'closed');
    const opened = circuit(failed(1), failed(2), failed(3));
    t.equal(opened.value, 'open');
    t.same(opened.effects.at(-1), ['circuitOpened']);
    t.equal(opened.context.until, 1003, 'open for openMs from the failure that opened it');
    t.equal(circuit(failed(1), failed(2), reached(3), failed(4), failed(5)).value, 'closed');
  },
);

t.test('circuit: one that an operator opens counts no failure, and new credentials close it [D80]', async (t) => {
  const opened = circuit({ type: 'operator.opened', at: 1 });
  t.equal(opened.value, 'open');
  t.match(opened.context, { failures: 0, failed: 0, calls: 0, until: 1001 });
  const renewed = circuit(failed(1), failed(2), failed(3), { type: 'partner.renewed', at: 4 });
  t.equal(renewed.value, 'closed');
  t.match(renewed.context, { failures: 0, until: null });
  t.same(renewed.effects.at(-1), ['circuitClosed']);
});

t.test('circuit: it opens at half of at least ten calls within 30 s [CIRCUIT-2]', async (t) => {
  const alternating = (count: number, stepMs: number) =>
    Array.from({ length: count }, (_, i) => (i % 2 === 0 ? reached(i * stepMs) : failed(i * stepMs)));
  t.equal(circuit(...alternating(9, 100)).value, 'closed', 'nine calls are too few');
  t.equal(circuit(...alternating(10, 100)).value, 'open');
  t.equal(circuit(...alternating(10, 5000)).value, 'closed', 'spread over more than 30 s');
});

t.test(
  'circuit: open, then one call at a time, then closed after two successes or open for twice as long',
  async (t) => {
    const opened = [failed(1), failed(2), failed(3)];
    const due = { type: 'circuit.due', at: 1003 };
    const trying = { type: 'call.began', at: 1004 };
    t.same(circuit(...opened, due).value, { halfOpen: 'ready' });
    t.same(circuit(...opened, due, trying).value, { halfOpen: 'trying' });
    t.same(circuit(...opened, due, trying, reached(1005)).value, { halfOpen: 'ready' }, 'one success is not enough');
    const closed = circuit(...opened, due, trying, reached(1005), trying, reached(1006));
    t.equal(closed.value, 'closed');
    t.same(closed.effects.at(-1), ['circuitClosed']);
    t.equal(closed.context.openMs, 1000, 'it has forgotten its illness');
    const again = circuit(...opened, due, trying, failed(2000));
    t.equal(again.value, 'open');
    t.equal(again.context.until, 4000, 'twice as long');
    const third = circuit(...opened, due, failed(2000), { type: 'circuit.due', at: 4000 }, failed(5000));
    t.equal(third.context.until, 8000, 'never longer than its maximum');
    t.same(circuit(...opened, failed(5)).value, 'open', 'a late failure does not move the instant');
    t.equal(circuit(...opened, failed(5)).context.until, 1003);
  },
);

t.test('circuit: a neutral outcome frees the one call of a half-open circuit', async (t) => {
  const events = [failed(1), failed(2), failed(3), { type: 'circuit.due', at: 1003 }, { type: 'call.began', at: 1004 }];
  t.same(circuit(...events, { type: 'call.neutral', at: 1005 }).value, { halfOpen: 'ready' });
});

t.test('circuit: folded from the log an open one starts half-open, a closed one closed [CIRCUIT-3]', async (t) => {
  t.same(circuit({ type: 'circuit.wasOpened' }).value, { halfOpen: 'ready' });
  t.same(circuit({ type: 'circuit.wasOpened' }, { type: 'circuit.wasClosed' }).value, 'closed');
});

t.test(
  'circuit: failures in a row open a delivery circuit when they are of three objects [CIRCUIT-2, D79, D90]',
  async (t) => {
    const [a, b, c] = ['A', 'B', 'C'].map((object) => failedOf(object));
    if (!a || !b || !c) throw new Error('three objects');
    t.equal(ofDeliveries(a, a, a, a, a).value, 'closed', 'one object backs off by itself');
    t.equal(ofDeliveries(a, b, a, b, a, b).value, 'closed', 'so do two');
    const opened = ofDeliveries(a, b, a, b, c);
    t.equal(opened.value, 'open');
    t.equal(opened.context.failures, 5);
    t.equal(ofDeliveries(a, b, reached(1), c, c, c).value, 'closed', 'before a success does not count');
  },
);

t.test('circuit: half of ten calls open a delivery circuit when the failures are of three objects', async (t) => {
  const alternating = (...objects: string[]) => objects.flatMap((object) => [reached(1), failedOf(object)]);
  t.equal(ofDeliveries(...alternating('A', 'A', 'A', 'A', 'A', 'B', 'B')).value, 'closed');
  t.equal(ofDeliveries(...alternating('A', 'B', 'C', 'A')).value, 'closed', 'eight calls are too few');
  t.equal(ofDeliveries(...alternating('A', 'B', 'C', 'A', 'A')).value, 'open');
});

t.test('circuit: the number of calls in flight [CIRCUIT-4]', async (t) => {
  const table: [string[], number][] = [
    [[], 8],
    [['operator.opened'], 0],
    [['operator.opened', 'circuit.due'], 1],
    [['operator.opened', 'circuit.due', 'call.began'], 1],
    [['operator.opened', 'circuit.due', 'call.reached', 'call.reached'], 1],
    [['operator.closed', 'call.reached'], 2],
    [['operator.closed', 'call.reached', 'call.reached'], 4],
    [['operator.closed', 'call.reached', 'call.reached', 'call.reached', 'call.reached'], 8],
  ];
  for (const [types, expected] of table) {
    const { snapshot } = circuit(...types.map((type) => ({ type, at: 1 })));
    t.equal(slotsOf(snapshot), expected, types.join(' → ') || 'at first');
  }
});

t.test('circuit: every change that permits more calls has an effect [CIRCUIT-4]', async (t) => {
  const named = (...types: string[]) => circuit(...types.map((type) => ({ type, at: 1 }))).effects.at(-1);
  t.same(named('operator.opened', 'circuit.due'), ['circuitHalfOpened']);
  t.same(named('operator.opened', 'circuit.due', 'call.reached'), ['circuitHalfOpened']);
  t.same(named('operator.closed'), ['circuitClosed']);
  t.same(named('operator.closed', 'call.reached'), ['circuitMayFlow'], 'a slot more after an illness');
  t.same(named('call.reached'), [], 'nothing new when well');
});

t.test('courier: the number of deliveries in flight, by state and hold [COURIER-1]', async (t) => {
  const table: [string[], number][] = [
    [[], 8],
    [['pause'], 0],
    [['pause', 'resume'], 8],
    [['suspend', 'connect'], 8],
    [['pause', 'suspend'], 8],
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

t.test('courier: every change that permits more deliveries names the pump [COURIER-2]', async (t) => {
  const pumped = (...types: string[]) =>
    walk(
      courierMachine,
      { slotsMax: 8 },
      types.map((type) => ({ type })),
    )
      .effects.at(-1)
      ?.includes('pump');
  for (const types of [['pause', 'resume'], ['suspend', 'connect'], ['suspend']]) {
    t.equal(pumped(...types), true, types.join(' → '));
  }
  t.equal(pumped('pause'), false);
});

const answered = (result: string) => ({ type: 'command.answered', at: 100, data: { result, timeoutS: 30 } });
const result = { type: 'command.resultReceived', at: 200, data: { result: 'ACCEPTED' } };
const relayed = { type: 'command.relayed', at: 300, data: { result: 'ACCEPTED' } };
const relayFailed = { type: 'command.relayFailed', at: 300, data: { result: 'ACCEPTED', reason: 'timeout' } };
const silent = { type: 'command.silent', at: 30_100 };
const unasked = { type: 'command.failed', at: 1, data: { reason: '' } };

t.test(
  'command: accept, callback, relay, in every order that occurs [COMMAND-1, COMMAND-2, COMMAND-3, D29]',
  async (t) => {
    const table: [string, HeardEvent[], string, string[]][] = [
      ['at first', [], 'forwarding', []],
      ['refused by the CPO', [answered('REJECTED')], 'rejected', []],
      ['could not be asked', [unasked], 'rejected', []],
      ['accepted', [answered('ACCEPTED')], 'awaiting', ['arm']],
      ['accepted, taken for cut off before', [unasked, answered('ACCEPTED')], 'awaiting', ['arm']],
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
    t.equal(
      walk(commandMachine, undefined, [answered('ACCEPTED'), result]).context.due,
      null,
      'and ends with a result',
    );
  },
);

t.test('orphan stop: grace, sweep, case, resolution, and nothing invented [ORPHAN-STOP-1, D36]', async (t) => {
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
