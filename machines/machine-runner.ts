/**
 * Runs state machines by XState's pure transitions, without an XState `Actor` for each: the mailbox, system, observers and
 * options of an `Actor` take more than 4 KB, and a hub holds some hundred thousand actors, nearly all of them waiting.
 *
 * MACHINE-RUNNER-1  The effects of an event run in order before its snapshot is published; the effects of a start run
 *     after its snapshot is published.
 * MACHINE-RUNNER-2  Folding runs no effect.
 * MACHINE-RUNNER-3  Machines may only assign and name effects. They must not spawn, invoke, use `after` or emit: this
 *     runner implements none of it.
 * MACHINE-RUNNER-4  XState's `transition` creates an actor for each event, which takes twenty times as long as the
 *     transition. So a machine is asked itself, for an actor that is created once, never started, and whose snapshot nobody reads.
 */
import {
  type ActorScope,
  type AnyActorRef,
  type AnyStateMachine,
  createActor,
  type EventObject,
  type ExecutableActionObject,
  type InputFrom,
  type SnapshotFrom,
} from 'xstate';

type Snapshot<Logic extends AnyStateMachine> = SnapshotFrom<Logic>;
type Effects = readonly ExecutableActionObject[];

type Scope = ActorScope<SnapshotFrom<AnyStateMachine>, EventObject>;

const scopes = new WeakMap<AnyStateMachine, Scope>();
/** Effects that the present step has named; steps do not nest. */
let named: ExecutableActionObject[] = [];

/** [MACHINE-RUNNER-4] */
function scopeOf(machine: AnyStateMachine): Scope {
  const known = scopes.get(machine);
  if (known) return known;
  const self = createActor(machine);
  const none = () => {};
  const scope: Scope = {
    self,
    id: '',
    sessionId: '',
    system: self.system,
    actionExecutor: (effect) => void named.push(effect),
    logger: none,
    defer: none,
    stopChild: none,
    emit: none,
  };
  scopes.set(machine, scope);
  return scope;
}

function stepped<Any>(machine: AnyStateMachine, step: (scope: Scope) => Any): readonly [Any, Effects] {
  named = [];
  const result = step(scopeOf(machine));
  return [result, named];
}

const initialTransition = (machine: AnyStateMachine, input: unknown) =>
  stepped(machine, (scope) => machine.getInitialSnapshot(scope, input));

const transition = (machine: AnyStateMachine, snapshot: SnapshotFrom<AnyStateMachine>, event: EventObject) =>
  stepped(machine, (scope) => machine.transition(snapshot, event, scope));

/** Effects get `self`, and identify the actor by its `id`. */
function run(id: string, effects: Effects): void {
  const self = { id } as AnyActorRef;
  for (const { exec, info, params } of effects) exec?.({ ...info, self }, params);
}

/** The initial snapshot, and its effects, to run once it is published. Throws what the machine throws. */
export function begin<Logic extends AnyStateMachine>(
  machine: Logic,
  id: string,
  input: InputFrom<Logic>,
): { readonly snapshot: Snapshot<Logic>; readonly effects: () => void } {
  const [snapshot, effects] = initialTransition(machine, input);
  return { snapshot: sound(snapshot) as Snapshot<Logic>, effects: () => run(id, effects) };
}

/** The snapshot after an event whose effects have run. Throws what machine or effect throws. [MACHINE-RUNNER-1] */
export function take<Logic extends AnyStateMachine>(
  machine: Logic,
  id: string,
  snapshot: Snapshot<Logic>,
  event: EventObject,
): Snapshot<Logic> {
  const [next, effects] = transition(machine, snapshot, event);
  run(id, effects);
  return next as Snapshot<Logic>;
}

/** By machine that takes no input: all of its actors begin with the same snapshot, which is never changed. */
const beginnings = new WeakMap<AnyStateMachine, SnapshotFrom<AnyStateMachine>>();

function beginningOf(machine: AnyStateMachine, input: unknown): SnapshotFrom<AnyStateMachine> {
  const known = input === undefined ? beginnings.get(machine) : undefined;
  if (known) return known;
  const [snapshot] = initialTransition(machine, input);
  sound(snapshot);
  if (input === undefined) beginnings.set(machine, snapshot);
  return snapshot;
}

/** Folds recorded facts, oldest first, into a snapshot. Throws what the machine throws. [MACHINE-RUNNER-2] */
export function fold<Logic extends AnyStateMachine>(
  machine: Logic,
  input: InputFrom<Logic>,
  facts: Iterable<EventObject>,
): Snapshot<Logic> {
  let snapshot = beginningOf(machine, input);
  for (const fact of facts) [snapshot] = transition(machine, snapshot, fact);
  return snapshot as Snapshot<Logic>;
}

function sound<Any extends { readonly status: string; readonly error: unknown }>(snapshot: Any): Any {
  if (snapshot.status === 'error') throw snapshot.error;
  return snapshot;
}
