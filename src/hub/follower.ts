/**
 * Reads on in the shards of other hubs: what they recorded of partners and routes, and what they owe to parties that live here.
 *
 * W1  Of a shard events come in order of sequence; each is read once.
 * W2  Partners and routes are taken from their rows, which are never older than the event that tells of them.
 * W3  A receiver that came into being, or came here, while a reading was under way is not passed over: such a reading is made again.
 */
import type { Seq, Shard, StoredEvent } from '../../storage/contract.ts';
import { keyOf, type Partner } from '../domain/party.ts';
import type { Route } from '../domain/routing.ts';
import { every } from '../kit/clock.ts';
import { type Core, routePut } from './core.ts';
import { readTo } from './intake.ts';
import type { Peers } from './peers.ts';

const pollMs = 20;
/** Of one shard at once. */
const readBatch = 200;
const readSize = 1024 * 1024;
const directoryTypes = ['partner.', 'route.'] as const;

export class Follower {
  readonly #core: Core;
  readonly #peers: Peers;
  #stop: () => void = () => {};
  #reading: Promise<void> | null = null;
  /** Somebody asked after the reading began. */
  #next: Promise<void> | null = null;
  #receivers: readonly string[] = [];
  /** Of which partners and shards they are. */
  #receiversOf = '';
  #closed = false;

  constructor(core: Core, peers: Peers) {
    this.#core = core;
    this.#peers = peers;
  }

  start(): void {
    const { clock, log } = this.#core.ports;
    this.#stop = every(clock, pollMs, () =>
      this.caughtUp().catch((error: unknown) => log.warn({ err: error }, 'could not read what peers recorded')),
    );
  }

  /** Resolves when everything is read that was recorded before the call. */
  caughtUp(): Promise<void> {
    if (this.#reading === null) return this.#begin();
    // The one under way may have looked before.
    this.#next ??= this.#reading.then(
      () => this.#begin(),
      () => this.#begin(),
    );
    return this.#next;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#stop();
    await Promise.allSettled([this.#reading, this.#next]);
  }

  #begin(): Promise<void> {
    this.#next = null;
    const reading = this.#read().finally(() => {
      if (this.#reading === reading) this.#reading = null;
    });
    this.#reading = reading;
    return reading;
  }

  async #read(): Promise<void> {
    const { store, recorder, shards } = this.#core;
    // Nobody else records anything.
    if (shards.size === this.#peers.shards) return;
    const heads = await store.heads();
    for (;;) {
      if (this.#closed) return;
      const ranges = [...heads].flatMap(([shard, upTo]) => {
        const after = recorder.dispatchedTo(shard);
        return shards.has(shard) || upTo <= after ? [] : [{ shard, after, upTo }];
      });
      if (ranges.length === 0) return;
      const to = this.#ours();
      const events = await this.#peers.follow({ ranges, to, types: directoryTypes, limit: readBatch, size: readSize });
      for (const event of events) if (isOfDirectory(event)) await this.#reload(event);
      // W3
      if (this.#closed || this.#ours() !== to) continue;
      const found = new Map<Shard, StoredEvent[]>();
      for (const event of events) found.set(event.shard, [...(found.get(event.shard) ?? []), event]);
      for (const { shard, upTo } of ranges) this.#take(shard, found.get(shard) ?? [], upTo);
    }
  }

  #take(shard: Shard, events: readonly StoredEvent[], upTo: Seq): void {
    const end = readTo(events, { limit: readBatch, size: readSize }, upTo);
    this.#core.recorder.followed(shard, events, end);
  }

  /** Receivers that live here; another list when there are others. */
  #ours(): readonly string[] {
    const { state, shards, isOurs } = this.#core;
    const present = `${state.count} ${shards.changes}`;
    if (this.#receiversOf !== present) {
      this.#receiversOf = present;
      this.#receivers = [...state.partners()].flatMap(({ id, roles }) => (isOurs(id) ? roles.map(keyOf) : []));
    }
    return this.#receivers;
  }

  async #reload(event: StoredEvent): Promise<void> {
    const { store, state } = this.#core;
    if (event.type.startsWith('route.')) {
      const route = event.data as Route;
      const { kind, owner, id } = routePut(route);
      const row = await store.get({ kind, owner, id });
      state.applyRoute(row ? (row.data as Route) : route, row === null);
    } else {
      const id = event.stream.slice('partner:'.length);
      const row = await store.get({ kind: 'partners', owner: id, id });
      if (row) state.applyPartner(row.data as Partner);
    }
  }
}

const isOfDirectory = ({ type }: StoredEvent) => directoryTypes.some((prefix) => type.startsWith(prefix));
