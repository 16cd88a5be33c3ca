/**
 * Which actors a reader of the inspector subscribes to: given in the query of the address, changed by messages.
 * [contract, 4]
 */
import type { WatchedActor } from '../hub/ports/actor-view.ts';

/** An actor must match every criterion; null matches any actor. */
export interface Subscription {
  readonly kinds: ReadonlySet<string> | null;
  /** Upper case. */
  readonly parties: ReadonlySet<string> | null;
  readonly ids: ReadonlySet<string> | null;
  /** `once`: the definition comes only with the first actor of each kind, for a reader that keeps definitions. */
  readonly definitions: 'each' | 'once';
}

/** An invalid message or query; the message says why in a sentence short enough for a close frame. */
export class BadSubscription extends Error {}

const lists = ['kinds', 'parties', 'ids'] as const;

/** Throws `BadSubscription`. */
export function subscriptionOf(text: string): Subscription {
  const { type, ...given } = objectIn(text);
  if (type !== 'subscribe') throw new BadSubscription('type must be "subscribe"');
  return checked(given);
}

/**
 * Parses `?kinds=partner,courier&definitions=once`, so that the first messages are filtered already. Throws
 * `BadSubscription`.
 */
export function subscriptionIn(query: URLSearchParams): Subscription {
  const given: Record<string, unknown> = {};
  for (const name of new Set(query.keys())) {
    const values = query.getAll(name);
    given[name] = name === 'definitions' ? values.join() : values.flatMap((value) => value.split(','));
  }
  return checked(given);
}

export function matches({ kinds, parties, ids }: Subscription, actor: WatchedActor): boolean {
  if (kinds && !kinds.has(actor.kind)) return false;
  if (ids && !ids.has(actor.id)) return false;
  return parties === null || actor.parties.some((id) => parties.has(id.toUpperCase()));
}

function objectIn(text: string): Record<string, unknown> {
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    throw new BadSubscription('a message must be JSON');
  }
  if (typeof read !== 'object' || read === null || Array.isArray(read)) {
    throw new BadSubscription('a message must be a JSON object');
  }
  return read as Record<string, unknown>;
}

function checked(given: Record<string, unknown>): Subscription {
  const { kinds, parties, ids, definitions = 'each', ...others } = given;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) {
    throw new BadSubscription(`${unknown.slice(0, 20)} is not known; there are ${lists.join(', ')}, definitions`);
  }
  if (definitions !== 'each' && definitions !== 'once') throw new BadSubscription('definitions must be each or once');
  const upper = setOf('parties', parties);
  return {
    kinds: setOf('kinds', kinds),
    parties: upper && new Set([...upper].map((id) => id.toUpperCase())),
    ids: setOf('ids', ids),
    definitions,
  };
}

function setOf(name: string, value: unknown): Set<string> | null {
  if (value === undefined || value === null) return null;
  if (!Array.isArray(value) || !value.every((one) => typeof one === 'string')) {
    throw new BadSubscription(`${name} must be a list of strings`);
  }
  return new Set(value);
}
