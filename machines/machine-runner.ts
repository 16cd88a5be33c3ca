/**
 * Runs state machines by their pure transitions, without an XState `Actor` for each: the mailbox, system, observers and
 * options of an `Actor` take more than 4 KB, and a hub holds some hundred thousand actors, nearly all of them waiting.
 *
 * MACHINE-RUNNER-1  The effects of an event run in order during the transition, before its snapshot is published; the
 *     effects of a start run after its snapshot is published.
 * MACHINE-RUNNER-2  Folding runs no effect.
 * MACHINE-RUNNER-3  Machines may only assign and name effects. They must not spawn, invoke, use `after` or emit: this
 *     runner implements none of it.
 */
import {
  type AnyActorRef,
  type AnyActorScope,
  type AnyStateMachine,
  createEmptyActor,
  type EventObject,
  type InputFrom,
  type SnapshotFrom,
} from 'xstate';

type Snapshot<Logic extends AnyStateMachine> = SnapshotFrom<Logic>;
type Execute = AnyActorScope['actionExecutor'];

/** One system for all actors: no machine of the hub uses it. [MACHINE-RUNNER-3] */
const { system } = createEmptyActor();

/** The part of an actor that a transition needs; effects get `self` and identify the actor by its `id`. */
function scopeOf(id: string, actionExecutor: Execute): AnyActorScope {
  const self = { id } as AnyActorRef;
  const nothing = () => {};
  return {
    ...{ self, id, sessionId: id, system, actionExecutor },
    ...{ logger: nothing, defer: nothing, emit: nothing, stopChild: nothing },
  };
}

const execute: Execute = ({ exec, info, params }) => exec?.(info, params);

/** The initial snapshot, and its effects, to run once it is published. Throws what the machine throws. */
export function begin<Logic extends AnyStateMachine>(
  machine: Logic,
  id: string,
  input: InputFrom<Logic>,
): { readonly snapshot: Snapshot<Logic>; readonly effects: () => void } {
  const effects: (() => void)[] = [];
  const later = scopeOf(id, (action) => void effects.push(() => execute(action)));
  const snapshot = sound(machine.getInitialSnapshot(later, input)) as Snapshot<Logic>;
  return {
    snapshot,
    effects: () => {
      for (const effect of effects) effect();
    },
  };
}

/** The snapshot after an event whose effects have run. Throws what machine or effect throws. [MACHINE-RUNNER-1] */
export function take<Logic extends AnyStateMachine>(
  machine: Logic,
  id: string,
  snapshot: Snapshot<Logic>,
  event: EventObject,
): Snapshot<Logic> {
  return machine.transition(snapshot, event, scopeOf(id, execute)) as Snapshot<Logic>;
}

/** Folds recorded facts, oldest first, into a snapshot. Throws what the machine throws. [MACHINE-RUNNER-2] */
export function fold<Logic extends AnyStateMachine>(
  machine: Logic,
  id: string,
  input: InputFrom<Logic>,
  facts: Iterable<EventObject>,
): Snapshot<Logic> {
  const quiet = scopeOf(id, () => {});
  let snapshot = sound(machine.getInitialSnapshot(quiet, input));
  for (const fact of facts) snapshot = machine.transition(snapshot, fact, quiet);
  return snapshot as Snapshot<Logic>;
}

function sound<Any extends { readonly status: string; readonly error: unknown }>(snapshot: Any): Any {
  if (snapshot.status === 'error') throw snapshot.error;
  return snapshot;
}
