/**
 * What the judge knows of a simulated world: the requests that were made, the log as the disk has it, and what follows from both
 * by the specification. A broken rule is a `Violation`, which ends the world.
 */
import type { ObjectChange } from '../../src/domain/object.ts';
import type { Endpoint } from '../../src/domain/party.ts';
import { Endpoints } from './endpoints.ts';
import type { DiskEvent } from './memory-disk.ts';
import {
  audienceOf,
  changed,
  type Directory,
  emptyDirectory,
  type Json,
  type Moment,
  same,
  startKey,
  viewerOf,
} from './reference.ts';
import type { Surroundings } from './surroundings.ts';

export class Violation extends Error {
  override readonly name = 'Violation';
}

export function demand(holds: boolean, rule: string, because: () => string): void {
  if (!holds) throw new Violation(`${rule}: ${because()}`);
}

/** Catalogues of CPOs: an eMSP without a receiver for one is owed nothing of it. */
const subscribed: ReadonlySet<string> = new Set(['locations', 'tariffs']);

/** One request of a partner or an operator to the hub. */
export interface Request {
  /** Its correlation id. */
  readonly id: string;
  readonly kind: string;
  /** Life of the hub that it went to. */
  readonly life: number;
  /** Version of the directory when it was made. */
  readonly from: number;
  /** When it was made, epoch ms. */
  readonly at: number;
  readonly change?: ObjectChange;
  /** `lost`: the hub died before it answered. */
  end: 'open' | 'ok' | 'refused' | 'lost';
  /** Of a refusal. */
  code?: string;
}

/** An event of the log, with what the judge makes of it. */
export interface Fact {
  readonly seq: number;
  readonly type: string;
  readonly stream: string;
  readonly to: readonly string[];
  /** In the world's own time. */
  readonly at: number;
  /** The time of day that the hub recorded. */
  readonly stamp: string;
  readonly correlationId: string | null;
  readonly body: string | null;
  readonly data: Json;
  /** Of an object's event: the object afterwards. */
  readonly after: Json | null;
}

/** Of the facts of a partner, what the judge looks at. */
interface PartnerData {
  readonly discovered?: readonly Endpoint[];
  readonly endpoints?: readonly Endpoint[];
  readonly settings?: Json;
}

const objectEvents: ReadonlySet<string> = new Set(['object.put', 'object.patched', 'object.deleted']);

export class Facts {
  readonly around: Surroundings;
  readonly log: Fact[] = [];
  readonly requests = new Map<string, Request>();
  readonly byCorrelation = new Map<string, Fact[]>();
  /** Stream → object as it stands; absent when there is none. */
  readonly objects = new Map<string, Json>();
  /** All that the directory was, oldest first. */
  readonly directories: Directory[] = [emptyDirectory];
  readonly endpoints: Endpoints;
  /** Texts that partners served in lists: what a pull may store. */
  readonly served = new Set<string>();
  readonly emsps: ReadonlySet<string>;
  /** Parties of which the hub has said, or must know from the log, that they are not registered any more. */
  readonly gone = new Set<string>();
  /** When store or hub were last in trouble. */
  troubledAt = 0;
  /** When the process that runs began. */
  startedAt = 0;
  /** When a fact of a partner or route was last written, or the hub last heard of one. */
  writtenAt = 0;
  /** Facts of partners and routes that are written, and the hub has not heard so. */
  readonly #unheard = new Set<number>();

  /** Stream → to whom anything of the object was owed. */
  readonly #sentTo = new Map<string, Set<string>>();
  /** Commands by their streams, as they were requested. */
  readonly #commands = new Map<string, Json>();
  /** Commands whose forward failed, until a result tells that the CPO had accepted it. */
  readonly #failed = new Set<string>();
  /** Commands whose forward has ended. */
  readonly #answered = new Set<string>();
  /** For how long an accepted START_SESSION counts. */
  readonly #compatibilityMs: number;

  constructor(around: Surroundings, compatibilityMs: number) {
    this.around = around;
    this.#compatibilityMs = compatibilityMs;
    this.endpoints = new Endpoints(() => this.isHeard && this.writtenAt < around.now());
    this.emsps = new Set(around.cast.emsps.map(({ party }) => party));
  }

  get version(): number {
    return this.directories.length - 1;
  }

  get directory(): Directory {
    return this.directories.at(-1) ?? emptyDirectory;
  }

  /** Whether the hub has heard of every fact of partners and routes that the disk has. */
  get isHeard(): boolean {
    return this.#unheard.size === 0;
  }

  /** The hub was told that these are written. */
  heard(first: number, last: number): void {
    for (let seq = first; seq <= last; seq++) if (this.#unheard.delete(seq)) this.writtenAt = this.around.now();
  }

  /** Whoever comes next reads the disk. */
  crashed(): void {
    this.#unheard.clear();
  }

  /** The hub has caught up with the log. */
  known(): void {
    for (const { party } of [...this.around.cast.cpos, ...this.around.cast.emsps]) {
      if (this.directory.registered.has(party)) this.gone.delete(party);
      else this.gone.add(party);
    }
  }

  commit(event: DiskEvent): Fact {
    const data = JSON.parse(event.data) as Json;
    const { seq, type, stream, to, correlationId, body } = event;
    demand(seq === this.log.length + 1, 'sequences are dense', () => `${seq} after ${this.log.length}`);
    const after = objectEvents.has(type) || type === 'object.resent' ? this.#object(event, data) : null;
    if (type === 'object.missed') this.#missed(stream, data);
    if (data.method === 'DELETE') this.#endSent(stream, to);
    else if (objectEvents.has(type) || type === 'object.resent') this.#sent(stream, to);
    const at = this.around.recordedAt(event.at);
    const fact = { seq, type, stream, to, at, stamp: event.at, correlationId, body, data, after };
    this.log.push(fact);
    if (/^(partner|route)\./.test(type)) {
      this.writtenAt = this.around.now();
      this.#unheard.add(seq);
    }
    if (correlationId !== null) {
      const same = this.byCorrelation.get(correlationId);
      if (same) same.push(fact);
      else this.byCorrelation.set(correlationId, [fact]);
    }
    this.#direct(fact);
    return fact;
  }

  #sent(stream: string, to: readonly string[]): void {
    this.#sentTo.set(stream, new Set([...(this.#sentTo.get(stream) ?? []), ...to]));
  }

  /** Those who are not told of its end have it still. */
  #endSent(stream: string, to: readonly string[]): void {
    this.#sentTo.set(stream, new Set([...(this.#sentTo.get(stream) ?? [])].filter((party) => !to.includes(party))));
  }

  #missed(stream: string, { sent }: Json): void {
    this.#sentTo.set(stream, new Set(sent as string[]));
  }

  /** What the directory is after a fact. */
  #direct(fact: Fact): void {
    const { type, stream, data } = fact;
    if (type.startsWith('route.')) this.#routed(type, data);
    else if (type.startsWith('partner.')) this.#partnered(type, stream, data);
    else if (type === 'command.requested') this.#commands.set(stream, data);
    else if (type.startsWith('command.')) this.#accepted(fact);
  }

  /** A result tells that comes before the answer, or the first after one that was lost. [D29, D66] */
  #accepted({ stream, type, data: { result }, stamp }: Fact): void {
    const isAnswer = type === 'command.answered';
    const isOpen = !this.#answered.has(stream) || this.#failed.has(stream);
    if (result === 'ACCEPTED' && (isAnswer || (type === 'command.resultReceived' && isOpen))) {
      this.#failed.delete(stream);
      // The record may have waited for the disk, beside a step of the clock.
      this.#started(this.#commands.get(stream), this.around.earliestOf(stamp), stamp);
    }
    if (type === 'command.failed') this.#failed.add(stream);
    if (isAnswer || type === 'command.failed') this.#answered.add(stream);
  }

  #change(change: Partial<Directory>): void {
    this.directories.push({ ...this.directory, ...change });
  }

  #routed(type: string, { active, emsp, cpo }: Json): void {
    const routes = new Set(this.directory.routes);
    if (type === 'route.set' && active) routes.add(`${emsp}/${cpo}`);
    else routes.delete(`${emsp}/${cpo}`);
    this.#change({ routes });
  }

  #partnered(type: string, stream: string, data: Json): void {
    const company = this.around.cast.companies.find(({ id }) => stream === `partner:${id}`);
    const parties = (company?.members ?? []).map(({ party }) => party);
    const registered = new Set(this.directory.registered);
    if (type === 'partner.suspended') for (const party of parties) registered.delete(party);
    if (type === 'partner.registered') {
      for (const party of parties) {
        registered.add(party);
        this.gone.delete(party);
      }
    }
    const { discovered, endpoints: operator, settings } = data as PartnerData;
    if (company && (discovered || operator)) {
      this.endpoints.committed(
        company,
        { ...(discovered && { discovered }), ...(operator && { operator }) },
        this.around.now(),
      );
    }
    if (type === 'partner.suspended' || type === 'partner.registered') this.#change({ registered });
    if (settings) this.#change({ compatible: this.#compatible(parties, settings) });
  }

  #compatible(parties: readonly string[], settings: Json): ReadonlyMap<string, number> {
    const compatible = new Map(this.directory.compatible);
    for (const party of parties) {
      const mode = settings.identity_mode;
      const until = Date.parse(String(settings.compatibility_until));
      if (mode === 'COMPATIBILITY' && Number.isFinite(until)) compatible.set(party, until);
      else if (mode !== undefined) compatible.delete(party);
    }
    return compatible;
  }

  #started(command: Json | undefined, at: number, stamp: string): void {
    if (command?.command !== 'START_SESSION') return;
    const { cpo, emsp, authorizationReference, tokenUid } = command;
    const starts = new Map(this.directory.starts);
    for (const [by, name] of [
      ['reference', authorizationReference],
      ['uid', tokenUid],
    ] as const) {
      if (name) starts.set(startKey(String(cpo), by, String(name)), { emsp: String(emsp), at, stamp });
    }
    this.#change({ starts });
  }

  #object(event: DiskEvent, data: Json): Json | null {
    const { type, stream, to, body } = event;
    const before = this.objects.get(stream) ?? null;
    const change = { ...data, body: body ?? '' } as unknown as ObjectChange;
    const request = this.requests.get(event.correlationId ?? '');
    const where = () => `${type} ${stream} of ${event.correlationId}`;
    if (type === 'object.resent' && (change.method === 'DELETE' || change.method === 'PATCH'))
      return this.#ended(request, event, change, before);
    if (type === 'object.resent') {
      demand(before !== null, 'what is sent anew is stored', where);
      const isEntitled = (receiver: string) => this.#isEntitledAnew(request, event, change, before, receiver);
      demand(to.every(isEntitled), 'nobody is owed what it is not entitled to', () => `${to} by ${where()}`);
      demand(same(JSON.parse(body ?? 'null'), before), 'what is sent anew is what is stored', where);
      if (change.module === 'sessions' || change.module === 'cdrs') this.#becomes(stream, to[0] ?? null);
      return before;
    }
    if (request?.change) {
      const { method, body: sent, lastUpdated } = request.change;
      demand(
        body === sent && data.method === method && data.lastUpdated === lastUpdated,
        'an event carries what was pushed',
        where,
      );
    } else
      demand(change.method === 'DELETE' || this.served.has(body ?? ''), 'what is stored was pushed or pulled', where);
    const after = changed(before, change);
    demand(after !== null, 'a refused push changes nothing', where);
    this.#judgeAudience(event, change, request, before, after ?? {});
    this.#judgeViewer(event, change, request, after ?? {});
    if (change.method === 'DELETE') this.objects.delete(stream);
    else if (after) this.objects.set(stream, after);
    return after;
  }

  /** What is sent anew of a tariff that was deleted, or of a location that was hidden: that it is so, to who was sent it. */
  #ended(
    request: Request | undefined,
    { stream, to, body }: DiskEvent,
    { method, owner, module }: ObjectChange,
    stored: Json | null,
  ): Json | null {
    const directories = this.directories.slice(request?.from ?? 0);
    const had = this.#sentTo.get(stream) ?? new Set();
    const where = () => `${method} ${stream} to ${to}`;
    const isDeleted = method === 'DELETE' && module === 'tariffs' && stored === null;
    const { publish, last_updated } = stored ?? {};
    const isHidden = publish === false && same(JSON.parse(body || 'null'), { publish, last_updated });
    demand(isDeleted || isHidden, 'only what is over is ended', where);
    const mayHear = (party: string) => had.has(party) && directories.some((one) => one.registered.has(party));
    demand(to.every(mayHear), 'only who was sent it hears that it is over', where);
    const isRouted = (party: string) => directories.some(({ routes }) => routes.has(`${party}/${owner}`));
    demand(isDeleted || to.every(isRouted), 'nobody hears that a location is hidden without a rule', where);
    return stored;
  }

  /** All that the directory may have been, and all moments that matter, when the hub decided. */
  *#decisions(request: Request | undefined, event: DiskEvent): Iterable<readonly [Directory, Moment]> {
    const decidedAt = this.around.recordedAt(event.at);
    const from = request?.at ?? decidedAt;
    const compatibilityMs = this.#compatibilityMs;
    for (const directory of this.directories.slice(request?.from ?? 0).flatMap((one) => this.#asRecorded(one))) {
      const { compatible, starts } = directory;
      const ends = [...compatible.values(), ...[...starts.values()].map(({ at }) => at + compatibilityMs + 1)];
      for (const at of new Set([from, ...ends.filter((end) => end > from && end < decidedAt), decidedAt]))
        yield [directory, { at, compatibilityMs }];
    }
  }

  /** The time of day at which a command was accepted may name a later instant, after a step back. [CLOCK-8] */
  #asRecorded(directory: Directory): Directory[] {
    const { isSteady, latestOf, now } = this.around;
    if (isSteady()) return [directory];
    const starts = [...directory.starts].map(
      ([key, one]) => [key, { ...one, at: Math.max(one.at, latestOf(one.stamp, now())) }] as const,
    );
    return [directory, { ...directory, starts: new Map(starts) }];
  }

  #audiences(
    request: Request | undefined,
    event: DiskEvent,
    change: ObjectChange,
    before: Json | null,
    after: Json,
  ): string[][] {
    const owned = { ...change, stream: event.stream };
    const had = this.#sentTo.get(event.stream) ?? new Set();
    const sent = change.method === 'DELETE' ? [...had] : [];
    return [...this.#decisions(request, event)].map(([directory, moment]) => {
      const audience = audienceOf(directory, this.emsps, owned, before, after, moment, had);
      return [...new Set([...audience, ...sent.filter((party) => directory.registered.has(party))])];
    });
  }

  /** What is sent anew goes to whose it is, whoever it named since; catalogues to everybody who is routed. */
  #isEntitledAnew(
    request: Request | undefined,
    event: DiskEvent,
    change: ObjectChange,
    stored: Json | null,
    receiver: string,
  ): boolean {
    const { stream } = event;
    const { module, owner } = change;
    if (module !== 'sessions' && module !== 'cdrs')
      return this.#audiences(request, event, change, stored, stored ?? {}).some((one) => one.includes(receiver));
    return this.directories.slice(request?.from ?? 0).some((directory) => {
      const { viewers, routes, registered } = directory;
      const theirs = viewers.get(stream) ?? this.#named(directory, { ...change, stream }, stored ?? {});
      return theirs === receiver && routes.has(`${receiver}/${owner}`) && registered.has(receiver);
    });
  }

  /** Whose it is, as the hub decided, follows from the specification. */
  #judgeViewer(event: DiskEvent, change: ObjectChange, request: Request | undefined, after: Json): void {
    const { module } = change;
    if (module !== 'sessions' && module !== 'cdrs') return;
    const { stream } = event;
    const { viewer } = JSON.parse(event.data) as { viewer: string | null };
    const owned = { ...change, stream };
    const decisions = [...this.#decisions(request, event)];
    const expected = decisions.map(([directory, moment]) => viewerOf(directory, this.emsps, owned, after, moment));
    demand(
      expected.includes(viewer),
      'a session goes back to whom it names, or who started it',
      () => `${stream} to ${viewer}, not ${[...new Set(expected)].join(' or ')}`,
    );
    this.#noticeStarted(owned, after, viewer);
    this.#becomes(stream, viewer);
  }

  #becomes(stream: string, viewer: string | null): void {
    const viewers = new Map(this.directory.viewers);
    if (viewer === (viewers.get(stream) ?? null)) return;
    if (viewer === null) viewers.delete(stream);
    else viewers.set(stream, viewer);
    this.#change({ viewers });
  }

  /** Whose it is by its `cdr_token` alone. */
  #named(directory: Directory, owned: ObjectChange & { stream: string }, object: Json): string | null {
    return viewerOf({ ...directory, compatible: new Map() }, this.emsps, owned, object, { at: 0, compatibilityMs: 0 });
  }

  #noticeStarted(owned: ObjectChange & { stream: string }, after: Json, viewer: string | null): void {
    const { directory, emsps, around } = this;
    const viewerAt = (among: Directory, at: number) =>
      viewerOf(among, emsps, owned, after, { at, compatibilityMs: this.#compatibilityMs });
    const named = viewerAt({ ...directory, compatible: new Map() }, 0);
    if (viewer !== named)
      around.hit(
        owned.module === 'cdrs' ? 'a CDR went to who started its session' : 'a session went to who started it',
      );
    if (viewer !== null || viewerAt(directory, 0) === null) return;
    const until = directory.compatible.get(owned.owner) ?? 0;
    around.hit(until <= around.now() ? 'a COMPATIBILITY period was over' : 'a START_SESSION was too long ago');
  }

  /** Everybody who was entitled throughout is owed it, and nobody who never was. */
  #judgeAudience(
    event: DiskEvent,
    change: ObjectChange,
    request: Request | undefined,
    before: Json | null,
    after: Json,
  ): void {
    const { stream, to } = event;
    const audiences = this.#audiences(request, event, change, before, after);
    const where = () => `${stream} is owed to [${to}], entitled: ${audiences.map((one) => `[${one}]`).join(' then ')}`;
    for (const receiver of to) {
      demand(
        audiences.some((one) => one.includes(receiver)),
        'nobody is owed what it is not entitled to',
        where,
      );
      const isUnsubscribed = subscribed.has(change.module) && this.endpoints.isLacking(receiver, change.module);
      demand(!isUnsubscribed, 'nothing is owed to who is not subscribed', where);
    }
    // What was pulled without `forward` is owed to nobody.
    if (!request?.change) return;
    const { at } = request;
    const [first = []] = audiences;
    for (const receiver of first) {
      const isUnsubscribed = subscribed.has(change.module) && this.endpoints.lackedSince(receiver, change.module, at);
      const always = !isUnsubscribed && audiences.every((one) => one.includes(receiver));
      if (isUnsubscribed) this.around.hit('an eMSP without a receiver was not subscribed');
      demand(!always || to.includes(receiver), 'whoever is entitled is owed it', where);
    }
  }
}
