/**
 * Removes sessions, CDRs and tokens that are older than HUB_SESSIONS_KEEP_DAYS, HUB_CDRS_KEEP_DAYS and
 * HUB_TOKENS_KEEP_DAYS: an hourly sweep, in small pieces.
 *
 * EXPIRY-1  An object ends when its `last_updated` is older than its time by the wall clock, and the hub stored its last
 *     change as long ago in hub time: neither a wrong date of a partner nor a step of the clock removes what just came.
 * EXPIRY-2  An object with a delivery that is still owed stays.
 * EXPIRY-3  Each object is decided in its own turn, and each piece is followed by a pause.
 */
import type { Position, Put, Row, Seen, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { Actor, ObjectEventData } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import { modules, type ObjectModule } from '../../domain/modules.ts';
import { sortableDate, streamOf } from '../../domain/object.ts';
import { dayMs, hourMs, sleep } from '../../kit/clock.ts';
import { mapLimit } from '../../kit/concurrency.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { Context } from '../kernel/context.ts';
import { changesOf } from '../kernel/log-reads.ts';
import type { Fact } from '../kernel/recorder.ts';
import { billedKey, objectFromRow, ownersKind, rowSeen, shelvesOf } from '../kernel/row-codecs.ts';

const sweepMs = hourMs;
/** Limits of one piece: objects, and characters of their bodies. Larger pieces delay pushes. */
const objectsMax = 64;
const charactersMax = 1 << 20;
/** Objects that are decided at the same time: each holds one page of its changes with their bodies. */
const objectsAtOnce = 4;
const all = Number.POSITIVE_INFINITY;
/** Pause between two pieces, ms. [EXPIRY-3] */
const pauseMs = 20;

export class Expiry {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  readonly #ending = new AbortController();
  #sweeping: Promise<void> = Promise.resolve();

  constructor(context: Context, dispatcher: Dispatcher) {
    this.#context = context;
    this.#dispatcher = dispatcher;
  }

  /** Arms the next sweep; does nothing when every kind of object is kept for ever. */
  schedule(): void {
    const { timers, ports, settings } = this.#context;
    const { sessionsKeepDays, cdrsKeepDays, tokensKeepDays } = settings;
    const times = { sessions: sessionsKeepDays, cdrs: cdrsKeepDays, tokens: tokensKeepDays };
    const ending = (Object.keys(times) as (keyof typeof times)[]).filter((module) => times[module] > 0);
    if (ending.length === 0) return;
    timers.arm('expiry', (Math.floor(ports.clock.now() / sweepMs) + 1) * sweepMs, () => {
      this.#sweeping = (async () => {
        for (const module of ending) await this.#sweep(module, times[module] * dayMs);
      })()
        .catch((error: unknown) =>
          ports.log.error({ err: error }, 'could not remove old objects; next sweep within 1 h'),
        )
        .finally(() => this.schedule());
    });
  }

  /** Stops the sweep after the present piece. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.#sweeping;
  }

  async #sweep(module: ObjectModule, keepMs: number): Promise<void> {
    const { store, ports, directory } = this.#context;
    const before = instantText(ports.clock.wall() - keepMs);
    const shelves = shelvesOf(directory.parties());
    const query = { kind: module, shelves, to: sortableDate(before) ?? before, offset: 0, limit: objectsMax };
    let removed = 0;
    for (let after: Position | null = null; !this.#ending.signal.aborted && store.held(); ) {
      const { rows } = await store.list({ ...query, size: charactersMax, ...(after && { after }) });
      await mapLimit(rows, objectsAtOnce, async (row) => {
        if (await this.#end(module, row, keepMs)) removed += 1;
      });
      after = rows.at(-1) ?? null;
      if (after === null) break;
      await sleep(ports.clock, pauseMs, this.#ending.signal);
    }
    if (removed > 0) ports.log.info({ module, objects: removed }, 'old objects were removed');
  }

  /** Resolves with whether the object was removed. */
  #end(module: ObjectModule, { owner, id, upd }: Row, keepMs: number): Promise<boolean> {
    const { store, recorder } = this.#context;
    const stream = streamOf(module, owner, id);
    return recorder.inTurn(stream, async (seen) => {
      const row = await rowSeen(store, { kind: module, owner, id }, seen);
      if (row?.upd !== upd || !(await this.#isOld(stream, row, keepMs)) || (await this.#isOwed(stream))) return false;
      const { fact, puts } = removalOf(row, 'expired', 'hub');
      const marks = await this.#marksOf(row, seen);
      await recorder.record({ facts: [fact], puts: [...puts, ...marks], seen, trace: null });
      return true;
    });
  }

  /** The mark that a session was billed ends with the session, and where there is none with its last CDR. */
  async #marksOf(cdr: Row, seen: Seen[]): Promise<Put[]> {
    const { store } = this.#context;
    const { module, owner, facts } = objectFromRow(cdr);
    if (module !== 'cdrs' || !facts.sessionId) return [];
    const key = billedKey(owner, facts.sessionId);
    const session = await rowSeen(store, { ...key, kind: 'sessions' }, seen);
    const mark = session ? null : await rowSeen(store, key, seen);
    return mark && mark.seq <= cdr.seq ? [{ ...key, gone: true }] : [];
  }

  /** [EXPIRY-1] Of a row without any event, as an earlier version left some, `last_updated` alone decides. */
  async #isOld(stream: string, { seq }: Row, keepMs: number): Promise<boolean> {
    const { store, ports } = this.#context;
    const event = (await store.event(seq)) ?? (await this.#keptOf(stream, seq));
    return event === null || ports.clock.steady(Date.parse(event.at)) < ports.clock.now() - keepMs;
  }

  /** The last event that the row is not older than: a trim keeps it in place of those before it. */
  async #keptOf(stream: string, row: Seq): Promise<StoredEvent | null> {
    let found: StoredEvent | null = null;
    for await (const event of changesOf(this.#context.store, stream, 0, all)) {
      if (event.seq > row) break;
      found = event;
    }
    return found;
  }

  /** [EXPIRY-2] */
  async #isOwed(stream: string): Promise<boolean> {
    const { store } = this.#context;
    for await (const { seq, to } of changesOf(store, stream, store.horizon(), all))
      for (const receiver of to) if ((await this.#dispatcher.standing(receiver, seq)).state === 'PENDING') return true;
    return false;
  }
}

/**
 * Removal of a stored object by the hub, of which partners are not notified: OCPI has no deletion of sessions, CDRs and tokens. The
 * fact, and the rows to remove: that of the object and those by which it is found.
 */
export function removalOf(row: Row, reason: string, by: Actor): { readonly fact: Fact; readonly puts: Put[] } {
  const { module, owner, key, id, facts, viewer } = objectFromRow(row);
  const data: ObjectEventData = {
    module,
    method: 'DELETE',
    owner,
    id,
    within: [],
    lastUpdated: null,
    facts,
    viewer,
    owed: null,
    reason,
    warnings: [],
    by,
  };
  const puts: Put[] = [{ kind: module, owner, id: key, gone: true }];
  if (modules[module].isFoundById) puts.push({ kind: ownersKind(module), owner: key, id: owner, gone: true });
  // A CDR that ends before its session leaves the mark that the session was billed.
  if (module === 'sessions') puts.push({ ...billedKey(owner, key), gone: true });
  return { fact: { stream: streamOf(module, owner, key), event: { type: 'object.deleted', data }, party: null }, puts };
}
