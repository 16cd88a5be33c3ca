/**
 * Runs state machines by XState's pure transitions, without an XState `Actor` for each: the mailbox, system, observers and
 * options of an `Actor` take more than 4 KB, and a hub holds some hundred thousand actors, nearly all of them waiting.
 *
 * MACHINE-RUNNER-1  The effects of an event run in order before its snapshot is published; the effects of a start run
 *     after its snapshot is published.
 * MACHINE-RUNNER-2  Folding runs no effect.
 * MACHINE-RUNNER-3  Machines may only assign and name effects. They must not spawn, invoke, use `after` or emit: this
 *     runner implements none of it.
 */
import {
  type AnyActorRef,
  type AnyStateMachine,
  type EventObject,
  type ExecutableActionObject,
  type InputFrom,
  initialTransition,
  type SnapshotFrom,
  transition,
} from 'xstate';

type Snapshot<Logic extends AnyStateMachine> = SnapshotFrom<Logic>;
type Effects = readonly ExecutableActionObject[];

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
  const [snapshot, effects] = initialTransition<AnyStateMachine>(machine, input);
  return { snapshot: sound(snapshot) as Snapshot<Logic>, effects: () => run(id, effects) };
}

/** The snapshot after an event whose effects have run. Throws what machine or effect throws. [MACHINE-RUNNER-1] */
export function take<Logic extends AnyStateMachine>(
  machine: Logic,
  id: string,
  snapshot: Snapshot<Logic>,
  event: EventObject,
): Snapshot<Logic> {
  const [next, effects] = transition<AnyStateMachine>(machine, snapshot, event);
  run(id, effects);
  return next as Snapshot<Logic>;
}

/** By machine that takes no input: all of its actors begin with the same snapshot, which is never changed. */
const beginnings = new WeakMap<AnyStateMachine, SnapshotFrom<AnyStateMachine>>();

function beginningOf(machine: AnyStateMachine, input: unknown): SnapshotFrom<AnyStateMachine> {
  const known = input === undefined ? beginnings.get(machine) : undefined;
  if (known) return known;
  const [snapshot] = initialTransition<AnyStateMachine>(machine, input);
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
  for (const fact of facts) [snapshot] = transition<AnyStateMachine>(machine, snapshot, fact);
  return snapshot as Snapshot<Logic>;
}

function sound<Any extends { readonly status: string; readonly error: unknown }>(snapshot: Any): Any {
  if (snapshot.status === 'error') throw snapshot.error;
  return snapshot;
}
