/**
 * Commands of eMSPs: finds the CPO, forwards the command once, returns its answer, and relays the asynchronous result.
 * [interface, Commands 1–6; D26–D29, D44, D45, D54]
 *
 * COMMANDS-1  The record of a command is durable before the hub forwards it; the hub never forwards a command twice.
 * COMMANDS-2  A command whose forward or relay was cut off by a restart is marked as failed and never sent again.
 * COMMANDS-3  The hub makes up no result.
 * COMMANDS-4  A command whose caller no longer waits is not forwarded: its driver may have left the charger by then.
 * COMMANDS-5  A door forwards and relays by itself, without an actor. The owner follows its events and keeps all
 *     timers; a forward or relay without a recorded end in time was cut off [COMMANDS-2], until its end is recorded after all.
 * COMMANDS-6  An actor follows what is recorded of its command, and nothing else: it starts once the command is durable.
 * COMMANDS-7  What a CPO sends as results is bounded in number and counts against its quota: each is recorded.
 * COMMANDS-8  The answer to a relayed result has at most `relayedAnswerMax` bytes: a CPO may have hundreds of results relayed at once.
 * COMMANDS-9  What a partner answered reaches the other one a second late at most for each record that follows from it: the store may hang.
 */
import { commandEnds, commandMachine } from '../../../machines/command.ts';
import type { ActorSpec } from '../../../machines/supervisor.ts';
import type { Seen, StoredEvent } from '../../../storage/contract.ts';
import {
  applyToCommand,
  type CommandRecord,
  type CommandState,
  cutOff,
  cutOffOf,
  mayBeAccepted,
  withAcceptance,
} from '../../domain/command.ts';
import { type ErrorCode, HubError } from '../../domain/errors.ts';
import type { CommandEvent, Trace } from '../../domain/events.ts';
import { below, endpointOf, type PartyId } from '../../domain/party.ts';
import { metBy } from '../../domain/quirks.ts';
import { mapLimit } from '../../kit/concurrency.ts';
import { type Context, wakeAt } from '../kernel/context.ts';
import type { Quota } from '../kernel/quota.ts';
import { heard, isName, rowSeen } from '../kernel/row-codecs.ts';
import { untilDone, untilDoneOrLate } from '../kernel/until-done.ts';
import type { Caller, CommandAnswer, CommandRequest, Hub, Reading } from '../ports/hub.ts';
import type { HubKind } from '../ports/ports.ts';
import { addressee } from './authorize.ts';
import { commandKey, commandRow, findCpo, foundAgainBy, named, refuseForeignToken } from './command-routing.ts';
import { instrument } from './instrument.ts';
import type { OrphanCases } from './orphan-cases.ts';
import { callPartner, type Failure, failureOf, readAnswer } from './sync-calls.ts';

const prefix = 'command:';
const actorId = (id: string) => `${prefix}${id}`;
type Failed = Extract<CommandEvent, { type: 'command.failed' }>['data'];
const commandId = (actor: string) => actor.slice(prefix.length);

const refusals: Record<Failure, ErrorCode> = {
  timeout: 'commandTimeout',
  unavailable: 'commandUnavailable',
  unauthorized: 'commandUnauthorized',
  notFound: 'commandNotFound',
  rejected: 'commandRejected',
  unusable: 'commandFailed',
};

/** Results of `CommandResponse`; the meter counts any other answer as `other`. */
const knownResults: ReadonlySet<string> = new Set(['ACCEPTED', 'REJECTED', 'NOT_SUPPORTED', 'UNKNOWN_SESSION']);

/** Time that a door has after the time-out of its call to record the end of the call, ms. [COMMANDS-5] */
const recordedMs = 5_000;

/** A command that is forwarded later after its arrival needs a caller whose connection is open, ms. [COMMANDS-4] */
const promptMs = 1_000;
/** Results of one command at most: each is recorded, and relayed to the eMSP. [COMMANDS-7] */
const resultsMax = 100;
/** An envelope without data is much smaller. Nothing but its status counts. [COMMANDS-8] */
const relayedAnswerMax = 64 * 1024;
/** Commands whose history is read at the same time when the hub starts. */
const revivedAtOnce = 64;

/** Details of an event to be recorded. */
interface With {
  readonly trace: Trace | null;
  readonly party?: PartyId | null;
  readonly body?: string | null;
  /** Record the event only while the command is in this state. */
  readonly only?: CommandState;
}

export class Commands {
  readonly #context: Context;
  readonly #orphans: Pick<OrphanCases, 'arm' | 'cutOff'>;
  readonly #quota: Pick<Quota, 'check' | 'spend'>;
  readonly #kind: HubKind;
  readonly #machine: typeof commandMachine;

  constructor(
    context: Context,
    orphans: Pick<OrphanCases, 'arm' | 'cutOff'>,
    quota: Pick<Quota, 'check' | 'spend'>,
    kind: HubKind,
  ) {
    this.#context = context;
    this.#orphans = orphans;
    this.#quota = quota;
    this.#kind = kind;
    this.#machine = commandMachine.provide({
      actions: {
        arm: ({ context, self }) => wakeAt(this.#context, self.id, context.due),
        recordSilent: ({ self }) => {
          const silent = { type: 'command.silent', data: {} } as const;
          void this.#recordEnd(commandId(self.id), silent, { trace: null, only: 'awaiting' });
        },
      },
    });
  }

  command(caller: Caller, request: CommandRequest, reading: Reading): Promise<CommandAnswer> {
    const { meter } = this.#context.ports;
    return instrument(
      () => this.#command(caller, request, reading),
      ({ result }) => (knownResults.has(result) ? result : 'other'),
      (outcome, seconds) => meter.forwarded('command', request.command, outcome, seconds),
    );
  }

  /** Relays the CPO's asynchronous result to the eMSP. A result may come early, late and more than once. [D29] */
  callback(...received: Parameters<Hub['callback']>): Promise<void> {
    const { meter } = this.#context.ports;
    return instrument(
      () => this.#callback(...received),
      () => 'relayed',
      (outcome, seconds) => meter.forwarded('command result', '', outcome, seconds),
    );
  }

  async #command(caller: Caller, request: CommandRequest, reading: Reading): Promise<CommandAnswer> {
    const { ports } = this.#context;
    const refusal = ports.client.refusal(request.responseUrl);
    if (refusal !== null) throw new HubError('invalid', { message: `response_url: ${refusal}` });
    const named = addressee(this.#context, caller, request.to);
    const { cpo, session } = await findCpo(this.#context, caller, request, named, reading);
    const id = ports.secrets.newId();
    const record = await this.#request(id, caller, request, cpo);
    const answer = await this.#forward(caller, request, record);
    if (session && answer.result === 'ACCEPTED') {
      const at = ports.clock.now();
      // The answer stands even if the write fails or hangs: a retry or the next start repeats it.
      const watch = () => this.#orphans.arm(session, caller.id, at, caller.trace);
      const objectKey = `${session.owner}/${session.id}`;
      await untilDoneOrLate(this.#context, watch, (err) =>
        ports.log.error({ err, objectKey }, 'could not watch a stopped session; retrying'),
      );
    }
    return answer;
  }

  async #callback(...[credential, id, body, result, trace, shown]: Parameters<Hub['callback']>): Promise<void> {
    const { directory, settings } = this.#context;
    const known = await this.#read(id);
    if (!known || directory.partnerOf(known.cpo)?.id !== credential.partner.id) throw new HubError('invalidToken');
    this.#quota.check(known.cpo);
    this.#quota.spend(known.cpo, body.length);
    const received = { type: 'command.resultReceived', data: { result, ...metBy(known.cpo, shown) } } as const;
    const record = await this.#record(id, received, { trace, party: known.cpo, body });
    const emsp = directory.partnerOf(record.emsp);
    if (!emsp) throw new HubError('callbackForwardFailed');
    const call = {
      what: `${record.command} result`,
      module: 'commands',
      circuit: 'results',
      method: 'POST',
      url: record.responseUrl,
      body,
      emptyOk: true,
      timeoutMs: settings.callbackTimeoutMs,
      answerMax: relayedAnswerMax,
      source: credential.partner.id,
      from: directory.party(record.cpo, 'CPO') ?? null,
      to: directory.party(record.emsp, 'EMSP') ?? null,
    } as const;
    const outcome = await callPartner(this.#context, emsp, call, trace);
    const relayed = { result, resultNumber: record.results ?? 1, ...metBy(record.emsp, outcome.quirks) };
    if (outcome.class === 'delivered')
      return this.#recordEnd(record.id, { type: 'command.relayed', data: relayed }, { trace });
    const reason = `${outcome.class}: ${outcome.message}`;
    await this.#recordEnd(record.id, { type: 'command.relayFailed', data: { ...relayed, reason } }, { trace });
    throw new HubError(outcome.class === 'timeout' ? 'callbackForwardTimeout' : 'callbackForwardFailed');
  }

  /** Restores every open command. [COMMANDS-2] */
  async recover(keys: readonly string[], mayRecord: boolean): Promise<void> {
    await mapLimit(keys, revivedAtOnce, async (key) => {
      const record = await this.#read(key);
      if (!record) return;
      await this.#revive(record);
      if (!mayRecord) return;
      // With several nodes, a door may still be working on the command.
      if (this.#kind !== 'alone') return this.#cutOffInTime(record);
      const event = cutOffOf(record);
      if (event) await this.#cutOff(record, event);
    });
  }

  /** Follows an event that another node recorded. What is waited for counts from now: that node's clock may differ. [COMMANDS-5] */
  followUp(event: StoredEvent): void {
    const { recorder, supervisor, ports } = this.#context;
    if (!event.stream.startsWith(prefix)) return;
    const live = { ...heard(ports.clock, event), at: ports.clock.now() };
    const follow = async () => {
      const record = await this.#read(commandId(event.stream));
      if (!record) return;
      if (supervisor.has(event.stream)) supervisor.send(event.stream, live);
      else if (!commandEnds.has(record.state)) await supervisor.revive(this.#spec(record, live));
      if (commandEnds.has(record.state)) supervisor.stop(event.stream);
      this.#cutOffInTime(record);
    };
    const inTurn = () => recorder.inTurn(event.stream, follow);
    void untilDone(this.#context, inTurn, (err) =>
      ports.log.error({ err, actor: event.stream }, 'could not follow a command; retrying'),
    );
  }

  #cutOffInTime(record: CommandRecord): void {
    const { timers, ports, settings } = this.#context;
    const cut = `${actorId(record.id)}#cut`;
    const event = cutOffOf(record);
    if (!event) return timers.disarm(cut);
    const limitMs = Math.max(settings.commandTimeoutMs, settings.callbackTimeoutMs) + recordedMs;
    timers.arm(cut, ports.clock.now() + limitMs, () => void this.#cutOff(record, event));
  }

  #cutOff({ id, state }: CommandRecord, event: CommandEvent): Promise<void> {
    return this.#recordEnd(id, event, { trace: null, only: state });
  }

  async #forward(caller: Caller, request: CommandRequest, record: CommandRecord): Promise<CommandAnswer> {
    const { directory, settings } = this.#context;
    // [COMMANDS-4]
    if (await caller.isStale?.(promptMs))
      return this.#failed(record, 'unavailable', { reason: 'its caller waits no longer' }, caller.trace);
    const cpo = directory.partnerOf(record.cpo);
    const endpoint = cpo && endpointOf(cpo, 'commands', 'RECEIVER');
    if (!cpo || !endpoint)
      return this.#failed(record, 'commandUnavailable', { reason: 'the CPO has no commands endpoint' }, caller.trace);
    const call = {
      what: record.command,
      circuit: 'sync',
      module: 'commands',
      method: 'POST',
      endpoint: endpoint.url,
      url: below(endpoint.url, [record.command]),
      source: caller.partner.id,
      from: caller.party,
      to: directory.party(record.cpo, 'CPO') ?? null,
      body: request.bodyFor(`${settings.publicUrl}/ocpi/2.2.1/commands/callback/${record.id}`),
      timeoutMs: settings.commandTimeoutMs,
      oneObject: 'result',
    } as const;
    const outcome = await callPartner(this.#context, cpo, call, caller.trace);
    const failure = failureOf(outcome);
    const met = metBy(record.cpo, outcome.quirks);
    const reason = outcome.isCutOff ? cutOff : outcome.message;
    if (failure) return this.#failed(record, refusals[failure], { reason, ...met }, caller.trace);
    const answer = readAnswer(outcome, settings.commandResultWindowS);
    const unusable = { reason: 'no usable CommandResponse', ...met };
    if (!answer) return this.#failed(record, 'commandFailed', unusable, caller.trace);
    const data = { result: answer.result, timeoutS: answer.timeout, ...met };
    await this.#recordEnd(record.id, { type: 'command.answered', data }, { trace: caller.trace, party: record.cpo });
    return answer;
  }

  /** Marks the command rejected, so that nothing stays pending, and throws. [interface, Command result values] */
  async #failed(record: CommandRecord, code: ErrorCode, data: Failed, trace: Trace): Promise<never> {
    await this.#recordEnd(record.id, { type: 'command.failed', data }, { trace });
    throw new HubError(code);
  }

  /**
   * Records the end of a call. Never rejects: while the store cannot write, the caller still gets the partner's answer,
   * and the write goes on or is retried. A restart before it succeeds finds the call cut off. [COMMANDS-2, COMMANDS-9]
   */
  #recordEnd(id: string, event: CommandEvent, how: With): Promise<void> {
    const record = () => this.#record(id, event, how);
    const { log } = this.#context.ports;
    return untilDoneOrLate(this.#context, record, (err) =>
      log.error({ err, commandId: id, event: event.type }, 'could not record a command; retrying'),
    );
  }

  /** Records a command; throws when the present rules, read in the turn of the write, forbid to forward it. */
  #request(id: string, caller: Caller, request: CommandRequest, cpo: PartyId): Promise<CommandRecord> {
    const { recorder, directory } = this.#context;
    const data = {
      id,
      command: request.command,
      emsp: caller.id,
      cpo,
      responseUrl: request.responseUrl,
      sessionId: request.sessionId,
      reservationId: request.reservationId,
      ...(request.expiryDate !== undefined && { expiryDate: request.expiryDate }),
      authorizationReference: request.authorizationReference,
      tokenUid: request.tokenUid,
      ...metBy(caller.id, request.quirks),
    };
    return recorder.inTurn(actorId(id), () => {
      if (!directory.isRegistered(caller.id)) throw new HubError('invalidToken');
      if (!directory.isRouted(caller.id, cpo)) throw new HubError('notRouted');
      if (request.tokenParty) refuseForeignToken(this.#context, caller, request.tokenParty, cpo);
      const seen = [directory.seen, { ...commandKey(id), seq: null }];
      const how = { trace: caller.trace, party: caller.id };
      return this.#write(null, { type: 'command.requested', data }, how, seen);
    });
  }

  /** Records an event of a command in its turn: a result may have been recorded while the forward was in flight. */
  #record(id: string, event: CommandEvent, how: With): Promise<CommandRecord> {
    const { recorder, directory } = this.#context;
    return recorder.inTurn(actorId(id), async (seen) => {
      // An erasure rewrites the row under the sequence that it had, and changes the directory after that. [PERSONS-5]
      seen.push(directory.seen);
      const before = await this.#read(id, seen);
      if (before && how.only && before.state !== how.only) return before;
      if (event.type !== 'command.resultReceived' || before === null) return this.#write(before, event, how, seen);
      // [COMMANDS-7]
      if ((before.results ?? 0) >= resultsMax)
        throw new HubError('invalid', { message: `this command has had ${resultsMax} results` });
      return this.#write(before, withAcceptance(before, event), how, seen);
    });
  }

  async #write(
    before: CommandRecord | null,
    event: CommandEvent,
    { trace, party = null, body = null }: With,
    seen: readonly Seen[],
  ): Promise<CommandRecord> {
    const { recorder, supervisor, settings, ports } = this.#context;
    const at = recorder.instant();
    const record = applyToCommand(before, event, at);
    const actor = actorId(record.id);
    const isOver = commandEnds.has(record.state);
    const windowS = event.type === 'command.answered' ? event.data.timeoutS : settings.commandResultWindowS;
    const dueAt = new Date(Date.parse(at) + windowS * 1000).toISOString();
    const seq = await recorder.record({
      facts: [{ stream: actor, event: named(event, record), party, body }],
      puts: [commandRow(record), ...foundAgainBy(record, event, at)],
      // Every open command has a due time, by which a restart finds it.
      due: [{ key: actor, at: isOver ? null : dueAt }],
      seen,
      unfenced: true,
      trace,
      at,
    });
    if (this.#kind === 'door') return record;
    // `#command` starts the watch for an accepting answer.
    if (event.type !== 'command.answered' && mayBeAccepted(event)) this.#orphans.cutOff(record.id);
    if (!before) supervisor.start(this.#spec(record));
    else if (supervisor.has(actor)) supervisor.send(actor, { ...event, at: ports.clock.steady(Date.parse(at)), seq });
    if (isOver) supervisor.stop(actor);
    // A result revives the actor of an ended command, but only now: a failed write must leave no actor behind.
    else if (event.type === 'command.resultReceived') await this.#revive(record);
    return record;
  }

  async #read(id: string, seen: Seen[] = []): Promise<CommandRecord | null> {
    if (!isName(id)) return null;
    const row = await rowSeen(this.#context.store, commandKey(id), seen);
    return row && (row.data as CommandRecord);
  }

  async #revive(record: CommandRecord): Promise<void> {
    if (!this.#context.supervisor.has(actorId(record.id))) await this.#context.supervisor.revive(this.#spec(record));
  }

  /** `live`: the event that was just read from another node, as this node heard it. */
  #spec({ id, emsp, cpo }: CommandRecord, live?: ReturnType<typeof heard>): ActorSpec<typeof commandMachine> {
    const { store, ports } = this.#context;
    const actor = actorId(id);
    return {
      id: actor,
      kind: 'command',
      machine: this.#machine,
      input: undefined,
      parties: [emsp, cpo],
      history: async () =>
        (await store.history(actor)).map((event) => {
          const known = heard(ports.clock, event);
          // What follows it in the log by now was just written, too.
          return live && event.seq >= live.seq ? { ...known, at: live.at } : known;
        }),
      restored: (snapshot) => wakeAt(this.#context, actor, snapshot.context.due),
    };
  }
}
