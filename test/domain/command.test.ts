/** The record of a command in every order in which its facts may come, held against its machine. */
import { initialTransition, transition } from 'xstate';
import { type CommandMachineEvent, commandMachine } from '../../machines/command.ts';
import { applyToCommand, type CommandRecord, cutOffOf, shownState, withAcceptance } from '../../src/domain/command.ts';
import type { CommandEvent } from '../../src/domain/events.ts';
import { isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

const data = {
  ...{ id: 'c1', command: 'START_SESSION' as const, emsp: 'NL-EMS', cpo: 'NL-CPO', responseUrl: 'https://ems/r' },
  ...{ sessionId: null, reservationId: null, authorizationReference: 'A1', tokenUid: 'card' },
};
const requested: CommandEvent = { type: 'command.requested', data };
const facts = {
  accepted: { type: 'command.answered', data: { result: 'ACCEPTED', timeoutS: 30 } },
  refused: { type: 'command.answered', data: { result: 'REJECTED', timeoutS: 30 } },
  unsupported: { type: 'command.answered', data: { result: 'NOT_SUPPORTED', timeoutS: 30 } },
  failed: { type: 'command.failed', data: { reason: 'timeout' } },
  came: { type: 'command.resultReceived', data: { result: 'EVSE_OCCUPIED' } },
  told: { type: 'command.relayed', data: { result: 'EVSE_OCCUPIED' } },
  untold: { type: 'command.relayFailed', data: { result: 'EVSE_OCCUPIED', reason: 'unavailable: refused' } },
  cameAgain: { type: 'command.resultReceived', data: { result: 'CANCELED_RESERVATION' } },
  toldAgain: { type: 'command.relayed', data: { result: 'CANCELED_RESERVATION' } },
  accepts: { type: 'command.resultReceived', data: { result: 'ACCEPTED', accepts: true } },
  silent: { type: 'command.silent', data: {} },
} as const satisfies Record<string, CommandEvent>;
type Name = keyof typeof facts;

function folded(events: readonly CommandEvent[]): CommandRecord {
  const start = applyToCommand(null, requested, 't0');
  return events.reduce((record, event, index) => applyToCommand(record, event, `t${index + 1}`), start);
}

/** The result of which each relay is the end. */
const relayOf: Partial<Record<Name, Name>> = { told: 'came', untold: 'came', toldAgain: 'cameAgain' };

/** The last of these facts, as the hub records it after the others. */
function lastOf(names: readonly Name[]): CommandEvent {
  const fact = facts[names.at(-1) as Name];
  if (fact.type !== 'command.relayed' && fact.type !== 'command.relayFailed') return fact;
  const results = names.filter((name) => facts[name].type === 'command.resultReceived');
  const resultNumber = results.indexOf(relayOf[names.at(-1) as Name] as Name) + 1;
  return { ...fact, data: { ...fact.data, resultNumber } } as CommandEvent;
}

const recorded = (names: readonly Name[]) => names.map((_name, index) => lastOf(names.slice(0, index + 1)));

t.test('a command is folded from its facts [interface, Commands 3–5; D28, D29]', async (t) => {
  const table: [Name[], CommandRecord['state'], string | null, string | null][] = [
    [[], 'forwarding', null, null],
    [['accepted'], 'awaiting', 'ACCEPTED', null],
    [['refused'], 'rejected', 'REJECTED', null],
    [['unsupported'], 'rejected', 'NOT_SUPPORTED', null],
    [['failed'], 'rejected', 'REJECTED', 'timeout'],
    [['failed', 'accepted'], 'awaiting', 'ACCEPTED', null],
    [['failed', 'refused'], 'rejected', 'REJECTED', null],
    [['failed', 'came', 'accepted'], 'relaying', 'EVSE_OCCUPIED', 'timeout'],
    [['accepted', 'silent'], 'silent', 'ACCEPTED', null],
    [['accepted', 'came'], 'relaying', 'EVSE_OCCUPIED', null],
    [['accepted', 'came', 'told'], 'relayed', 'EVSE_OCCUPIED', null],
    [['accepted', 'came', 'untold'], 'relayed', 'EVSE_OCCUPIED', 'unavailable: refused'],
    [['came', 'accepted'], 'relaying', 'EVSE_OCCUPIED', null],
    [['came', 'refused'], 'relaying', 'EVSE_OCCUPIED', null],
    [['came', 'failed'], 'relaying', 'EVSE_OCCUPIED', null],
    [['came', 'told', 'accepted'], 'relayed', 'EVSE_OCCUPIED', null],
    [['came', 'told', 'failed'], 'relayed', 'EVSE_OCCUPIED', null],
    [['accepted', 'came', 'silent'], 'relaying', 'EVSE_OCCUPIED', null],
    [['accepted', 'came', 'told', 'silent'], 'relayed', 'EVSE_OCCUPIED', null],
    [['accepted', 'silent', 'came'], 'relaying', 'EVSE_OCCUPIED', null],
    [['failed', 'came', 'told'], 'relayed', 'EVSE_OCCUPIED', null],
    [['failed', 'came', 'told', 'accepts'], 'relaying', 'ACCEPTED', null],
    [['failed', 'accepts', 'came', 'told'], 'relayed', 'EVSE_OCCUPIED', null],
    [['accepted', 'came', 'told', 'cameAgain', 'toldAgain'], 'relayed', 'CANCELED_RESERVATION', null],
    [['accepted', 'came', 'untold', 'cameAgain', 'toldAgain'], 'relayed', 'CANCELED_RESERVATION', null],
    [['accepted', 'came', 'cameAgain', 'told', 'toldAgain'], 'relayed', 'CANCELED_RESERVATION', null],
    [['accepted', 'came', 'cameAgain', 'toldAgain', 'told'], 'relayed', 'CANCELED_RESERVATION', null],
  ];
  for (const [names, state, result, reason] of table) {
    const record = folded(names.map((name) => facts[name]));
    const isAnswered = names.some((name) => /^(accept|refused|unsupported)/.test(name));
    const isUnanswered = !isAnswered && names.some((name) => /^(failed|came)/.test(name));
    const results = names.filter((name) => facts[name].type === 'command.resultReceived').length;
    const counted = { ...(isUnanswered && { isUnanswered }), ...(results > 0 && { results }) };
    const expected = { ...data, at: 't0', state, result, reason, ...counted };
    t.strictSame(record, expected, names.join(' → ') || 'requested');
  }
});

t.test('the first result ACCEPTED shows that the CPO has accepted, unless the answer does [D66]', async (t) => {
  const accepted = { type: 'command.resultReceived', data: { result: 'ACCEPTED' } } as const;
  const table: [before: Name[], tells: boolean][] = [
    [[], true],
    [['came'], true],
    [['came', 'told'], true],
    [['came', 'told', 'failed'], true],
    [['failed', 'came', 'told'], true],
    [['accepted'], false],
    [['refused'], false],
    [['came', 'accepted'], false],
    [['failed', 'accepts'], false],
  ];
  for (const [before, tells] of table) {
    const told = withAcceptance(folded(before.map((name) => facts[name])), accepted);
    t.equal(told.data.accepts === true, tells, before.join(' → ') || 'requested');
  }
});

t.test('of results relayed at the same time the last one counts [D29]', async (t) => {
  const { came, cameAgain, told, untold } = facts;
  const of = (resultNumber: number, fact: typeof told | typeof untold) =>
    ({ ...fact, data: { ...fact.data, resultNumber } }) as CommandEvent;
  const cutOff = cutOffOf(folded([came, cameAgain])) as CommandEvent;
  const table: [ends: CommandEvent[], state: string][] = [
    [[of(1, told)], 'relaying'],
    [[of(1, untold)], 'relaying'],
    [[of(1, told), of(2, untold)], 'relayFailed'],
    [[of(2, untold), of(1, told)], 'relayFailed'],
    [[of(1, untold), of(2, told)], 'relayed'],
    [[of(2, told), of(1, untold)], 'relayed'],
    [[of(1, told), cutOff], 'relayFailed'],
  ];
  for (const [ends, state] of table)
    t.equal(shownState(folded([came, cameAgain, ...ends])), state, JSON.stringify(ends));
});

/** Of all orders, of which the longest have seven facts, a fifth have at most five. */
const factsMax = isAtLength ? 7 : 5;

/** Every order of some of the facts: each once at most, at most one answer, if need be after a failure, and nothing told before it came. */
function* orders(taken: readonly Name[] = []): Generator<readonly Name[]> {
  yield taken;
  if (taken.length === factsMax) return;
  const answers: readonly Name[] = ['accepted', 'refused', 'unsupported', 'failed'];
  for (const name of Object.keys(facts) as Name[]) {
    const need = relayOf[name];
    const isSecondAnswer =
      answers.includes(name) && taken.some((other) => other !== 'failed' && answers.includes(other));
    const isSecondRelay = name.endsWith('told') && (taken.includes('told') || taken.includes('untold'));
    if (taken.includes(name) || isSecondAnswer || isSecondRelay || (need && !taken.includes(need))) continue;
    yield* orders([...taken, name]);
  }
}

t.test('in any order of its facts, the record is in the state of its machine [COMMAND-2]', async (t) => {
  const [first] = initialTransition(commandMachine);
  const snapshots = new Map([['', first]]);
  const machineState = (names: readonly Name[]) => {
    if (names.length === 0) return first.value;
    const before = snapshots.get(names.slice(0, -1).join());
    if (!before) throw new Error(`${names.join(' → ')} came before the order that it goes on from`);
    const [snapshot] = transition(commandMachine, before, { ...lastOf(names), at: 0 } as CommandMachineEvent);
    snapshots.set(names.join(), snapshot);
    return snapshot.value;
  };
  const all = [...orders()];
  const differing = all.filter((names) => folded(recorded(names)).state !== machineState(names));
  t.ok(all.length > 1000, `${all.length} orders`);
  t.strictSame(
    differing.slice(0, 5).map((names) => names.join(' → ')),
    [],
  );
});

t.test('a fact about a command that was never requested is a bug', async (t) => {
  for (const fact of Object.values(facts)) t.throws(() => applyToCommand(null, fact, 't1'), { message: fact.type });
});
