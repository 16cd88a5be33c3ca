/**
 * Follows up on events of the log: starts or ends the watch of a session where the event was recorded and the hub was
 * killed before its follow-up, or where a door recorded the event. A follow-up is idempotent.
 *
 * ORPHAN-FOLLOW-UPS-1  A STOP_SESSION whose call was cut off is watched like an accepted one: the CPO may have accepted
 *     it, and its eMSP may have got that answer before the hub could record it.
 * ORPHAN-FOLLOW-UPS-2  The grace counts from when this node reads the event of another one, whose clock may differ; after a
 *     restart or takeover from the recorded time.
 * ORPHAN-FOLLOW-UPS-3  The floor passes an event only when a whole interval has gone by since it was dispatched in which no
 *     follow-up failed, and at its end none is under way: the follow-up of an event begins at the latest moments after it.
 */
import type { Seq, Store, StoredEvent } from '../../../storage/contract.ts';
import { type CommandRecord, mayBeAccepted } from '../../domain/command.ts';
import type { ObjectEventData, Trace } from '../../domain/events.ts';
import { isOwned } from '../../domain/modules.ts';
import type { HubObject } from '../../domain/object.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import { changesOf } from '../kernel/log-reads.ts';
import { billedKey, readObject, rowData } from '../kernel/row-codecs.ts';

/**
 * Events behind the floor of the follow-ups may lack theirs. They are read backwards, in at most `tailPages` pages of
 * `tailEvents`: about as many as doors record within the longest lease of an owner that died.
 */
const tailEvents = 1_000;
const tailPages = 1_000;
/** Without a floor: span of the last events that may lack their follow-ups, and pages of it at most. */
const unknownMs = 60_000;
const unknownPages = 20;

/** Name of the floor in the outbox. */
const dest = 'orphan-follow-ups';
/** Time between two writes of the floor: a longer one makes the next owner read more of the log. */
const intervalMs = 10_000;

/** Types of events that a door records and that may need a follow-up by the owner. */
const atDoors: ReadonlySet<string> = new Set([
  'object.put',
  'object.patched',
  'command.answered',
  'command.failed',
  'command.resultReceived',
]);
/** States of a session after which nothing more follows. */
export const ended: ReadonlySet<string | undefined> = new Set(['COMPLETED', 'INVALID']);

interface Watches {
  arm(session: HubObject, emsp: PartyId, at: number, trace: Trace): Promise<void>;
  sessionStored(before: null, session: HubObject, trace: Trace): void;
  cdrStored(cdr: HubObject, trace: Trace): void;
}

export class OrphanFollowUps {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #watches: Watches;

  constructor(store: Store, clock: Clock, watches: Watches) {
    this.#store = store;
    this.#clock = clock;
    this.#watches = watches;
  }

  /**
   * The last events of the log, of whose follow-ups a kill may have cut off some. `floor`: up to where they are done; null
   * when nothing says so.
   */
  async unfollowed(floor: Seq | null): Promise<StoredEvent[]> {
    // The follow-up of an object depends on its present state: once per object is enough.
    const last = new Map((await this.#tail(floor)).map((event) => [`${event.stream} ${kindOf(event)}`, event]));
    return [...last.values()];
  }

  async #tail(floor: Seq | null): Promise<StoredEvent[]> {
    const store = this.#store;
    const found: StoredEvent[][] = [];
    const lowest = Math.max(store.horizon(), floor ?? 0);
    const pagesMax = floor === null ? unknownPages : tailPages;
    let upTo = store.head();
    const until = (await store.event(upTo))?.at;
    for (let pages = 0; pages < pagesMax && upTo > lowest; pages++, upTo -= tailEvents) {
      const page = await store.ranges([{ after: Math.max(lowest, upTo - tailEvents), upTo }]);
      found.push(page.filter(asksForMore));
      const from = page[0]?.at;
      if (floor === null && from && until && this.#timeOf(from) < this.#timeOf(until) - unknownMs) break;
    }
    return found.reverse().flat();
  }

  /** Why an open case is over, when its session ended, or was billed, while nobody followed that; else null. */
  async endOf({ kind, cpo, session }: OrphanRecord): Promise<string | null> {
    const key = session.toLowerCase();
    const status = (await readObject(this.#store, 'sessions', cpo, key))?.facts.status;
    if (kind === 'stop_without_complete' ? ended.has(status) : status === 'INVALID')
      return `the CPO reported ${status}`;
    if (kind === 'stop_without_complete') return null;
    return (await this.#store.get(billedKey(cpo, key))) === null ? null : 'its CDR has come';
  }

  /** Follows an event that another node wrote and this one read at `at` (hub time). [ORPHAN-FOLLOW-UPS-2] */
  async follow(event: StoredEvent, at: number): Promise<void> {
    if (!(await this.#wasFollowed(event))) await this.followUp(event, at);
  }

  /** Whether the session was COMPLETED, and an eMSP's, before this event, which then needs no follow-up. */
  async #wasFollowed({ stream, seq, data }: StoredEvent): Promise<boolean> {
    const isCompleted = (of: unknown) => (of as Partial<ObjectEventData>).facts?.status === 'COMPLETED';
    if (!isCompleted(data)) return false;
    for await (const before of changesOf(this.#store, stream)) {
      if (before.seq >= seq) return false;
      if (isCompleted(before.data) && (before.data as ObjectEventData).viewer !== null) return true;
    }
    return false;
  }

  async followUp(event: StoredEvent, at = this.#timeOf(event.at)): Promise<void> {
    const store = this.#store;
    const trace = { requestId: '', correlationId: event.correlationId ?? '' };
    // [ORPHAN-FOLLOW-UPS-1]
    if (mayBeAccepted(event)) {
      await this.stopped(event.stream.slice('command:'.length), at, trace);
    } else if (event.type.startsWith('object.')) {
      const { module, owner, id } = event.data as ObjectEventData;
      const object = isOwned(module) ? await readObject(store, module, owner, id.toLowerCase()) : null;
      if (object?.module === 'sessions') this.#watches.sessionStored(null, object, trace);
      if (object?.module === 'cdrs') this.#watches.cdrStored(object, trace);
    }
  }

  /** Watches the session of a command, if it is a STOP_SESSION, from `at` (hub time), when it was or may have been accepted. */
  async stopped(id: string, at: number, trace: Trace): Promise<void> {
    const command = await rowData<CommandRecord>(this.#store, { kind: 'commands', owner: '', id });
    if (command?.command !== 'STOP_SESSION' || command.sessionId === null) return;
    const session = await readObject(this.#store, 'sessions', command.cpo, command.sessionId.toLowerCase());
    if (!session || ended.has(session.facts.status) || (await this.#wasWatchedSince(session, at))) return;
    await this.#watches.arm(session, command.emsp, at, trace);
  }

  /** Whether a case whose grace ended after this instant is resolved, so that the session needs no new watch. */
  async #wasWatchedSince(session: HubObject, at: number): Promise<boolean> {
    for await (const row of this.#store.scan('orphans', session.owner)) {
      const { session: id, graceEndsAt, state } = row.data as OrphanRecord;
      if (state === 'RESOLVED' && id === session.id && this.#timeOf(graceEndsAt) > at) return true;
    }
    return false;
  }

  /** Hub time of a recorded instant. */
  #timeOf(recorded: string): number {
    return this.#clock.steady(Date.parse(recorded));
  }
}

/** Whether a door may have recorded this event and left its follow-up to the owner. */
export const mayFollow = (event: StoredEvent): boolean => atDoors.has(event.type) && asksForMore(event);

/** Whether an event may start or end a watch. */
function asksForMore(event: StoredEvent): boolean {
  if (!event.type.startsWith('object.')) return mayBeAccepted(event);
  const { module, facts } = event.data as ObjectEventData;
  return module === 'cdrs' || (module === 'sessions' && ended.has(facts.status));
}

const kindOf = ({ type }: StoredEvent) => (type.startsWith('object.') ? 'object' : type);

/**
 * Up to where in the log all follow-ups of sessions are done, kept as a floor in the outbox: an owner that follows one
 * that died reads on from there, however long there was none.
 */
export class FollowUpFloor {
  readonly #context: Context;
  /** Follow-ups under way. */
  #under = 0;
  /** What was dispatched when the interval began; null after a failure. */
  #upTo: Seq | null = null;
  #written: Seq = 0;

  constructor(context: Context) {
    this.#context = context;
  }

  /** Null for a store in which none was written yet. */
  async read(): Promise<Seq | null> {
    return (await this.#context.store.floors()).find((floor) => floor.dest === dest)?.seq ?? null;
  }

  /** Counts a follow-up until it has ended. */
  during<T>(followUp: Promise<T>): Promise<T> {
    this.#under++;
    return followUp
      .catch((error: unknown) => {
        this.#upTo = null;
        throw error;
      })
      .finally(() => void this.#under--);
  }

  /** Writes the floor from now on. */
  keep(): void {
    const { timers, ports } = this.#context;
    timers.arm(dest, ports.clock.now() + intervalMs, () => {
      this.#step();
      this.keep();
    });
  }

  /** [ORPHAN-FOLLOW-UPS-3] */
  #step(): void {
    const { store, recorder, ports } = this.#context;
    const seq = this.#upTo;
    this.#upTo = recorder.feed.upTo;
    const fence = store.held();
    if (seq === null || seq <= this.#written || this.#under > 0 || !fence) return;
    this.#written = seq;
    store.settle(fence, [], [{ dest, seq }]).catch((error: unknown) => {
      this.#written = 0;
      ports.log.warn({ err: error }, 'could not note which events were followed; next try in 10 s');
    });
  }
}
