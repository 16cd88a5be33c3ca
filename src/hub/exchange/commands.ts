/**
 * Commands of eMSPs: find the CPO, forward once, answer at once; relay the asynchronous result when it comes.
 * [interface, Commands 1–6; D26–D29, D44, D45, D54]
 *
 * COMMANDS-1  The record of a command is durable before it is forwarded; nothing is forwarded twice.
 * COMMANDS-2  A command whose forward or relay was cut off by a restart is marked as failed, never sent again.
 * COMMANDS-3  The hub makes no result of its own.
 * COMMANDS-4  A command that nobody waits for any more is not forwarded: it would reach the charger long after its driver has left.
 * COMMANDS-5  A door forwards and relays by itself, and has an actor only while it forwards. The owner follows what doors record and keeps every
 *     wait; a forward or relay whose end is not recorded within its limit was cut off. [COMMANDS-2]
 */
import { commandEnds, commandMachine } from '../../../machines/command.ts';
import type { ActorSpec } from '../../../machines/supervisor.ts';
import type { Seen, StoredEvent } from '../../../storage/contract.ts';
import { applyToCommand, type CommandRecord, type CommandState } from '../../domain/command.ts';
import { type ErrorCode, HubError, type Outcome } from '../../domain/errors.ts';
import type { CommandEvent } from '../../domain/events.ts';
import { setMembers } from '../../domain/json-text.ts';
import type { HubObject } from '../../domain/object.ts';
import { endpointOf, type PartyId } from '../../domain/party.ts';
import type { Trace } from '../../domain/trace.ts';
import { mapLimit } from '../../kit/map-limit.ts';
import type { Context } from '../kernel/context.ts';
import { heard, isName, rowSeen } from '../kernel/row-codecs.ts';
import type { Caller, CommandAnswer, CommandRequest, Credential, TokenParty } from '../ports/hub.ts';
import type { HubKind } from '../ports/ports.ts';
import { addressee } from './authorize.ts';
import { findCpo } from './command-routing.ts';
import { commandKey, commandRow, foundAgainBy, named } from './command-rows.ts';
import { instrument } from './instrument.ts';
import type { OrphanCases } from './orphan-cases.ts';
import { below, callPartner, type Failure, failureOf, unambiguousText } from './sync-calls.ts';

const prefix = 'command:';
const actorId = (id: string) => `${prefix}${id}`;
const commandId = (actor: string) => actor.slice(prefix.length);

const refusals: Record<Failure, ErrorCode> = {
  timeout: 'commandTimeout',
  unavailable: 'commandUnavailable',
  unauthorized: 'commandUnauthorized',
  notFound: 'commandNotFound',
  rejected: 'commandRejected',
  unusable: 'commandFailed',
};

/** Of `CommandResponse`; whatever else a CPO answers is measured as one. */
const knownResults: ReadonlySet<string> = new Set(['ACCEPTED', 'REJECTED', 'NOT_SUPPORTED', 'UNKNOWN_SESSION']);

/** Longest wait of the hub for a result, seconds. */
const timeoutMaxS = 86_400;

const againMs = 1_000;

/** Beyond the limit of its call to a partner a door has so long to record how that ended. [COMMANDS-5] */
const recordedMs = 5_000;

/** Commands whose facts are read at the same time when the hub starts. */
const revivedAtOnce = 64;

const cutOff = 'the hub was restarted meanwhile';

/** Of a fact to be recorded. */
interface With {
  readonly trace: Trace | null;
  readonly party?: PartyId | null;
  readonly body?: string | null;
  /** It is one only while the command is in this state. */
  readonly only?: CommandState;
}

export class Commands {
  readonly #context: Context;
  readonly #orphans: Pick<OrphanCases, 'arm'>;
  readonly #kind: HubKind;
  /** What the machine's effect `forwardToCpo` starts, by command; the verb awaits its end. */
  readonly #forwards = new Map<string, () => void>();
  readonly #machine: typeof commandMachine;

  constructor(context: Context, orphans: Pick<OrphanCases, 'arm'>, kind: HubKind) {
    this.#context = context;
    this.#orphans = orphans;
    this.#kind = kind;
    this.#machine = commandMachine.provide({
      actions: {
        forwardToCpo: ({ self }) => this.#forwards.get(commandId(self.id))?.(),
        arm: ({ context, self }) => this.#arm(self.id, context.due),
        recordSilent: ({ self }) => {
          const silent = { type: 'command.silent', data: {} } as const;
          void this.#recordEnd(commandId(self.id), silent, { trace: null, only: 'awaiting' });
        },
      },
    });
  }

  command(caller: Caller, request: CommandRequest): Promise<CommandAnswer> {
    const { meter } = this.#context.ports;
    return instrument(
      () => this.#command(caller, request),
      ({ result }) => (knownResults.has(result) ? result : 'other'),
      (outcome, seconds) => meter.forwarded('command', request.command, outcome, seconds),
    );
  }

  /** The CPO's asynchronous result, relayed to the eMSP. It may come early, late and more than once. [D29] */
  callback(credential: Credential, id: string, body: string, result: string, trace: Trace): Promise<void> {
    const { meter } = this.#context.ports;
    return instrument(
      () => this.#callback(credential, id, body, result, trace),
      () => 'relayed',
      (outcome, seconds) => meter.forwarded('command result', '', outcome, seconds),
    );
  }

  async #command(caller: Caller, request: CommandRequest): Promise<CommandAnswer> {
    const { ports } = this.#context;
    const { cpo, session } = await findCpo(
      this.#context,
      caller,
      request,
      addressee(this.#context, caller, request.to),
    );
    const id = ports.secrets.newId();
    const record = await this.#request(id, caller, request, cpo);
    const answered = new Promise<CommandAnswer>((resolve, reject) => {
      this.#forwards.set(id, () => void this.#forward(caller, request, record).then(resolve, reject));
    });
    this.#context.supervisor.start(this.#spec(record));
    const answer = await answered.finally(() => {
      this.#forwards.delete(id);
      if (this.#kind === 'door') this.#context.supervisor.stop(actorId(id));
    });
    if (session && answer.result === 'ACCEPTED') await this.#watch(session, caller, ports.clock.now());
    return answer;
  }

  async #callback(credential: Credential, id: string, body: string, result: string, trace: Trace): Promise<void> {
    const { directory, settings } = this.#context;
    const known = await this.#read(id);
    if (!known || directory.partnerOf(known.cpo)?.id !== credential.partner.id) throw new HubError('invalidToken');
    const received = { type: 'command.resultReceived', data: { result } } as const;
    const record = await this.#record(id, received, { trace, party: known.cpo, body });
    const emsp = directory.partnerOf(record.emsp);
    if (!emsp) throw new HubError('callbackForwardFailed');
    const call = {
      ...({
        what: `${record.command} result`,
        method: 'POST',
        url: record.responseUrl,
        body,
        emptyOk: true,
        timeoutMs: settings.callbackTimeoutMs,
      } as const),
      from: directory.party(record.cpo, 'CPO') ?? null,
      to: directory.party(record.emsp, 'EMSP') ?? null,
    };
    const outcome = await callPartner(this.#context, emsp, call, trace);
    if (outcome.class === 'delivered') {
      await this.#recordEnd(record.id, { type: 'command.relayed', data: { result } }, { trace });
      return;
    }
    const reason = `${outcome.class}: ${outcome.message}`;
    await this.#recordEnd(record.id, { type: 'command.relayFailed', data: { result, reason } }, { trace });
    throw new HubError(outcome.class === 'timeout' ? 'callbackForwardTimeout' : 'callbackForwardFailed');
  }

  /** The CPO's answer stands, whatever becomes of the watch; it begins when the store can write, or with the next start. */
  async #watch(session: HubObject, caller: Caller, at: number): Promise<void> {
    const { log } = this.#context.ports;
    try {
      await this.#orphans.arm(session, caller.id, at, caller.trace);
    } catch (error) {
      log.error(
        { err: error, objectKey: `${session.owner}/${session.id}` },
        'could not watch a stopped session; trying again',
      );
      this.#again(() => void this.#watch(session, caller, at));
    }
  }

  #again(work: () => void): void {
    const { ports, timers } = this.#context;
    timers.arm(`command-again:${ports.secrets.newId()}`, ports.clock.now() + againMs, work);
  }

  /** Brings back every command that still waits for something. [COMMANDS-2] */
  async recover(keys: readonly string[], mayRecord: boolean): Promise<void> {
    await mapLimit(keys, revivedAtOnce, async (key) => {
      const record = await this.#read(key);
      if (!record) return;
      await this.#revive(record);
      if (!mayRecord) return;
      // Of several nodes another one may be at it.
      if (this.#kind === 'alone') await this.#cutOff(record);
      else this.#cutOffInTime(record);
    });
  }

  /** Another node has recorded a fact. [COMMANDS-5] */
  followUp(event: StoredEvent): void {
    const { recorder, supervisor } = this.#context;
    if (!event.stream.startsWith(prefix)) return;
    const follow = async () => {
      const record = await this.#read(commandId(event.stream));
      if (!record) return;
      if (supervisor.has(event.stream)) supervisor.send(event.stream, heard(event));
      else if (!commandEnds.has(record.state)) await this.#revive(record);
      if (commandEnds.has(record.state)) supervisor.stop(event.stream);
      this.#cutOffInTime(record);
    };
    recorder.inTurn(event.stream, follow).catch((error: unknown) => {
      this.#context.ports.log.error({ err: error, actor: event.stream }, 'could not follow a command; trying again');
      this.#again(() => this.followUp(event));
    });
  }

  #cutOffInTime(record: CommandRecord): void {
    const { timers, ports, settings } = this.#context;
    const cut = `${actorId(record.id)}#cut`;
    if (!underWay.has(record.state)) return timers.disarm(cut);
    const limitMs = Math.max(settings.commandTimeoutMs, settings.callbackTimeoutMs) + recordedMs;
    timers.arm(cut, ports.clock.now() + limitMs, () => {
      this.#cutOff(record).catch((error: unknown) => {
        ports.log.error({ err: error, commandId: record.id }, 'could not record a command; trying again');
        this.#again(() => this.#cutOffInTime(record));
      });
    });
  }

  /** [COMMANDS-2] */
  async #cutOff({ id, state: only, result }: CommandRecord): Promise<void> {
    const how = { trace: null, only };
    if (only === 'forwarding') await this.#record(id, { type: 'command.failed', data: { reason: cutOff } }, how);
    if (only !== 'relaying') return;
    await this.#record(id, { type: 'command.relayFailed', data: { result: result ?? '', reason: cutOff } }, how);
  }

  async #forward(caller: Caller, request: CommandRequest, record: CommandRecord): Promise<CommandAnswer> {
    const { directory, settings } = this.#context;
    // [COMMANDS-4]
    if (await caller.isStale?.())
      return this.#failed(record, 'unavailable', 'its caller waits no longer', caller.trace);
    const cpo = directory.partnerOf(record.cpo);
    const endpoint = cpo && endpointOf(cpo, 'commands', 'RECEIVER');
    if (!cpo || !endpoint)
      return this.#failed(record, 'commandUnavailable', 'the CPO has no commands endpoint', caller.trace);
    const call = {
      what: record.command,
      method: 'POST',
      endpoint: endpoint.url,
      url: below(endpoint.url, [record.command]),
      from: caller.party,
      to: directory.party(record.cpo, 'CPO') ?? null,
      body: request.bodyFor(`${settings.publicUrl}/ocpi/2.2.1/commands/callback/${record.id}`),
      timeoutMs: settings.commandTimeoutMs,
      emptyOk: false,
      oneObject: true,
    } as const;
    const outcome = await callPartner(this.#context, cpo, call, caller.trace);
    const failure = failureOf(outcome);
    if (failure) return this.#failed(record, refusals[failure], outcome.message, caller.trace);
    const answer = readAnswer(outcome, settings.commandResultWindowS);
    if (!answer) return this.#failed(record, 'commandFailed', 'no usable CommandResponse', caller.trace);
    const data = { result: answer.result, timeoutS: answer.timeout };
    await this.#recordEnd(record.id, { type: 'command.answered', data }, { trace: caller.trace, party: record.cpo });
    return answer;
  }

  /** The hub marks its record rejected and keeps nothing pending. [interface, Command result values] */
  async #failed(record: CommandRecord, code: ErrorCode, reason: string, trace: Trace): Promise<never> {
    await this.#recordEnd(record.id, { type: 'command.failed', data: { reason } }, { trace });
    throw new HubError(code);
  }

  /**
   * Records how a call ended. The caller gets the partner's answer at once, also while the store cannot write; then the fact is
   * recorded as soon as it can be. A restart before that finds the call cut off. [COMMANDS-2]
   */
  async #recordEnd(id: string, event: CommandEvent, how: With): Promise<void> {
    try {
      await this.#record(id, event, how);
    } catch (error) {
      const { log } = this.#context.ports;
      log.error({ err: error, commandId: id, event: event.type }, 'could not record a command; trying again');
      this.#again(() => void this.#recordEnd(id, event, how));
    }
  }

  /** Refuses what may not be forwarded by the rules as they stand when it is recorded. */
  #request(id: string, caller: Caller, request: CommandRequest, cpo: PartyId): Promise<CommandRecord> {
    const { recorder, directory } = this.#context;
    const data = {
      ...{ id, command: request.command, emsp: caller.id, cpo, responseUrl: request.responseUrl },
      ...{ sessionId: request.sessionId, reservationId: request.reservationId },
      ...{ authorizationReference: request.authorizationReference, tokenUid: request.tokenUid },
    };
    return recorder.inTurn(actorId(id), () => {
      if (!directory.isRegistered(caller.id)) throw new HubError('invalidToken');
      if (!directory.isRouted(caller.id, cpo)) throw new HubError('notRouted');
      if (request.tokenParty) refuseForeignToken(caller, request.tokenParty);
      const seen = [directory.seen, { ...commandKey(id), seq: null }];
      const how = { trace: caller.trace, party: caller.id };
      return this.#write(null, { type: 'command.requested', data }, how, seen);
    });
  }

  /** Records a fact of a command in turn: a result may have been recorded while the forward was under way. */
  #record(id: string, event: CommandEvent, how: With): Promise<CommandRecord> {
    return this.#context.recorder.inTurn(actorId(id), async (seen) => {
      const before = await this.#read(id, seen);
      if (before && how.only && before.state !== how.only) return before;
      return this.#write(before, event, how, seen);
    });
  }

  async #write(
    before: CommandRecord | null,
    event: CommandEvent,
    { trace, party = null, body = null }: With,
    seen: readonly Seen[],
  ): Promise<CommandRecord> {
    const { recorder, supervisor, settings } = this.#context;
    const at = recorder.instant();
    const record = applyToCommand(before, event, at);
    const actor = actorId(record.id);
    const isOver = commandEnds.has(record.state);
    const windowS = event.type === 'command.answered' ? event.data.timeoutS : settings.commandResultWindowS;
    const dueAt = new Date(Date.parse(at) + windowS * 1000).toISOString();
    const seq = await recorder.record({
      facts: [{ stream: actor, event: named(event, record), party, body }],
      puts: [commandRow(record), ...foundAgainBy(record, event, at)],
      // Every command that is not over has a due time: that is how a restart finds it.
      due: [{ key: actor, at: isOver ? null : dueAt }],
      seen,
      unfenced: true,
      trace,
      at,
    });
    if (this.#kind === 'door') return record;
    if (supervisor.has(actor)) supervisor.send(actor, { ...event, at: Date.parse(at), seq });
    if (isOver) supervisor.stop(actor);
    // A result of one that was over. Only now: a write that failed leaves no actor behind.
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

  #arm(actor: string, due: number | null): void {
    const { timers, supervisor } = this.#context;
    if (due === null) timers.disarm(actor);
    else timers.arm(actor, due, (at) => supervisor.send(actor, { type: 'deadline.passed', at }));
  }

  #spec({ id, emsp, cpo }: CommandRecord): ActorSpec<typeof commandMachine> {
    const { store } = this.#context;
    const actor = actorId(id);
    return {
      id: actor,
      kind: 'command',
      machine: this.#machine,
      input: undefined,
      parties: [emsp, cpo],
      history: async () => (await store.history(actor)).map(heard),
      restored: (snapshot) => this.#arm(actor, snapshot.context.due),
    };
  }
}

/** States in which a partner is being called. */
const underWay: ReadonlySet<CommandState> = new Set(['forwarding', 'relaying']);

/** A token without party is allowed; one that names a party names an eMSP of the caller's partner. [D26, D65] */
function refuseForeignToken({ partner }: Caller, { country_code, party_id }: TokenParty): void {
  const fits = (named: string | null | undefined, own: string) => !named || named.toUpperCase() === own.toUpperCase();
  const isOwn = partner.roles.some(
    (own) => own.role === 'EMSP' && fits(country_code, own.country_code) && fits(party_id, own.party_id),
  );
  if (!isOwn) throw new HubError('invalid', { message: 'token.party_id: expected a party of the caller' });
}

/** The CPO's CommandResponse as its text, with the default where its `timeout` is none; null when it cannot be used. [D28, D72] */
function readAnswer(outcome: Outcome, defaultTimeoutS: number): CommandAnswer | null {
  const { result, timeout } = (outcome.data ?? {}) as { result?: unknown; timeout?: unknown };
  const text = unambiguousText(outcome, 'result');
  if (typeof result !== 'string' || result === '' || text === null) return null;
  if (typeof timeout === 'number' && timeout > 0 && Number.isFinite(timeout)) {
    return { result, timeout: Math.min(timeout, timeoutMaxS), text };
  }
  const filled = setMembers(text, new Map([['timeout', String(defaultTimeoutS)]]));
  return { result, timeout: defaultTimeoutS, text: filled };
}
