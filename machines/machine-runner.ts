/**
 * Runs state machines by their own transitions, without an XState `Actor` for each: mailbox, system, observers and options of one take more
 * than 4 KB, and a hub holds some hundred thousand actors of which nearly all wait.
 *
 * MACHINE-RUNNER-1  Effects of an event run while it is taken, in order, before the snapshot that follows from it is published; those of a start after.
 * MACHINE-RUNNER-2  Folding runs no effect.
 * MACHINE-RUNNER-3  Machines assign and name effects. They spawn, invoke, delay and emit nothing, for which nobody is here.
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

/** Shared by all: it is asked by no machine of ours. [MACHINE-RUNNER-3] */
const { system } = createEmptyActor();

/** What a transition needs of its actor; hands get `self`, and know the actor by its `id`. */
function scopeOf(id: string, actionExecutor: Execute): AnyActorScope {
  const self = { id } as AnyActorRef;
  const nothing = () => {};
  return {
    ...{ self, id, sessionId: id, system, actionExecutor },
    ...{ logger: nothing, defer: nothing, emit: nothing, stopChild: nothing },
  };
}

const execute: Execute = ({ exec, info, params }) => exec?.(info, params);

/** The first snapshot, and its effects, to be run once it is published. Throws what the machine throws. */
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

/** The snapshot after an event, whose effects have run. Throws what the machine or an effect throws. [MACHINE-RUNNER-1] */
export function take<Logic extends AnyStateMachine>(
  machine: Logic,
  id: string,
  snapshot: Snapshot<Logic>,
  event: EventObject,
): Snapshot<Logic> {
  return machine.transition(snapshot, event, scopeOf(id, execute)) as Snapshot<Logic>;
}

/** The snapshot that recorded facts make, oldest first. Throws what the machine throws. [MACHINE-RUNNER-2] */
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
