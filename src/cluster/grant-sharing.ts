/**
 * Tells the other nodes how many requests this one granted its callers, so that nodes share rate limits, and the owner alone how
 * its door met their tokens, so that the owner shows it.
 *
 * GRANT-SHARING-1  One message to a node is in flight at a time; what is granted meanwhile shares the next one, and what is granted
 *     in one turn of the event loop shares the first. A lost message only lets callers have more.
 */
import { systemClock as clock, nextTurn } from '../kit/system-clock.ts';
import { messageMs, peersPath, type Target } from './node-auth.ts';
import type { Passing } from './passing.ts';

/**
 * Requests that a node granted of a party's budget; `ageMs` since the window of the budget began there. With an address: uses
 * of the token whose digest is the budget; `ageMs` since the last one, which came from there.
 */
export interface Grant {
  readonly party: string;
  readonly budget: string;
  readonly count: number;
  readonly ageMs: number;
  readonly address?: string;
}

/** Grants in a message; more wait for the next one. */
const grantsMax = 50;

export interface GrantSharingParts {
  readonly peers: () => readonly Target[];
  /** Null while none is known, or it is this node. */
  readonly owner: () => Target | null;
  readonly passing: Pick<Passing, 'ask'>;
}

export class GrantSharing {
  readonly #parts: GrantSharingParts;
  /** By node, what it has still to get, by party and budget; present while a message to it is in flight. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(parts: GrantSharingParts) {
    this.#parts = parts;
  }

  /** How many other nodes there are. */
  count(): number {
    return this.#parts.peers().length;
  }

  tell(granted: Grant): void {
    for (const peer of this.#parts.peers()) this.#tell(peer, granted);
  }

  tellOwner(granted: Grant): void {
    const owner = this.#parts.owner();
    if (owner !== null) this.#tell(owner, granted);
  }

  #tell(peer: Target, granted: Grant): void {
    const key = `${granted.party} ${granted.budget}`;
    const waiting = this.#waiting.get(peer.id) ?? new Map();
    const before = waiting.get(key)?.granted;
    // What was granted in a window that has ended since counts for nothing.
    const isSame = before !== undefined && before.ageMs <= granted.ageMs;
    const all = isSame ? { ...granted, count: before.count + granted.count } : granted;
    waiting.set(key, { granted: all, at: clock.monotonic() });
    if (!this.#waiting.has(peer.id)) void this.#run(peer, waiting);
  }

  async #run(peer: Target, waiting: Waiting): Promise<void> {
    this.#waiting.set(peer.id, waiting);
    await nextTurn();
    while (waiting.size > 0) {
      const some = [...waiting].slice(0, grantsMax);
      for (const [key] of some) waiting.delete(key);
      const now = clock.monotonic();
      const grants = some.map(([, { granted, at }]) => ({ ...granted, ageMs: granted.ageMs + now - at }));
      await this.#parts.passing.ask(peer, 'POST', `${peersPath}granted/${writeGrants(grants)}`, messageMs);
    }
    this.#waiting.delete(peer.id);
  }
}

/** Grants, each with the monotonic time at which it was given last, ms. */
type Waiting = Map<string, { readonly granted: Grant; readonly at: number }>;

const writeGrants = (grants: readonly Grant[]): string => Buffer.from(JSON.stringify(grants)).toString('base64url');

/** Null when `writeGrants` cannot have written the text. */
export function readGrants(text: string): Grant[] | null {
  try {
    const grants: unknown = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    return Array.isArray(grants) && grants.every(isGrant) ? grants : null;
  } catch {
    return null;
  }
}

function isGrant(value: unknown): value is Grant {
  const { party, budget, count, ageMs, address = '' } = Object(value) as Record<string, unknown>;
  const areTexts = [party, budget, address].every((one) => typeof one === 'string');
  return areTexts && Number.isSafeInteger(count) && Number(count) > 0 && Number.isFinite(ageMs);
}
