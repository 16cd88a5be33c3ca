/**
 * One simulated world: a whole hub with its real machines, recorder and rules, on a simulated disk, clock and network, among
 * simulated partners. Everything that happens comes from the seed.
 *
 * TEST-SIMULATE-WORLD-1  The same seed gives the same trace, to the last line.
 * TEST-SIMULATE-WORLD-2  A crash takes the hub's process and nothing else: partners, disk and what is under way on the network stay.
 */
import { createHash } from 'node:crypto';
import type { Trace } from '../../src/domain/events.ts';
import { moduleNames } from '../../src/domain/modules.ts';
import type { ObjectChange } from '../../src/domain/object.ts';
import { type CreatedHub, createHub } from '../../src/hub/create-hub.ts';
import { laneMax } from '../../src/hub/delivery/window.ts';
import type { Caller, Hub } from '../../src/hub/ports/hub.ts';
import type { HubPorts, HubSettings } from '../../src/hub/ports/ports.ts';
import type { Store } from '../../storage/contract.ts';
import { noMeter } from '../support/no-meter.ts';
import { Agenda, clockOf, type Life, quiet } from './agenda.ts';
import { type Cast, castOf, type Member, roleOf } from './cast.ts';
import { Counters, type Sometimes } from './counters.ts';
import { Deaths } from './deaths.ts';
import { demand, type Request, Violation } from './facts.ts';
import { Judge } from './judge.ts';
import { type DiskRow, MemoryDisk } from './memory-disk.ts';
import { MemoryStore, type WriteFate } from './memory-store.ts';
import { Network } from './network.ts';
import { objectReader } from './pushed.ts';
import { Random } from './random.ts';
import { judgeRotten, rot } from './rot.ts';
import { SimulatedPartner } from './simulated-partner.ts';
import { WallClock } from './wall-clock.ts';
import { watcherOf } from './watcher.ts';
import { troublesOf } from './world-disk.ts';
import { difference, isStoreTrouble, rememberedBy, settingsOf } from './world-parts.ts';

export interface WorldOptions {
  /** Deliveries of one partner in memory; chosen by the seed when absent. */
  readonly windowMax?: number;
  readonly seed: number;
  /** Fewer steps than the seed would make, for a shorter story of the same failure. */
  readonly stepsMax?: number;
  /** Instead of those that the seed would choose. */
  readonly cast?: Cast;
  readonly settings?: Partial<HubSettings>;
  readonly print?: (line: string) => void;
  /** Bends a part of the hub, to see whether the judge notices. */
  readonly bend?: (parts: { store: Store; ports: HubPorts }) => { store: Store; ports: HubPorts };
}

/** How the disk is at the moment: shares of writes that go wrong, and how long one takes. */
export interface DiskWeather {
  readonly failing: number;
  readonly msMax: number;
}

export interface Asked<T> {
  readonly change?: ObjectChange;
  readonly ok?: (value: T) => void;
  /** `code` of the refusal, `lost` when the hub died, `down` when nobody was there. */
  readonly failed?: (code: string) => void;
  readonly stores?: (value: T) => boolean;
}

const startedAt = Date.parse('2026-03-01T08:00:00Z');
/** A world that trims its log starts so long before the full hour. */
const beforeHourMs = [480_000, 900_000] as const;
const hourMs = 3_600_000;
export const windowMax = 10_000;
/** What memory holds of one sender is three times what one lane may have there: a long lane leaves it room, and would fill it without that limit. */
const laneWindowMax = 2 * 3 * laneMax * moduleNames.length;
export const fairDisk: DiskWeather = { failing: 0, msMax: 3 };

export class World {
  readonly agenda = new Agenda(startedAt);
  readonly random: Random;
  /** Of disk and process. */
  readonly chance: Random;
  readonly cast: Cast;
  readonly settings: HubSettings;
  readonly partners = new Map<string, SimulatedPartner>();
  readonly judge: Judge;
  readonly counters = new Counters();
  readonly disk = new MemoryDisk();
  readonly network: Network;
  readonly options: WorldOptions;
  /** Time of day as the hub sees it. */
  readonly wall = new WallClock();
  /** Somebody sets that clock now and then. */
  readonly isClockSet: boolean;
  /** Deliveries of one partner that the hub has in memory at most. */
  readonly windowMax: number;
  /** Companies whose deliveries an operator holds back. */
  readonly paused = new Set<string>();
  /** Re-drives by filter and resyncs that were begun. */
  readonly jobs = new Set<string>();
  diskWeather: DiskWeather = fairDisk;
  /** Whether a trim may end in a crash by chance. */
  mayCrash = true;
  /** What becomes of the next writes, before chance has its say: for scenes that are written by hand. */
  readonly fates: WriteFate[] = [];
  readonly deaths = new Deaths(this);
  life: Life = { number: 0, isAlive: false };
  /** Null while nobody answers. */
  hub: Hub | null = null;
  created: CreatedHub | null = null;
  failure: string | null = null;
  /** Crashes are over: the healing has begun. */
  isHealing = false;
  readonly #digest = createHash('sha256');
  #untold = '';
  #instant = { at: Number.NaN, text: '' };
  readonly #tail: string[] = [];
  readonly #pending = new Map<Request, (code: string) => void>();
  #ids = 0;
  isMounted = true;
  /** Rows that rotted, as they were, until they are made again. */
  readonly rotten = new Map<string, DiskRow>();
  /** What the last life held in memory when it ended. */
  #before: { at: number; text: string } | null = null;

  constructor(options: WorldOptions) {
    this.options = options;
    this.random = new Random(`seed ${options.seed}`);
    this.chance = this.random.fork('chance');
    this.cast = options.cast ?? castOf(this.random.fork('cast'));
    this.settings = {
      ...settingsOf(this.random.fork('settings')),
      ...options.settings,
    };
    // Retention goes by the time of day, so the judge could not say what has come to its end beside a clock that is set.
    this.isClockSet = this.settings.eventsKeepDays === 0 && this.random.fork('clock').chance(0.5);
    this.windowMax = options.windowMax ?? this.random.fork('window').pick([3, laneWindowMax, windowMax, windowMax]);
    if (this.settings.eventsKeepDays > 0) {
      this.agenda.now += hourMs - this.random.fork('hour').between(...beforeHourMs);
    }
    for (const company of this.cast.companies) {
      this.partners.set(company.host, new SimulatedPartner(company, this.random.fork(company.host)));
    }
    this.judge = new Judge(
      {
        ...{ cast: this.cast, hit: this.hit, now: () => this.agenda.now },
        recordedAt: (text) => this.wall.recordedAt(text, this.agenda.now),
        latestOf: (text, until) => this.wall.latestOf(text, until),
        earliestOf: (text) => this.wall.earliestOf(text, this.agenda.now),
        windowShare: Math.max(1, Math.floor(this.windowMax / moduleNames.length)),
        isSteady: () => this.wall.isSteady,
      },
      this.settings,
    );
    this.network = new Network({
      ...{ agenda: this.agenda, random: this.random.fork('network'), partners: this.partners, hit: this.hit },
      trace: (line) => this.trace(line),
      serve: (text) => this.judge.facts.served.add(text),
      guarded: (work) => this.guarded(work),
    });
  }

  readonly hit = (name: Sometimes): void => this.counters.hit(name);

  /** Everything that can be told of a world goes here; two runs of a seed tell the same. [TEST-SIMULATE-WORLD-1] */
  trace(line: string): void {
    if (this.#instant.at !== this.agenda.now)
      this.#instant = { at: this.agenda.now, text: new Date(this.agenda.now).toISOString() };
    const text = `${this.#instant.text} ${line}`;
    this.#untold += text;
    if (this.#untold.length > 65_536) this.#tell();
    this.#tail.push(text);
    if (this.#tail.length > 400) this.#tail.splice(0, 200);
    this.options.print?.(text);
  }

  #tell(): void {
    this.#digest.update(this.#untold);
    this.#untold = '';
  }

  get digest(): string {
    this.#tell();
    return this.#digest.copy().digest('hex');
  }

  get tail(): readonly string[] {
    return this.#tail;
  }

  newId(kind: string): string {
    return `${kind}${++this.#ids}`;
  }

  /** Runs what may break a rule; the first breach stands. */
  guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.fail(error);
    }
  }

  fail(error: unknown): void {
    if (this.failure !== null) return;
    this.failure = error instanceof Violation ? error.message : String(error instanceof Error ? error.stack : error);
    this.trace(`FAILED ${this.failure}`);
  }

  /** Lets time pass. */
  async pass(ms: number): Promise<void> {
    const end = this.agenda.now + ms;
    await quiet();
    for (let next = this.agenda.peek(); next !== null && next <= end && !this.failure; next = this.agenda.peek()) {
      await this.agenda.step();
    }
    if (!this.failure) this.agenda.now = Math.max(this.agenda.now, end);
  }

  /** Lets time pass until something is so, which is looked at once an instant; false when it is not after so long. */
  async until(isSo: () => boolean, msMax: number): Promise<boolean> {
    const end = this.agenda.now + msMax;
    await quiet();
    while (!isSo() && !this.failure) {
      const next = this.agenda.peek();
      if (next === null || next > end) return false;
      while (this.agenda.peek() === next && !this.failure) await this.agenda.step();
    }
    return !this.failure;
  }

  /** Asks the hub for something, as a partner or an operator would, and does not wait for the end. */
  ask<T>(kind: string, work: (hub: Hub, trace: Trace) => Promise<T>, asked: Asked<T> = {}): void {
    const { hub, life } = this;
    if (!hub) {
      asked.failed?.('down');
      return;
    }
    const id = this.newId('c');
    const request = this.judge.begins(id, kind, life.number, asked.change);
    this.trace(
      `ask ${kind} ${id} ${asked.change ? `${asked.change.method} ${asked.change.module} ${asked.change.id}` : ''}`,
    );
    if (asked.failed) this.#pending.set(request, asked.failed);
    const ended = (how: () => void) => {
      if (!life.isAlive) return;
      this.#pending.delete(request);
      this.guarded(how);
    };
    const answered = (async () => work(hub, { requestId: this.newId('r'), correlationId: id }))();
    answered.then(
      (value) =>
        ended(() => {
          this.trace(`ok ${id}`);
          this.judge.succeeded(request, asked.stores?.(value) ?? true);
          asked.ok?.(value);
        }),
      (error: unknown) =>
        ended(() => {
          this.judge.refused(request, error);
          this.trace(`refused ${id} ${request.code}`);
          asked.failed?.(request.end === 'lost' ? 'lost' : (request.code ?? ''));
        }),
    );
  }

  /** The caller as a door would find it; null when its token is not good. */
  callerOf(hub: Hub, member: Member, trace: Trace): Caller | null {
    const partner = this.partners.get(member.host);
    const credential = partner?.hubToken ? hub.authenticate(partner.hubToken, '127.0.0.1') : null;
    if (credential?.kind !== 'hub') return null;
    return { partner: credential.partner, party: roleOf(member), id: member.party, trace };
  }

  /** Starts a hub on what the disk holds. */
  start(): void {
    const life: Life = { number: this.life.number + 1, isAlive: true };
    this.life = life;
    this.trace(`start ${life.number}`);
    this.judge.facts.startedAt = this.judge.facts.troubledAt = this.agenda.now;
    const plain = { store: new MemoryStore(this.disk, troublesOf(this, life)), ports: this.#ports(life) };
    const { store, ports } = this.options.bend?.(plain) ?? plain;
    const created = createHub(store, ports, this.settings, 'simulated');
    this.created = created;
    if (life.number > 1 && this.chance.chance(0.1)) {
      this.deaths.arm('read', this.chance.between(1, 60), 'a crash at any moment');
    }
    const recovering = created.recover();
    recovering.then(
      () => {
        if (!life.isAlive) return;
        this.hub = created.hub;
        this.judge.facts.known();
        this.guarded(() => this.#judgeRecovery(created));
        this.guarded(() => judgeRotten(this));
        this.judge.facts.troubledAt = this.agenda.now;
        this.trace(`ready ${life.number}`);
      },
      (error: unknown) => {
        if (!life.isAlive) return;
        // A process that cannot start ends; whoever looks after it starts it again.
        if (!isStoreTrouble(error)) this.fail(error);
        this.crash(null);
      },
    );
  }

  /** The process dies, and with it all that it did not write. [TEST-SIMULATE-WORLD-2] */
  crash(name: Sometimes | null): void {
    if (!this.life.isAlive) return;
    this.life.isAlive = false;
    if (name) this.hit(name);
    if (this.hub === null && name) this.hit('a crash while the hub was recovering');
    if ([...this.judge.commands.stories.values()].some(({ forwards, met }) => forwards === 1 && met === null)) {
      this.hit('a command was cut off by a crash');
    }
    const { created } = this;
    // A fact that is written and that the hub has not heard of yet is known to the next life alone.
    const isWhole = this.hub && created && this.judge.facts.isHeard;
    const before = isWhole ? { at: this.agenda.now, text: rememberedBy(created) } : null;
    [this.hub, this.created, this.isMounted] = [null, null, true];
    this.deaths.disarm();
    const lost = this.chance.between(0, this.disk.losable(this.agenda.now));
    this.#before = before;
    if (lost > 0) this.hit('a crash lost settles');
    this.disk.lose(lost);
    if (this.chance.chance(0.12)) rot(this);
    this.trace(`crash ${name} ${lost}`);
    this.judge.facts.troubledAt = this.agenda.now;
    this.judge.crashed(this.disk);
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    this.agenda.at(this.agenda.now + this.deaths.downMs(), () => this.start());
    this.agenda.at(this.agenda.now + 10, () => {
      for (const failed of pending) this.guarded(() => failed('lost'));
    });
  }

  /** Stops in order and starts again. */
  restart(): void {
    const { created, life } = this;
    if (!created || !this.hub) return;
    this.hub = null;
    this.hit('an orderly restart');
    this.trace('close');
    created.close().then(
      () => life.isAlive && this.crash(null),
      (error: unknown) => life.isAlive && this.fail(error),
    );
  }

  /** What a restart finds is what there was, when nothing of it was being written at the end. */
  #judgeRecovery(created: CreatedHub): void {
    const before = this.#before;
    if (before === null || before.at <= this.judge.facts.writtenAt) return;
    const after = rememberedBy(created);
    this.hit('a restart found everything as it was');
    demand(after === before.text, 'a restart finds everything as it was', () => difference(before.text, after));
  }

  #ports(life: Life): HubPorts {
    const watcher = watcherOf(this);
    const random = this.random.fork(`life ${life.number}`);
    return {
      clock: clockOf(this.agenda, life, this.wall),
      random: () => random.next(),
      client: this.network.client(life, watcher),
      versions: this.network.versions(life),
      lists: this.network.lists(life),
      inspector: { page: () => Promise.reject(new Error('nobody checks a partner here')) },
      reader: objectReader,
      isWithin: () => true,
      secrets: {
        newToken: () => this.newId('token'),
        digest: (token) => `digest of ${token}`,
        seal: (text) => `sealed ${text}`,
        open: (sealed) => sealed.slice('sealed '.length),
        isStale: () => false,
        pseudonym: (name) => `erased ${name}`,
        newId: () => this.newId('id'),
      },
      log: {
        debug: () => {},
        info: () => {},
        warn: () => {},
        error: (fields, message) => life.isAlive && this.#heard(fields, message),
      },
      meter: noMeter,
      bodiesMax: 1 << 20,
      inFlightMax: 256,
      windowMax: this.windowMax,
      turn: () => 0,
    };
  }

  /** What the hub calls an error must come from outside it. */
  #heard(fields: object, message: string): void {
    const { err } = fields as { err?: unknown };
    const isPoisoned = String(err).includes('poisoned on purpose');
    this.trace(`log ${message}: ${String(err)}`);
    if (isPoisoned) this.hit('an actor threw and came back');
    else if (err !== undefined && !isStoreTrouble(err)) this.fail(err);
  }
}
