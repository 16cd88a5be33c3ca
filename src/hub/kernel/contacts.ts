/**
 * What passed between the hub and each partner, for operators: its last answer to a call of the hub, the last call
 * that failed and why, and its pushes by module; and counts of all that passed, until the next point of the history takes them
 * (`Traffic`). In memory, of this process.
 *
 * CONTACTS-1  Pushes are counted from the committed events, so that the owner of several nodes sees those that other
 *     nodes answered.
 * CONTACTS-2  A CPO is silent when it is CONNECTED and has pushed nothing for its `silent_after_h` or else `silentAfterH`, counted from its last push,
 *     from its (re)connection, or, without a known push, from the start of the hub.
 * CONTACTS-3  Memory of counts is bounded by partners and bands: what the history does not take is added up.
 */
import type { Store, StoredEvent } from '../../../storage/contract.ts';
import type { Outcome } from '../../domain/errors.ts';
import type { ObjectEventData } from '../../domain/events.ts';
import { bandOf, type Point } from '../../domain/history.ts';
import { instantOf, instantText } from '../../domain/instant.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import { type Clock, hourMs, minuteMs } from '../../kit/clock.ts';
import type { ContactsView } from '../ports/operator.ts';
import type { HubSettings } from '../ports/ports.ts';
import { type PartnerDirectory, partnerIdIn } from './directory.ts';

const excerptMax = 200;
/** Newest events from which a starting hub learns of pushes before its start, and events per read. */
const recalledMax = 20_000;
const recalledStep = 500;

const pushed: ReadonlySet<string> = new Set(['object.put', 'object.patched', 'object.deleted']);

/** Pushes of one module of a CPO. */
interface Pushes {
  /** Hub time of the last one. */
  lastAt: number;
  /** Since the start. */
  count: number;
  /** Of each minute of the last hour, by its number modulo 60, and the minute that was counted last. */
  readonly minutes: Uint32Array;
  minute: number;
}

type LastError = NonNullable<ContactsView['last_error']>;

/** Calls in a row that a partner refused with 401 or 403. */
export interface TokenRefused {
  /** Hub time of the first one. */
  readonly since: number;
  readonly calls: number;
  readonly httpStatus: number | null;
  /** What the last one was about. */
  readonly what: LastError['what'];
}

/** What a call was about: a module and its delivery, or `sync` or `probe`. */
interface Called {
  readonly what: LastError['what'];
  readonly delivery?: string | null;
}

export class Contacts {
  readonly traffic = new Traffic();
  readonly #clock: Clock;
  readonly #directory: PartnerDirectory;
  readonly #silentAfterH: number;
  readonly #startedAt: number;
  readonly #pushes = new Map<PartyId, Map<ObjectModule, Pushes>>();
  readonly #errors = new Map<PartyId, LastError>();
  readonly #answers = new Map<PartyId, number>();
  readonly #tokenRefused = new Map<PartyId, TokenRefused>();
  #onTokenRefused: (partner: PartyId) => void = () => {};
  #isClosed = false;

  constructor(clock: Clock, directory: PartnerDirectory, { silentAfterH }: Pick<HubSettings, 'silentAfterH'>) {
    this.#clock = clock;
    this.#directory = directory;
    this.#silentAfterH = silentAfterH;
    this.#startedAt = clock.now();
  }

  /** A call to the partner ended. */
  called(partner: PartyId, outcome: Outcome, { what, delivery = null }: Called): void {
    const now = this.#clock.now();
    if (outcome.httpStatus !== null) this.#answers.set(partner, now);
    const refused = this.#tokenRefused.get(partner);
    if (outcome.class === 'delivered') {
      // Versions may be open to any token.
      if (what !== 'probe' || refused?.what === 'probe') this.#tokenRefused.delete(partner);
      return;
    }
    if (outcome.class === 'auth_error') {
      const { since = now, calls = 0 } = refused ?? {};
      this.#tokenRefused.set(partner, { since, calls: calls + 1, httpStatus: outcome.httpStatus, what });
      if (calls === 0) this.#onTokenRefused(partner);
    }
    const { class: met, httpStatus: http_status, ocpiStatus: ocpi_status } = outcome;
    const excerpt = (outcome.excerpt || outcome.message).slice(0, excerptMax);
    const at = instantText(this.#clock.stamp(now));
    this.#errors.set(partner, { at, what, delivery, class: met, http_status, ocpi_status, excerpt });
  }

  /** Has a function called when a partner begins to refuse the token of the hub's calls. */
  onTokenRefused(listener: (partner: PartyId) => void): void {
    this.#onTokenRefused = listener;
  }

  /** Null when the partner took the last call that has a token, or there was none since its last exchange of credentials. */
  tokenRefused(partner: PartyId): TokenRefused | null {
    return this.#tokenRefused.get(partner) ?? null;
  }

  /** An event was committed. [CONTACTS-1] */
  follow(event: StoredEvent): void {
    if (event.type === 'partner.registered' || event.type === 'partner.rotated')
      this.#tokenRefused.delete(partnerIdIn(event.stream));
    const partner = pusherOf(this.#directory, event);
    if (!partner) return;
    this.traffic.pushed(partner.id);
    const pushes = this.#pushesOf(partner.id, (event.data as ObjectEventData).module);
    const at = this.#clock.steady(instantOf(event.at));
    advance(pushes, Math.floor(at / minuteMs));
    pushes.lastAt = Math.max(pushes.lastAt, at);
    pushes.count += 1;
    const minute = pushes.minute % 60;
    pushes.minutes[minute] = (pushes.minutes[minute] ?? 0) + 1;
  }

  /** Learns from the newest events when each CPO pushed last before the start. Never rejects because of a closing store. */
  async recall(store: Store): Promise<void> {
    let upTo = store.head();
    const end = Math.max(store.horizon(), upTo - recalledMax);
    for (; upTo > end && !this.#isClosed; upTo -= recalledStep) {
      const events = await store.ranges([{ after: Math.max(end, upTo - recalledStep), upTo }]);
      for (const event of events) {
        const partner = pusherOf(this.#directory, event);
        if (!partner) continue;
        const pushes = this.#pushesOf(partner.id, (event.data as ObjectEventData).module);
        pushes.lastAt = Math.max(pushes.lastAt, this.#clock.steady(Date.parse(event.at)));
      }
    }
  }

  close(): void {
    this.#isClosed = true;
  }

  /** Hub time of the last push of any module; null when none is known. */
  lastPush(partner: PartyId): number | null {
    const all = [...(this.#pushes.get(partner)?.values() ?? [])].map(({ lastAt }) => lastAt);
    return all.length === 0 ? null : Math.max(...all);
  }

  /** Number of pushes since the start. */
  received(partner: PartyId): number {
    let sum = 0;
    for (const { count } of this.#pushes.get(partner)?.values() ?? []) sum += count;
    return sum;
  }

  /** Replaces an erased person's names in what partners answered. */
  rewrite(text: (excerpt: string) => string): void {
    for (const [partner, error] of this.#errors) this.#errors.set(partner, { ...error, excerpt: text(error.excerpt) });
  }

  lastError(partner: PartyId): LastError | null {
    return this.#errors.get(partner) ?? null;
  }

  /** Hub time since which a silent CPO has pushed nothing; null when it is not silent. [CONTACTS-2] */
  silentSince({ id, status, roles, lastUpdated, settings }: Partner, now: number): number | null {
    const afterMs = (settings.silent_after_h ?? this.#silentAfterH) * hourMs;
    if (afterMs === 0 || status !== 'CONNECTED' || !roles.some(({ role }) => role === 'CPO')) return null;
    const connectedAt = this.#clock.steady(Date.parse(lastUpdated));
    const since = Math.max(connectedAt, this.lastPush(id) ?? this.#startedAt);
    return now - since >= afterMs ? since : null;
  }

  view(partner: Partner): ContactsView {
    const now = this.#clock.now();
    const shown = (at: number | null | undefined) => (at == null ? null : instantText(this.#clock.stamp(at)));
    const inbound = [...(this.#pushes.get(partner.id) ?? [])].map(([module, pushes]) => {
      advance(pushes, Math.floor(now / minuteMs));
      const last_hour = pushes.minutes.reduce((sum, count) => sum + count, 0);
      return { module, last_push: shown(pushes.lastAt) ?? '', last_hour };
    });
    return {
      last_request: shown(this.#directory.lastContact(partner.id)),
      last_answer: shown(this.#answers.get(partner.id)),
      last_error: this.lastError(partner.id),
      silent_since: shown(this.silentSince(partner, now)),
      inbound: inbound.sort((a, b) => (a.module < b.module ? -1 : 1)),
    };
  }

  #pushesOf(partner: PartyId, module: ObjectModule): Pushes {
    const modules = this.#pushes.get(partner) ?? new Map<ObjectModule, Pushes>();
    const pushes = modules.get(module) ?? { lastAt: 0, count: 0, minutes: new Uint32Array(60), minute: 0 };
    if (!modules.has(module)) this.#pushes.set(partner, modules.set(module, pushes));
    return pushes;
  }
}

/** The partner that pushed an object; undefined for other events, and for what the hub or an operator stored. */
function pusherOf(directory: PartnerDirectory, { type, data, party }: StoredEvent): Partner | undefined {
  if (!pushed.has(type)) return;
  const { by, owner } = data as ObjectEventData;
  return by === undefined && party !== null ? directory.partnerOf(owner) : undefined;
}

/** Empties the minutes that have passed since the last count. */
function advance(pushes: Pushes, minute: number): void {
  for (let next = Math.max(pushes.minute + 1, minute - 59); next <= minute; next++) pushes.minutes[next % 60] = 0;
  pushes.minute = Math.max(pushes.minute, minute);
}

type Tally = Pick<Point, 'pushes' | 'deliveries' | 'errors' | 'bands'>;

/** Of one partner. */
class Counts {
  pushes = 0;
  deliveries = 0;
  errors = 0;
  readonly #bands = new Map<number, number>();

  took(ms: number): void {
    const band = bandOf(ms);
    this.deliveries += 1;
    this.#bands.set(band, (this.#bands.get(band) ?? 0) + 1);
  }

  get tally(): Tally {
    const { pushes, deliveries, errors } = this;
    return { pushes, deliveries, errors, bands: [...this.#bands].sort(([a], [b]) => a - b).flat() };
  }
}

/** Counts what passes between the hub and each partner. [CONTACTS-3] */
export class Traffic {
  #counts = new Map<PartyId, Counts>();
  #begun: () => void = () => {};

  /** Called at the first count since the last `take`. */
  onBegun(listener: () => void): void {
    this.#begun = listener;
  }

  pushed(partner: PartyId): void {
    this.#countsOf(partner).pushes += 1;
  }

  /** The partner took a delivery; its last attempt lasted `ms`. */
  delivered(partner: PartyId, ms: number): void {
    this.#countsOf(partner).took(ms);
  }

  /** An attempt at a delivery to the partner failed. */
  failed(partner: PartyId): void {
    this.#countsOf(partner).errors += 1;
  }

  /** What was counted since the last call. */
  take(): Map<PartyId, Tally> {
    const taken = this.#counts;
    this.#counts = new Map();
    return new Map([...taken].map(([partner, counts]) => [partner, counts.tally]));
  }

  #countsOf(partner: PartyId): Counts {
    const known = this.#counts.get(partner);
    if (known) return known;
    const counts = new Counts();
    this.#counts.set(partner, counts);
    if (this.#counts.size === 1) this.#begun();
    return counts;
  }
}
