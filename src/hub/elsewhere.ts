/**
 * How partners stand that live in other hubs, and what runs there, as those said of late: for operators, and for nothing that is decided.
 */
import type { PartyId } from '../domain/party.ts';
import { every } from '../kit/clock.ts';
import { askShard } from './asked.ts';
import type { Core } from './core.ts';
import type { Deliveries } from './deliveries.ts';
import type { CircuitView } from './operator.ts';
import type { PartnerActors } from './partners.ts';
import type { Peers } from './peers.ts';
import type { Queues } from './queues.ts';
import { type Running, running } from './running.ts';

const askEveryMs = 1_000;

export interface Standing {
  readonly id: PartyId;
  readonly circuits: readonly CircuitView[];
  readonly queue: ReturnType<Queues['standing']>;
  /** Epoch ms. */
  readonly contact: number | null;
}

/** What a hub says of itself. */
export interface Said {
  /** Of the partners that live there. */
  readonly standings: readonly Standing[];
  readonly running: Running;
}

export function sayingOf({ state, supervisor, isOurs }: Core, actors: PartnerActors, deliveries: Deliveries): Said {
  const standings = [...state.partners()].flatMap(({ id }) => {
    const own = {
      id,
      circuits: actors.circuits(id),
      queue: deliveries.queues.standing(id),
      contact: state.lastContact(id),
    };
    return isOurs(id) ? [own] : [];
  });
  return { standings, running: running(supervisor) };
}

export class Elsewhere {
  readonly #core: Core;
  #standings: ReadonlyMap<PartyId, Standing> = new Map();
  #running: readonly Running[] = [];
  #stop: () => void = () => {};
  #asking: Promise<void> = Promise.resolve();

  constructor(core: Core) {
    this.#core = core;
  }

  /** Null: it lives here, or nothing is known yet. */
  of(partnerId: PartyId): Standing | null {
    return this.#core.isOurs(partnerId) ? null : (this.#standings.get(partnerId) ?? null);
  }

  /** Of each other hub that answered when they were last asked. */
  running(): readonly Running[] {
    return this.#running;
  }

  start(peers: Peers): void {
    this.#stop = every(this.#core.ports.clock, askEveryMs, () => {
      this.#asking = this.#ask(peers);
      return this.#asking;
    });
  }

  async close(): Promise<void> {
    this.#stop();
    await this.#asking;
  }

  /** Never rejects: a hub that does not answer is shown as it was. */
  async #ask(peers: Peers): Promise<void> {
    const told = await Promise.allSettled(
      peers.others().map((shard) => askShard<Said>(this.#core, shard, 'standing', {})),
    );
    const found = told.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    const standings = found.flatMap((one) => one.standings.map((standing) => [standing.id, standing] as const));
    this.#standings = new Map([...this.#standings, ...standings]);
    this.#running = found.map((one) => one.running);
  }
}
