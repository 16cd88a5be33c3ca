/**
 * Watches sessions, one actor each, and keeps the orphan cases of those that did not end as they should: after an
 * accepted STOP_SESSION until the session ends, and if configured, after COMPLETED until its CDR arrives. [D36, D52]
 *
 * ORPHAN-CASES-1  A sweep opens a case once; the hub then queries the CPO once by itself, if need be after a restart.
 * ORPHAN-CASES-2  Only data of the CPO or an operator ends a watch or a case. The hub invents neither state nor CDR.
 * ORPHAN-CASES-3  A sweep opens one case in a turn of the event loop: each reads its session, and one CPO may have hundreds that are due.
 */
import { orphanStopMachine } from '../../../machines/orphan-stop.ts';
import type { ActorSpec } from '../../../machines/supervisor.ts';
import type { StoredEvent } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { Actor, OrphanEvent, OrphanKind, Trace } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import type { HubObject } from '../../domain/object.ts';
import { applyToOrphan, type OrphanRecord } from '../../domain/orphan.ts';
import type { PartyId } from '../../domain/party.ts';
import { type TriageChange, triaged } from '../../domain/triage.ts';
import { mapLimit, Running } from '../../kit/concurrency.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import { type Context, newTrace, wakeAt } from '../kernel/context.ts';
import { billedKey, heard, readObject, rowData } from '../kernel/row-codecs.ts';
import { untilDone } from '../kernel/until-done.ts';
import { ended, FollowUpFloor, mayFollow, OrphanFollowUps } from './orphan-follow-ups.ts';
import { actorId, actorKinds, named, OrphanRecords, orphanRow, streamOf } from './orphan-records.ts';

const askAgainMs = 60_000;
/** Watches and cases that a start restores at the same time. */
const revivedAtOnce = 64;

/** Queries the CPO for the true state of a case's session; resolves with one sentence, the note of the case, or null when the case has ended. */
export type AskForEnd = (record: OrphanRecord, trace: Trace, isOpen: () => boolean) => Promise<string | null>;

/** The key of a session to watch. */
export type Watched = Pick<HubObject, 'owner' | 'key' | 'id'>;

export class OrphanCases {
  readonly #context: Context;
  readonly #ask: AskForEnd;
  readonly #records: OrphanRecords;
  /** Cases whose CPO is being queried, or whose query waits for its turn. */
  readonly #asking = new Set<string>();
  /** Queries, follow-ups, and beginnings and ends of watches. */
  readonly #running = new Running();
  readonly #machine: typeof orphanStopMachine;
  readonly #followUps: OrphanFollowUps;
  readonly #floor: FollowUpFloor;
  #closed = false;
  #isRestored = false;
  #following: Promise<void> = Promise.resolve();

  constructor(context: Context, ask: AskForEnd) {
    this.#context = context;
    this.#ask = ask;
    this.#floor = new FollowUpFloor(context);
    this.#records = new OrphanRecords(context.ports);
    this.#followUps = new OrphanFollowUps(context.store, context.ports.clock, this);
    this.#machine = orphanStopMachine.provide({
      actions: {
        arm: ({ context, self }) => wakeAt(this.#context, self.id, context.due),
        recordOpened: ({ self }) => this.#open(self.id),
        askCpo: ({ self }) => this.#askCpo(self.id, newTrace(this.#context)),
      },
    });
  }

  /** Watches a session, once, from the instant (hub time, ms) at which its STOP_SESSION was accepted. */
  async arm(session: Watched, emsp: PartyId, at: number, trace: Trace): Promise<void> {
    const graceEndsAt = at + this.#context.settings.orphanGraceS * 1000;
    const isNeeded = async () => !(await this.#hasEnded(session.owner, session.key));
    await this.#floor.during(this.#arm('stop_without_complete', session, emsp, graceEndsAt, trace, isNeeded));
  }

  /** Watches the session of a STOP_SESSION whose call was cut off. [ORPHAN-FOLLOW-UPS-1] */
  cutOff(commandId: string): void {
    if (!this.#isRestored) return; // `recover` reads of it in the log.
    const at = this.#context.ports.clock.now();
    const watch = () => this.#followUps.stopped(commandId, at, newTrace(this.#context));
    void this.#untilDone(watch, 'could not watch the session of a command that was cut off', commandId);
  }

  /** Handles every stored session: an ended one no longer needs a watch for its end, and may need one for its CDR. */
  sessionStored(before: HubObject | null, session: HubObject, trace: Trace): void {
    const { settings, ports } = this.#context;
    const { owner, key, viewer } = session;
    const { status } = session.facts;
    if (!ended.has(status)) return;
    this.#end(actorId('stop_without_complete', owner, key), `the CPO reported ${status}`, trace);
    if (status === 'INVALID') this.#end(actorId('complete_without_cdr', owner, key), 'the session is INVALID', trace);
    const afterS = settings.orphanCdrAfterS;
    // A session without an eMSP has a CDR without one; operators find both listed as stored and not forwarded.
    const wasWatched = before?.facts.status === 'COMPLETED' && before.viewer !== null;
    if (status !== 'COMPLETED' || wasWatched || viewer === null || afterS === 0) return;
    const isAwaited = async () => !(await this.#isBilled(owner, key));
    const graceEndsAt = ports.clock.now() + afterS * 1000;
    const watch = () => this.#arm('complete_without_cdr', session, viewer, graceEndsAt, trace, isAwaited);
    void this.#untilDone(watch, 'could not watch for the CDR of a session', `${owner}/${key}`);
  }

  /** Handles every stored CDR: it ends the watch of its session. */
  cdrStored(cdr: HubObject, trace: Trace): void {
    const session = cdr.facts.sessionId;
    if (!session) return;
    this.#end(actorId('complete_without_cdr', cdr.owner, session.toLowerCase()), `the CDR ${cdr.id} came`, trace);
  }

  /** Queries the CPO again. Throws `notFound`, or `conflict` when the case is not open or a query is in progress. */
  async pull(id: string, trace: Trace): Promise<OrphanRecord> {
    const { actor, record } = await this.#openCase(id);
    if (this.#asking.has(id)) throw new HubError('conflict', { message: 'the CPO is being asked already' });
    this.#askCpo(actor, trace, 'operator');
    return this.#stored(record);
  }

  /** Closes a case by hand. Throws `notFound`, or `conflict` when the case is not open. */
  async resolve(id: string, note: string, trace: Trace): Promise<OrphanRecord> {
    const { actor, record } = await this.#openCase(id);
    return this.#context.recorder.inTurn(actor, async () => {
      if (this.#records.get(actor)?.id !== id) throw notOpen();
      return (await this.#record(actor, { type: 'orphan.resolved', data: { note, by: 'operator' } }, trace)) ?? record;
    });
  }

  /** Throws `notFound`, or `conflict` when the case is not open. */
  async triage(id: string, change: TriageChange, trace: Trace): Promise<OrphanRecord> {
    const { actor, record } = await this.#openCase(id);
    return this.#context.recorder.inTurn(actor, async () => {
      if (this.#records.get(actor)?.id !== id) throw notOpen();
      const at = this.#context.recorder.instant();
      const { triage: before } = await this.#stored(record);
      const triage = triaged(before, change, { at, by: trace.operator ?? 'operator' });
      const event: OrphanEvent = { type: 'orphan.triaged', data: { triage, by: 'operator' } };
      return (await this.#record(actor, event, trace, at)) ?? record;
    });
  }

  /** Opens the cases that are overdue at a start, and arms the sweeps. */
  startSweeps(): void {
    const { ports, supervisor } = this.#context;
    const at = ports.clock.now();
    for (const [actor] of this.#records) {
      const due = supervisor.snapshot(this.#machine, actor)?.context.due ?? null;
      if (due !== null && due <= at) supervisor.send(actor, { type: 'deadline.passed', at });
    }
    this.#sweep(at);
    this.#floor.keep();
  }

  /** Opens the cases whose grace is over, and arms the next sweep: at a multiple of the interval, so that restarts delay none. */
  #sweep(at: number): void {
    const { timers, ports, settings } = this.#context;
    this.#running.add(this.#openDue(at));
    const intervalMs = settings.orphanSweepS * 1000;
    const next = (Math.floor(ports.clock.now() / intervalMs) + 1) * intervalMs;
    timers.arm('orphan-sweep', next, (instant) => this.#sweep(instant));
  }

  /** [ORPHAN-CASES-3] */
  async #openDue(at: number): Promise<void> {
    const { supervisor } = this.#context;
    for (const [actor, { state }] of this.#records) {
      if (this.#closed) return;
      // Without a snapshot, it is being rebuilt, and the sweep waits for it.
      const isWaiting = (supervisor.snapshot(this.#machine, actor)?.value ?? 'due') === 'due';
      if (state !== 'GRACE' || !isWaiting) continue;
      supervisor.send(actor, { type: 'sweep', at });
      await nextTurn();
    }
  }

  /** Restores every watch and open case; `mayWrite` is false on a damaged log. */
  async recover(mayWrite: boolean): Promise<void> {
    const { store, supervisor } = this.#context;
    const kept: { actor: string; record: OrphanRecord }[] = [];
    for await (const { data } of store.scan('orphans')) {
      const record = data as OrphanRecord;
      if (record.state === 'RESOLVED') continue;
      kept.push({ actor: actorId(record.kind, record.cpo, record.session.toLowerCase()), record });
    }
    for (const { actor, record } of kept) this.#records.keep(actor, record);
    await mapLimit(kept, revivedAtOnce, ({ actor, record }) => supervisor.revive(this.#spec(actor, record, null)));
    if (!mayWrite) return;
    this.#isRestored = true;
    for (const event of await this.#followUps.unfollowed(await this.#floor.read()))
      await this.#untilDone(() => this.#followUps.followUp(event), 'could not follow an event', event.stream);
    const open = kept.filter(({ record }) => record.state === 'OPEN');
    await mapLimit(open, revivedAtOnce, async ({ actor, record }) => {
      const why = await this.#followUps.endOf(record);
      if (why !== null) this.#end(actor, why, newTrace(this.#context));
      if (record.pulledAt === null) this.#askCpo(actor, newTrace(this.#context));
    });
  }

  /** Follows an event that another node wrote, after all earlier ones. */
  followUp(event: StoredEvent): void {
    if (!mayFollow(event)) return;
    const at = this.#context.ports.clock.now();
    const work = async () => {
      if (!this.#closed) await this.#followUps.follow(event, at);
    };
    const again = () => void this.#untilDone(work, 'could not follow an event of another node', event.stream);
    this.#following = this.#floor.during(this.#following.then(work)).catch(again);
    this.#running.add(this.#following);
  }

  async #isBilled(cpo: PartyId, sessionKey: string): Promise<boolean> {
    return (await this.#context.store.get(billedKey(cpo, sessionKey))) !== null;
  }

  async #hasEnded(cpo: PartyId, sessionKey: string): Promise<boolean> {
    const session = await readObject(this.#context.store, 'sessions', cpo, sessionKey);
    return session === null || ended.has(session.facts.status);
  }

  /** Starts no more queries and follow-ups; resolves when those in progress have ended, for which the lists must be closed. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running.ended();
  }

  async #arm(
    kind: OrphanKind,
    session: Watched,
    emsp: PartyId,
    graceEnds: number,
    trace: Trace,
    isNeeded: () => Promise<boolean>,
  ): Promise<void> {
    const { recorder, ports, supervisor } = this.#context;
    const actor = actorId(kind, session.owner, session.key);
    if (!this.#records.begin(actor, kind, session.owner)) return;
    try {
      await recorder.inTurn(actor, async () => {
        if (!(await isNeeded())) return;
        const at = recorder.instant();
        const graceEndsAt = instantText(Date.parse(at) + graceEnds - ports.clock.now());
        const watched = { kind, cpo: session.owner, emsp, session: session.id, graceEndsAt };
        const data = { id: ports.secrets.newId(), ...watched };
        const record = await this.#record(actor, { type: 'orphan.armed', data }, trace, at);
        if (record) supervisor.start(this.#spec(actor, record, graceEnds));
      });
    } finally {
      if (this.#records.get(actor) === null) this.#records.delete(actor);
    }
  }

  /** Ends a watch: its record is removed, but an open case stays as resolved. */
  #end(actor: string, why: string, trace: Trace): void {
    if (!this.#records.has(actor)) return;
    const end = () =>
      this.#context.recorder.inTurn(actor, async () => {
        const record = this.#records.get(actor);
        if (!record) return;
        const isCase = record.state === 'OPEN';
        const event: OrphanEvent = isCase
          ? { type: 'orphan.resolved', data: { note: why } }
          : { type: 'orphan.disarmed', data: { reason: why } };
        await this.#record(actor, event, trace);
      });
    void this.#untilDone(end, 'could not end an orphan watch', actor);
  }

  /** Counts each attempt as a follow-up until it has ended. Resolves with the first. */
  #untilDone(work: () => Promise<void>, failed: string, of: string): Promise<void> {
    const attempt = () => {
      const working = this.#floor.during(work());
      this.#running.add(working.catch(() => {}));
      return working;
    };
    const { log } = this.#context.ports;
    return untilDone(this.#context, attempt, (err) => log.error({ err, of }, `${failed}; retrying`));
  }

  /** The open cases, in no order. */
  *openCases(): Iterable<OrphanRecord> {
    for (const [, record] of this.#records) if (record.state === 'OPEN') yield record;
  }

  async #openCase(id: string): Promise<{ actor: string; record: OrphanRecord }> {
    for (const [actor, record] of this.#records) {
      if (record.id !== id) continue;
      // A reader may see the open case before its commit has updated the records: the turn waits for that.
      const present = await this.#context.recorder.inTurn(actor, async () => this.#records.get(actor));
      if (present?.id === id && present.state === 'OPEN') return { actor, record: present };
      throw notOpen();
    }
    for await (const row of this.#context.store.scan('orphans')) if (row.id === id) throw notOpen();
    throw new HubError('notFound');
  }

  #askCpo(actor: string, trace: Trace, by: Actor = 'hub'): void {
    const record = this.#records.get(actor);
    if (!record || this.#asking.has(record.id)) return;
    const { ports, timers } = this.#context;
    this.#asking.add(record.id);
    const asking = this.#askInTurn(actor, record, trace, by)
      .catch((error: unknown) => {
        ports.log.error({ err: error, actor }, 'could not pull the session of a case; retrying');
        timers.arm(`${actor}#ask`, ports.clock.now() + askAgainMs, () => this.#askCpo(actor, trace, by));
      })
      .finally(() => void this.#asking.delete(record.id));
    this.#running.add(asking);
  }

  async #askInTurn(actor: string, record: OrphanRecord, trace: Trace, by: Actor): Promise<void> {
    const isOpen = () => {
      const present = this.#records.get(actor);
      return !this.#closed && present?.id === record.id && present.state === 'OPEN';
    };
    const note = await this.#ask(record, trace, isOpen);
    // The pulled object may have resolved the case. A query that the end of the hub cut off does not count: the next start
    // repeats it. [ORPHAN-CASES-1]
    await this.#context.recorder.inTurn(actor, async () => {
      if (note !== null && isOpen()) await this.#record(actor, { type: 'orphan.pulled', data: { note, by } }, trace);
    });
  }

  #spec(actor: string, { id, kind, cpo, emsp }: OrphanRecord, due: number | null): ActorSpec<typeof orphanStopMachine> {
    const { store } = this.#context;
    return {
      id: actor,
      kind: actorKinds[kind],
      machine: this.#machine,
      input: { due },
      parties: [cpo, emsp],
      history: async () => (await store.history(streamOf(id))).map((event) => this.#heard(event)),
      restored: (snapshot) => wakeAt(this.#context, actor, snapshot.context.due),
    };
  }

  /** A grace is as long after its start as was recorded. [CLOCK-3] */
  #heard(event: StoredEvent) {
    const plain = heard(this.#context.ports.clock, event);
    if (event.type !== 'orphan.armed') return plain;
    const { graceEndsAt } = event.data as { graceEndsAt: string };
    return { ...plain, type: 'orphan.armed', due: plain.at + Date.parse(graceEndsAt) - Date.parse(event.at) };
  }

  #open(actor: string): void {
    const { recorder, ports } = this.#context;
    recorder
      .inTurn(actor, async () => {
        const record = this.#records.get(actor);
        if (record?.state !== 'GRACE') return;
        const isStop = record.kind === 'stop_without_complete';
        const key = record.session.toLowerCase();
        if (await (isStop ? this.#hasEnded(record.cpo, key) : this.#isBilled(record.cpo, key))) {
          const reason = isStop ? 'the session has ended' : 'its CDR has come';
          await this.#record(actor, { type: 'orphan.disarmed', data: { reason } }, null);
          return;
        }
        await this.#record(actor, { type: 'orphan.opened', data: {} }, null);
        ports.log.warn({ actor }, 'opened an orphan case: a session did not end as it should');
      })
      .catch((error: unknown) => ports.log.error({ err: error, actor }, 'could not open an orphan case'));
  }

  async #stored(kept: OrphanRecord): Promise<OrphanRecord> {
    return (await rowData<OrphanRecord>(this.#context.store, orphanRow(kept))) ?? kept;
  }

  async #record(
    actor: string,
    event: OrphanEvent,
    trace: Trace | null,
    at = this.#context.recorder.instant(),
  ): Promise<OrphanRecord | null> {
    const { recorder, supervisor, ports } = this.#context;
    const kept = this.#records.get(actor);
    const before = kept?.triage ? await this.#stored(kept) : kept;
    const record = applyToOrphan(before, event, at);
    const { id, cpo } = record ?? before ?? { id: '', cpo: '' };
    const put = record ? orphanRow(record) : ({ kind: 'orphans', owner: cpo, id, gone: true } as const);
    const fact = { stream: streamOf(id), event: before ? named(event, before) : event, party: null };
    const seq = await recorder.record({ facts: [fact], puts: [put], trace, at });
    const isOver = record === null || record.state === 'RESOLVED';
    if (isOver) this.#records.delete(actor);
    else this.#records.keep(actor, record);
    if (before) supervisor.send(actor, { type: event.type, at: ports.clock.steady(Date.parse(at)), seq });
    if (isOver) supervisor.stop(actor);
    return record;
  }
}

const notOpen = () => new HubError('conflict', { message: 'the case is not open' });
