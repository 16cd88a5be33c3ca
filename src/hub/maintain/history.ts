/**
 * Records the history: once a minute one row with the points of all partners that had traffic or were down, and once an
 * hour, for each of them, the minutes of the hour and the hour among those of its day.
 *
 * MAINTAIN-HISTORY-1  The history never holds up a push or a delivery: both only count. When the store refuses, nothing is queued;
 *     what was counted stays one sum, and becomes part of the next minute that can be written.
 * MAINTAIN-HISTORY-2  Minutes are kept for 24 h and hours for 90 days, by construction: a row has a place among the 24 hours of a day
 *     or the 91 days that can be shown, and the next one with that place replaces it.
 * MAINTAIN-HISTORY-3  Minutes become an hour in any number of commits; after a crash between two of them the same is
 *     written again. The minutes go with the last one, so no minute is missing or counted twice. Of a minute that comes
 *     again after its hour was written, because the clock stepped back, the later one stays.
 * MAINTAIN-HISTORY-4  A crash loses what was counted in its minute; a stop loses nothing. While nothing passes and nobody is down
 *     nothing is written.
 * MAINTAIN-HISTORY-5  Only the hub that runs deliveries records: of several nodes, the owner. It counts pushes by the committed
 *     events, those of other nodes' doors included.
 */
import type { Put, RowKey, StoredEvent } from '../../../storage/contract.ts';
import {
  type DayRecord,
  type HourRecord,
  type MinuteRecord,
  nothing,
  type Point,
  pointOf,
  type Step,
  stored,
  sumOf,
} from '../../domain/history.ts';
import { instantText } from '../../domain/instant.ts';
import type { Partner, PartyId } from '../../domain/party.ts';
import { dayMs, hourMs, minuteMs } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import { partnerIdIn } from '../kernel/directory.ts';
import { rowData, unlisted } from '../kernel/row-codecs.ts';

/** Owner of the points of the whole hub. */
export const hubOwner = '';
/** For so long, in days, hours are shown; the rows have room for a day more, which the first of them is a part of. */
export const hoursKeptDays = 90;
const stream = 'history:traffic';
const timer = 'history';
const minuteKind = 'history';
/** Partners of which one commit writes the hour: about half a MiB when each had traffic in every minute. */
const partnersAtOnce = 100;

export const hoursKind = 'history:hours';
export const minutesKind = 'history:minutes';
export const historyKinds = [minuteKind, minutesKind, hoursKind] as const;

/** [MAINTAIN-HISTORY-2] */
const minutesKey = (owner: string, hour: number): RowKey => {
  return { kind: minutesKind, owner, id: String((hour / hourMs) % 24) };
};
const daysKey = (owner: string, day: number): RowKey => {
  return { kind: hoursKind, owner, id: String((day / dayMs) % (hoursKeptDays + 1)) };
};

const isDown = ({ status }: Partner): boolean => status === 'OFFLINE' || status === 'SUSPENDED';
const startOf = (ms: number, size: number): number => Math.floor(ms / size) * size;

/** Points by owner, by begin of their minute. */
type Minutes = Map<number, Map<string, Point>>;

export class History {
  readonly #context: Context;
  /** Minutes that were written and are part of no hour yet, by begin of the hour. */
  readonly #open = new Map<number, Minutes>();
  /** Hub time since when each partner is down, or up to which that was written. */
  readonly #down = new Map<PartyId, number>();
  /** Counted and not written yet. */
  #counted = new Map<string, Point>();
  /** Time of day of the first of them; null: there are none. */
  #begunAt: number | null = null;
  /** Hub time up to which the hub's own watch was written. */
  #watchedTo = 0;
  #working: Promise<void> = Promise.resolve();
  #isOn = false;

  constructor(context: Context) {
    this.#context = context;
    context.contacts.traffic.onBegun(() => this.#begin());
  }

  /** Loads the minutes that are part of no hour yet, and begins. */
  async recover(): Promise<void> {
    const { store, directory, ports } = this.#context;
    for await (const { data } of store.scan(minuteKind)) {
      const { at, points } = data as MinuteRecord;
      this.#keep(Date.parse(at), new Map(Object.entries(points).map(([owner, point]) => [owner, pointOf(point)])));
    }
    const now = ports.clock.now();
    this.#watchedTo = now;
    for (const partner of directory.partners()) if (isDown(partner)) this.#down.set(partner.id, now);
    this.#isOn = true;
    if (this.#begunAt !== null) this.#armFor(minuteMs);
    else if (this.#open.size > 0 || this.#down.size > 0) this.#armFor(hourMs);
  }

  /** An event was committed. Pushes are counted by `contacts.ts`. */
  follow(event: StoredEvent): void {
    if (event.type.startsWith('partner.')) this.#look(partnerIdIn(event.stream));
  }

  /** Points of an owner in the minutes that are part of no hour yet, by begin of the minute. */
  open(owner: string): Map<number, Point> {
    const found = new Map<number, Point>();
    for (const minutes of this.#open.values()) {
      for (const [at, points] of minutes) {
        const point = points.get(owner);
        if (point) found.set(at, point);
      }
    }
    return found;
  }

  /** Writes what was counted. */
  async close(): Promise<void> {
    this.#isOn = false;
    this.#context.timers.disarm(timer);
    await this.#working;
    await this.#write().catch((error: unknown) => this.#failed(error));
  }

  #begin(): void {
    this.#begunAt ??= this.#context.ports.clock.wall();
    if (this.#isOn) this.#armFor(minuteMs);
  }

  /** Notes whether the partner is down now. */
  #look(id: PartyId): void {
    const partner = this.#context.directory.partner(id);
    const { clock } = this.#context.ports;
    const since = this.#down.get(id);
    const now = clock.now();
    if (partner && isDown(partner)) {
      if (since !== undefined) return;
      this.#down.set(id, now);
    } else {
      if (since === undefined) return;
      this.#down.delete(id);
      this.#add(id, { ...nothing, down: (now - since) / 1000 });
    }
    this.#begin();
  }

  #add(owner: string, point: Point): void {
    const before = this.#counted.get(owner);
    this.#counted.set(owner, before ? sumOf([before, point]) : point);
  }

  /** Arms the timer for the end of the present minute or hour. */
  #armFor(size: number): void {
    const { timers, ports } = this.#context;
    const { clock } = ports;
    timers.arm(timer, clock.now() + size - (clock.wall() % size), () => {
      this.#working = this.#working.then(() => this.#turn());
    });
  }

  async #turn(): Promise<void> {
    try {
      await this.#write();
      const present = startOf(this.#context.ports.clock.wall(), hourMs);
      for (const hour of [...this.#open.keys()]) if (this.#isOn && hour !== present) await this.#closeHour(hour);
    } catch (error) {
      this.#failed(error);
    }
    if (!this.#isOn) return;
    if (this.#begunAt !== null) this.#armFor(minuteMs);
    else if (this.#open.size > 0 || this.#down.size > 0) this.#armFor(hourMs);
  }

  #failed(error: unknown): void {
    this.#context.ports.log.error({ err: error }, 'could not record the history; what was counted is kept');
  }

  /** Adds up what was counted since the last call, and for how long partners were down. */
  #gather(now: number): void {
    for (const [partner, tally] of this.#context.contacts.traffic.take()) this.#add(partner, { ...nothing, ...tally });
    for (const [partner, since] of this.#down) {
      if (now > since) this.#add(partner, { ...nothing, down: (now - since) / 1000 });
      this.#down.set(partner, now);
    }
  }

  /** Writes the minute that has been counted; does nothing while the store refuses. [MAINTAIN-HISTORY-1] */
  async #write(): Promise<void> {
    const { store, ports } = this.#context;
    const now = ports.clock.now();
    this.#gather(now);
    if (this.#counted.size === 0 && this.#begunAt === null) return;
    // The timer of an hour fires at the end of its last minute.
    const begunAt = this.#begunAt ?? ports.clock.wall() - 1;
    this.#begunAt = begunAt;
    if (store.health().state !== 'open' || !store.held()) return;
    const at = startOf(begunAt, minuteMs);
    const counted = this.#counted;
    const points = this.#pointsWith(at, counted, Math.min(now - this.#watchedTo, hourMs) / 1000);
    // What is counted from here on belongs to a later minute.
    this.#counted = new Map();
    this.#begunAt = null;
    try {
      await this.#record('minute', at, counted.size, [minutePut(at, points)]);
    } catch (error) {
      for (const [owner, point] of counted) this.#add(owner, point);
      this.#begunAt = begunAt;
      throw error;
    }
    this.#watchedTo = now;
    this.#keep(at, points);
  }

  /** What is counted, with the point of the hub, and added to what the minute has already. */
  #pointsWith(at: number, counted: ReadonlyMap<string, Point>, watched: number): Map<string, Point> {
    const points = new Map(this.#open.get(startOf(at, hourMs))?.get(at));
    const hub: Point = { ...sumOf(counted.values()), down: 0, watched };
    for (const [owner, point] of [...counted, [hubOwner, hub] as const]) {
      const before = points.get(owner);
      points.set(owner, before ? sumOf([before, point]) : point);
    }
    return points;
  }

  #keep(at: number, points: Map<string, Point>): void {
    const hour = startOf(at, hourMs);
    const minutes: Minutes = this.#open.get(hour) ?? new Map();
    this.#open.set(hour, minutes.set(at, points));
  }

  /** Makes an hour of its minutes. [MAINTAIN-HISTORY-3] */
  async #closeHour(hour: number): Promise<void> {
    const minutes = this.#open.get(hour);
    if (!minutes) return;
    const owners = [...new Set([...minutes.values()].flatMap((points) => [...points.keys()]))];
    for (let from = 0; from < owners.length; from += partnersAtOnce) {
      const some = owners.slice(from, from + partnersAtOnce);
      const puts = await Promise.all(some.map((owner) => this.#hourOf(owner, hour)));
      await this.#record('hour', hour, some.filter((owner) => owner !== hubOwner).length, puts.flat());
    }
    const gone = [...minutes.keys()].map((at) => ({ ...minuteKey(at), gone: true }) as const);
    await this.#record('hour', hour, 0, gone);
    this.#open.delete(hour);
  }

  async #hourOf(owner: string, hour: number): Promise<Put[]> {
    const { store } = this.#context;
    const key = minutesKey(owner, hour);
    const minutes = await this.minutesOf(owner, hour);
    const at = instantText(hour);
    const day = startOf(hour, dayMs);
    const dayKey = daysKey(owner, day);
    const before = await rowData<DayRecord>(store, dayKey);
    const dayAt = instantText(day);
    const hours = {
      ...(before?.at === dayAt && before.hours),
      [(hour - day) / hourMs]: stored(sumOf(minutes.values())),
    };
    const numbered = [...minutes].map(([minute, point]) => [(minute - hour) / minuteMs, stored(point)]);
    return [
      unlisted(key, { at, minutes: Object.fromEntries(numbered) } satisfies HourRecord),
      unlisted(dayKey, { at: dayAt, hours } satisfies DayRecord),
    ];
  }

  /** The minutes of an hour of an owner, by their begin: those of its row, and those that are not in it yet. */
  async minutesOf(owner: string, hour: number): Promise<Map<number, Point>> {
    const open = new Map<number, Point>();
    for (const [at, point] of this.open(owner)) if (startOf(at, hourMs) === hour) open.set(at, point);
    const row = await rowData<HourRecord>(this.#context.store, minutesKey(owner, hour));
    const found = new Map<number, Point>();
    if (row?.at === instantText(hour)) {
      for (const [minute, point] of Object.entries(row.minutes))
        found.set(hour + Number(minute) * minuteMs, pointOf(point));
    }
    for (const [at, point] of open) found.set(at, point);
    return found;
  }

  async #record(step: Step, begin: number, partners: number, puts: readonly Put[]): Promise<void> {
    const { recorder } = this.#context;
    const data = { step, at: instantText(begin), partners };
    const event = { type: 'history.recorded' as const, data };
    const facts = [{ stream, event, party: null }];
    await recorder.record({ facts, puts, trace: null });
  }
}

const minuteKey = (at: number): RowKey => ({ kind: minuteKind, owner: '', id: instantText(at) });

function minutePut(at: number, points: ReadonlyMap<string, Point>): Put {
  const written = [...points].map(([owner, point]) => [owner, stored(point)] as const);
  return unlisted(minuteKey(at), { at: instantText(at), points: Object.fromEntries(written) } satisfies MinuteRecord);
}
