/**
 * Trims the log: an hourly sweep removes events older than HUB_EVENTS_KEEP_DAYS in small pieces, except those that
 * compaction keeps.
 *
 * RETENTION-1  A trim stops before the first event that is younger, that is above a receiver's floor, or whose delivery
 *     waits for another attempt: no owed event is trimmed. Partners that block the trim of expired events are named.
 * RETENTION-2  Dead letters end with their event. `log.trimmed` says before the trim how many of which receiver: until
 *     then they can be re-driven. After a crash between both it is recorded once more.
 * RETENTION-3  `Pace` bounds the share of the time that a sweep takes from the event loop, and the size of a piece, so
 *     that pushes and deliveries keep their throughput. A piece is one read of its events, one of what was kept of their
 *     streams, and one synced batch.
 * RETENTION-4  A piece is trimmed whole or not at all; after a crash or an error the next sweep continues there.
 * RETENTION-5  No event of a command is recorded between the decision to remove the command and the trim.
 * RETENTION-6  No erasure rewrites the log between the read of a piece and its trim, which would write the names back.
 */
import type { DeliveryRow, Kept, RowKey, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { PartyId } from '../../domain/party.ts';
import { type Clock, dayMs, hourMs, withTimeout } from '../../kit/clock.ts';
import { Limit } from '../../kit/concurrency.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { openRows } from '../delivery/outbox-writer.ts';
import type { Context } from '../kernel/context.ts';
import type { LogHeld } from '../ports/operator.ts';
import { keepingOf } from './log-compaction.ts';
import { RetentionLag } from './retention-lag.ts';
import { Pace } from './sweep-pace.ts';

/** Interval of sweeps, ms; they start at multiples of it. */
const sweepMs = hourMs;
/**
 * Limits of one piece: events, their characters, and deliveries owed by them. Larger pieces delay pushes and
 * deliveries. The first is for a sweep that has all the time; `Pace` makes it smaller.
 */
const eventsMax = 512;
const charactersMax = 2 << 20;
const deliveriesMax = 2_000;
/** While the store still verifies its log nothing is trimmed; the sweep looks again after this time, ms. */
const unverifiedMs = 60_000;
/** Longest wait for the present piece when the hub closes, ms: a database ends none while the standby that should confirm it is gone. */
const lastPieceMs = 8_000;

type Dead = Record<PartyId, number>;

/** Trimmed events that no `log.trimmed` has recorded yet. */
interface Trimmed {
  upTo: Seq;
  events: number;
  kept: number;
}

export class Retention {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  readonly #keepMs: number;
  readonly #lag: RetentionLag;
  #held: LogHeld | null = null;
  /** Dead letters of the last trim that was started, until its result is known. */
  #going: { readonly upTo: Seq; readonly dead: readonly DeliveryRow[] } | null = null;
  #sweeping: Promise<void> = Promise.resolve();
  readonly #pieces = new Limit(1);
  readonly #ending = new AbortController();

  constructor(context: Context, dispatcher: Dispatcher) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    const { store, settings, ports } = context;
    // COMPATIBILITY attributes a session to a START_SESSION of the last `compatibilityWindowH`: it must stay. [D37]
    this.#keepMs = Math.max(settings.eventsKeepDays * dayMs, settings.compatibilityWindowH * hourMs);
    this.#lag = new RetentionLag(store, ports.clock, ports.log, this.#keepMs);
  }

  /** Arms the next sweep; does nothing when HUB_EVENTS_KEEP_DAYS is 0, which keeps the log for ever. */
  schedule(): void {
    const { ports, settings } = this.#context;
    if (settings.eventsKeepDays === 0) return;
    this.#arm((Math.floor(ports.clock.now() / sweepMs) + 1) * sweepMs);
  }

  #arm(at: number): void {
    const { timers, ports, store } = this.#context;
    timers.arm('retention', at, () => {
      if (store.health().verifying) return this.#arm(ports.clock.now() + unverifiedMs);
      this.#sweeping = this.#sweep()
        .catch((error: unknown) => ports.log.error({ err: error }, 'could not trim the log; next sweep within 1 h'))
        .finally(() => this.schedule());
    });
  }

  /** Partners that blocked the trim in the last sweep and still have deliveries waiting; null when there are none. */
  held(): LogHeld | null {
    const by = (this.#held?.by ?? []).filter((id) => {
      const { depth, behind } = this.#dispatcher.backlog(id);
      return depth > 0 || behind;
    });
    return this.#held && by.length > 0 ? { ...this.#held, by } : null;
  }

  /** By how long the oldest event is older than events are kept, though nobody holds it, seconds. */
  lagS(): number {
    return this.#lag.lagS();
  }

  /** Does the work between two pieces. [RETENTION-6] */
  between<T>(work: () => Promise<T>): Promise<T> {
    return this.#pieces.run(work);
  }

  /** Stops the sweep after the present piece. */
  async close(): Promise<void> {
    this.#ending.abort();
    await withTimeout(this.#context.ports.clock, lastPieceMs, this.#sweeping);
  }

  async #sweep(): Promise<void> {
    const { store, ports } = this.#context;
    const before = ports.clock.now() - this.#keepMs;
    const trimmed: Trimmed = { upTo: 0, events: 0, kept: 0 };
    const { clock } = ports;
    const pace = new Pace(clock);
    this.#lag.begin();
    let [begun, head] = [0, store.head()];
    const piece = () => {
      begun = clock.monotonic();
      return this.#piece(before, pace.sized(eventsMax), trimmed);
    };
    try {
      while (!this.#ending.signal.aborted && store.health().state === 'open') {
        if (!(await this.between(piece))) break;
        const isBusy = store.head() > head;
        head = store.head();
        await pace.pause(clock.monotonic() - begun, isBusy, this.#ending.signal);
      }
    } finally {
      this.#lag.end();
      if (trimmed.events > 0) {
        const done = { ...trimmed, dead: {} };
        ports.log.info(done, 'the log was trimmed');
        await this.#record(done);
      }
    }
  }

  /** Trims one piece of at most `limit` events; resolves with whether there may be more. */
  async #piece(before: number, limit: number, trimmed: Trimmed): Promise<boolean> {
    const { store, ports } = this.#context;
    const fence = store.held();
    if (!fence) return false;
    const horizon = store.horizon();
    this.#forget(horizon);
    const next = await store.read({ after: horizon, limit, size: charactersMax });
    const old = oldOnes(next, before, ports.clock);
    const { upTo, dead, holders } = await this.#needless(old.at(-1)?.seq ?? horizon);
    const first = old.find(({ seq }) => seq > upTo);
    this.#held = first ? { since: first.at, by: holders } : null;
    this.#lag.look(first ? null : (next[0]?.at ?? null));
    if (upTo <= horizon) return false;
    const events = old.filter(({ seq }) => seq <= upTo);
    await this.#undisturbed(events, async () => {
      const { keeps, drops, rows } = await this.#kept(horizon, events);
      const sum = { upTo, events: trimmed.events + events.length, kept: trimmed.kept + keeps.length - drops.length };
      const done = { ...sum, dead: byReceiver(dead) };
      const hasDead = dead.length > 0;
      if (hasDead) {
        ports.log.warn(done, 'dead letters are trimmed with their expired events');
        await this.#record(done);
      }
      this.#going = { upTo, dead };
      await store.trim({ fence, upTo, events, keeps, drops, rows });
      if (hasDead) ports.log.info(done, 'the log was trimmed');
      Object.assign(trimmed, hasDead ? { events: 0, kept: 0 } : sum);
    });
    this.#forget(upTo);
    return true;
  }

  /**
   * Settles a trim whose result was unknown: when the horizon has reached it, it was done, and its dead letters no
   * longer count. [RETENTION-4]
   */
  #forget(horizon: Seq): void {
    const going = this.#going;
    this.#going = null;
    if (!going || horizon < going.upTo) return;
    for (const row of going.dead) this.#dispatcher.forget(row);
  }

  /** The highest sequence to trim, the dead letters up to it, and the partners that block the rest. [RETENTION-1] */
  async #needless(wanted: Seq): Promise<{ upTo: Seq; dead: readonly DeliveryRow[]; holders: readonly PartyId[] }> {
    const { store, directory } = this.#context;
    const floors = new Map((await store.floors()).map(({ dest, seq }) => [dest, seq]));
    const receivers = [...directory.parties()];
    const brought = new Map(receivers.map((receiver) => [receiver, Math.min(floors.get(receiver) ?? 0, wanted)]));
    const lowest = Math.min(wanted, ...brought.values());
    const open: DeliveryRow[] = [];
    if (lowest > store.horizon()) {
      await this.#dispatcher.flushed();
      for await (const row of openRows(store, receivers, lowest)) open.push(row);
    }
    for (const { state: is, seq, dest } of open) {
      if (is === 'PENDING') brought.set(dest, Math.min(brought.get(dest) ?? 0, seq - 1));
    }
    const upTo = Math.min(wanted, ...brought.values());
    const dead = open.filter(({ state: is, seq }) => is === 'DEAD' && seq <= upTo);
    const holders = receivers.filter((receiver) => upTo < wanted && brought.get(receiver) === upTo);
    return {
      upTo,
      dead,
      holders: [...new Set(holders.flatMap((receiver) => directory.partnerOf(receiver)?.id ?? []))],
    };
  }

  /**
   * Serializes the work with the commands of the piece: a late result comes before the decision or after the trim.
   * [RETENTION-5]
   */
  #undisturbed(events: readonly StoredEvent[], work: () => Promise<void>): Promise<void> {
    const { recorder } = this.#context;
    const streams = new Set(events.map(({ stream }) => stream).filter((stream) => stream.startsWith('command:')));
    return [...streams].reduce((inner, stream) => () => recorder.inTurn(stream, inner), work)();
  }

  /** What the trim of these events keeps and drops. */
  async #kept(horizon: Seq, events: readonly StoredEvent[]) {
    const { store } = this.#context;
    const streams = new Map<string, StoredEvent[]>();
    for (const { stream } of events) streams.set(stream, []);
    for (const event of [...(await store.kept([...streams.keys()])), ...events]) streams.get(event.stream)?.push(event);
    const found = { keeps: [] as Kept[], drops: [] as StoredEvent[], rows: [] as RowKey[] };
    for (const past of streams.values()) {
      const { keeps, rows } = await keepingOf(past, this.#context);
      const stay = new Set(keeps.map(({ seq }) => seq));
      found.keeps.push(...keeps.filter(({ seq }) => seq > horizon));
      found.drops.push(...past.filter(({ seq }) => seq <= horizon && !stay.has(seq)));
      found.rows.push(...rows);
    }
    return found;
  }

  /** [RETENTION-2] */
  async #record(data: Trimmed & { readonly dead: Dead }): Promise<void> {
    const { recorder } = this.#context;
    const facts = [{ stream: 'retention', event: { type: 'log.trimmed' as const, data }, party: null }];
    await recorder.record({ facts, trace: null });
  }
}

function byReceiver(dead: readonly DeliveryRow[]): Dead {
  const counts: Dead = {};
  for (const { dest } of dead) counts[dest] = (counts[dest] ?? 0) + 1;
  return counts;
}

/** The leading events that are older than `before` (hub time), at most one piece. */
function oldOnes(events: readonly StoredEvent[], before: number, clock: Clock): readonly StoredEvent[] {
  let owed = 0;
  const end = events.findIndex(({ at, to }, index) => {
    owed += to.length;
    return clock.steady(Date.parse(at)) >= before || (index > 0 && owed > deliveriesMax);
  });
  return end === -1 ? events : events.slice(0, end);
}
