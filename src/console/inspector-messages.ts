/**
 * Builds the messages of the inspector: the wire protocol of `@statelyai/inspect`, and two messages of the hub's own
 * that its clients ignore. docs/INSPECTOR.md describes them.
 */
import type { WatchedActor, WatchedEvent } from '../hub/ports/actor-view.ts';

/** The version of `@statelyai/inspect` whose protocol this is. */
const protocolVersion = '0.7.2';

/** The protocol's event for a snapshot whose event is unknown. */
const noEvent: WatchedEvent = { type: '' };

export interface Messages {
  readonly actor: (actor: WatchedActor, withDefinition: boolean) => Buffer;
  /** `at`: when the actor received the event, epoch milliseconds. */
  readonly event: (actor: WatchedActor, event: WatchedEvent, at: number) => Buffer;
  readonly snapshot: (actor: WatchedActor, event?: WatchedEvent) => Buffer;
}

/** `shown`: what readers may see of a message. */
export function messages(now: () => number, shown: (message: object) => unknown): Messages {
  let count = 0;
  const framed = (message: object) => bytesOf(shown(message));
  // A hub's actors have neither parents nor children: each is its own root.
  const head = (type: string, sessionId: string, at: number) => ({
    type,
    sessionId,
    rootId: sessionId,
    id: String(++count),
    createdAt: String(at),
    _version: protocolVersion,
  });
  return {
    actor(actor, withDefinition) {
      const { id, kind: name, definition, parties, snapshot } = actor;
      const defined = withDefinition ? { definition } : {};
      return framed({
        ...head('@xstate.actor', id, now()),
        name,
        ...defined,
        parties,
        snapshot,
        ...supervision(actor),
      });
    },
    event: ({ id }, event, at) => framed({ ...head('@xstate.event', id, at), event }),
    snapshot: (actor, event = noEvent) =>
      framed({ ...head('@xstate.snapshot', actor.id, now()), event, snapshot: actor.snapshot, ...supervision(actor) }),
  };
}

/** Says that all matching actors have been sent. */
export const complete = (actors: number): Buffer => bytesOf({ type: 'ocpi-hub.complete', actors });

/** Reports skipped events: since the last report, and in all. */
export const missed = (count: number, total: number): Buffer => bytesOf({ type: 'ocpi-hub.missed', count, total });

function supervision({ state, restarts, error }: WatchedActor) {
  return { supervision: { state, restarts, error } };
}

function bytesOf(message: unknown): Buffer {
  return Buffer.from(JSON.stringify(message));
}
