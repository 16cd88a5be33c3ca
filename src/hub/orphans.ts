/**
 * Watches sessions after an accepted STOP_SESSION, one actor each, and keeps the cases that came of it. [D36]
 */
import { orphanStopMachine } from '../../machines/orphan-stop.ts';
import type { ActorSpec } from '../../machines/supervisor.ts';
import type { Put } from '../../storage/contract.ts';
import type { OrphanEvent } from '../domain/events.ts';
import type { HubObject } from '../domain/object.ts';
import { applyToOrphan, type OrphanRecord } from '../domain/orphan.ts';
import type { PartyId } from '../domain/party.ts';
import { type Core, heard, readObject } from './core.ts';
import type { Trace } from './hub.ts';

const actorId = (cpo: PartyId, sessionKey: string) => `orphan-stop:${cpo}/${sessionKey}`;
/** A session may be watched more than once in its life; each watch is a stream of its own. */
const streamOf = (id: string) => `orphan:${id}`;
const ended: ReadonlySet<string | undefined> = new Set(['COMPLETED', 'INVALID']);

export class Orphans {
  readonly #core: Core;
  /** Live watches and open cases, by actor; null while one is being armed. */
  readonly #records = new Map<string, OrphanRecord | null>();

  constructor(core: Core) {
    this.#core = core;
  }

  /** A STOP_SESSION was accepted: the session is watched from now on, once. */
  async arm(session: HubObject, emsp: PartyId, trace: Trace): Promise<void> {
    const { store, recorder, settings, ports } = this.#core;
    const actor = actorId(session.owner, session.key);
    if (this.#records.has(actor)) return;
    this.#records.set(actor, null);
    await recorder.inTurn(actor, async () => {
      const present = await readObject(store, 'sessions', session.owner, session.key);
      if (!present || ended.has(present.facts.status)) {
        this.#records.delete(actor);
        return;
      }
      const graceEndsAt = ports.clock.now() + settings.orphanGraceS * 1000;
      const data = {
        id: ports.secrets.newId(),
        kind: 'stop_without_complete',
        cpo: session.owner,
        emsp,
        session: session.id,
        graceEndsAt: new Date(graceEndsAt).toISOString(),
      } as const;
      const record = await this.#record(actor, { type: 'orphan.armed', data }, trace);
      if (record) this.#core.supervisor.start(this.#spec(actor, record));
    });
  }

  /** Every stored session passes here: one that has ended needs no watch any more. */
  sessionStored(session: HubObject, trace: Trace): void {
    const actor = actorId(session.owner, session.key);
    if (!ended.has(session.facts.status) || !this.#records.has(actor)) return;
    const { recorder, ports } = this.#core;
    recorder
      .inTurn(actor, async () => {
        const record = this.#records.get(actor);
        if (!record) return;
        const status = session.facts.status ?? '';
        const event: OrphanEvent =
          record.state === 'OPEN'
            ? { type: 'orphan.resolved', data: { note: `the CPO pushed ${status}` } }
            : { type: 'orphan.disarmed', data: { reason: `the CPO pushed ${status}` } };
        await this.#record(actor, event, trace);
      })
      .catch((error: unknown) => ports.log.error({ err: error, actor }, 'could not end an orphan watch'));
  }

  /** Arms the next sweep. Sweeps stand on multiples of the interval, so that restarts do not put them off. */
  scheduleSweep(): void {
    const { timers, ports, settings, supervisor } = this.#core;
    const intervalMs = settings.orphanSweepS * 1000;
    const next = (Math.floor(ports.clock.now() / intervalMs) + 1) * intervalMs;
    timers.arm('orphan-sweep', next, (at) => {
      for (const [actor, record] of this.#records) if (record) supervisor.send(actor, { type: 'sweep', at });
      this.scheduleSweep();
    });
  }

  /** Brings back every watch and open case. */
  async recover(): Promise<void> {
    for await (const row of this.#core.store.scan('orphans')) {
      const record = row.data as OrphanRecord;
      if (record.state === 'RESOLVED') continue;
      const actor = actorId(record.cpo, record.session.toLowerCase());
      this.#records.set(actor, record);
      await this.#core.supervisor.revive(this.#spec(actor, record));
    }
    this.scheduleSweep();
  }

  #spec(actor: string, { id, cpo, graceEndsAt }: OrphanRecord): ActorSpec<typeof orphanStopMachine> {
    const { store, timers, supervisor } = this.#core;
    const arm = (due: number | null) => {
      if (due === null) timers.disarm(actor);
      else timers.arm(actor, due, (at) => supervisor.send(actor, { type: 'deadline.passed', at }));
    };
    return {
      id: actor,
      kind: 'orphan-stop',
      machine: orphanStopMachine.provide({
        actions: { arm: ({ context }) => arm(context.due), recordOpened: () => this.#open(actor) },
      }),
      input: { graceEndsAt: Date.parse(graceEndsAt) },
      history: async () => (await store.history(store.shardOf(cpo), streamOf(id))).map(heard),
      restored: (snapshot) => arm(snapshot.context.due),
    };
  }

  #open(actor: string): void {
    const { recorder, ports } = this.#core;
    recorder
      .inTurn(actor, async () => {
        if (this.#records.get(actor)?.state !== 'GRACE') return;
        await this.#record(actor, { type: 'orphan.opened', data: {} }, null);
        ports.log.warn({ actor }, 'a stopped session was not completed: case opened');
      })
      .catch((error: unknown) => ports.log.error({ err: error, actor }, 'could not open an orphan case'));
  }

  async #record(actor: string, event: OrphanEvent, trace: Trace | null): Promise<OrphanRecord | null> {
    const { recorder, supervisor } = this.#core;
    const before = this.#records.get(actor) ?? null;
    const at = recorder.instant();
    const record = applyToOrphan(before, event, at);
    const { id, cpo } = record ?? before ?? { id: '', cpo: '' };
    const put = record ? orphanRow(record) : ({ kind: 'orphans', owner: cpo, id, gone: true } as const);
    const fact = { stream: streamOf(id), event, party: null };
    const seq = await recorder.record({ shardOf: cpo, facts: [fact], puts: [put], trace, at });
    const isOver = record === null || record.state === 'RESOLVED';
    if (isOver) this.#records.delete(actor);
    else this.#records.set(actor, record);
    if (before) supervisor.send(actor, { type: event.type, at: Date.parse(at), seq });
    if (isOver) supervisor.stop(actor);
    return record;
  }
}

export function orphanRow(record: OrphanRecord): Put {
  const { id, cpo: owner, graceEndsAt: upd } = record;
  return { kind: 'orphans', owner, id, shelf: 'orphans', upd, data: record, body: null };
}
