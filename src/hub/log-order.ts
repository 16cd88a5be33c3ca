/**
 * The logs of all shards as one, by time: the instants that events bear, then their places. Within a shard the order of the log holds,
 * whatever the clocks of nodes say.
 *
 * O1  Where somebody has come to is a sequence for each shard, so that what is read on from there is each event once, and all of them.
 * O2  As text these are `s` and the sequences by shard, in base 36 between hyphens; in a store of one shard the sequence is all there is
 *     to say.
 */
import type { Range, Seq, Shard, Store, StoredEvent } from '../../storage/contract.ts';
import { HubError } from '../domain/errors.ts';

/** More events than a shard will ever have; with 256 shards a place is still a safe integer. */
const span = 2 ** 44;

/** An event in one number: its sequence, and above it the shard. */
export const placeOf = ({ shard, seq }: Pick<StoredEvent, 'shard' | 'seq'>): number => shard * span + seq;

export function readPlace(place: number): { readonly shard: Shard; readonly seq: Seq } {
  return { shard: Math.floor(place / span), seq: place % span };
}

/** The part of one shard between two places, both included. Null: of every shard all. Refuses places of two shards. */
export function between(store: Store, first?: number, last?: number): Range | null {
  const place = first ?? last;
  if (place === undefined) return null;
  const shard = hasOneShard(store) ? 0 : readPlace(place).shard;
  const low = placeOf({ shard, seq: 0 });
  const high = placeOf({ shard: shard + 1, seq: 0 }) - 1;
  if (!hasOneShard(store) && readPlace(last ?? place).shard !== shard) {
    const message = 'from_seq and to_seq are of different shards: give a range of one, or from and to';
    throw new HubError('invalid', { message });
  }
  return { shard, after: (first ?? low + 1) - 1 - low, upTo: (last ?? high) - low };
}

/** By shard; one that is not there is at its beginning. */
export type Positions = ReadonlyMap<Shard, Seq>;

const hasOneShard = (store: Store): boolean => Object.keys(store.health().heads).length === 1;

/** [O2] */
export type LogPosition = number | string;

export function writePositions(store: Store, positions: Positions): LogPosition {
  if (hasOneShard(store)) return positions.get(0) ?? 0;
  const length = Math.max(-1, ...[...positions].flatMap(([shard, seq]) => (seq > 0 ? [shard] : []))) + 1;
  return `s${Array.from({ length }, (_, shard) => (positions.get(shard) || '').toString(36)).join('-')}`;
}

export async function readPositions(store: Store, text: LogPosition): Promise<Positions> {
  if (!hasOneShard(store) && /^s([0-9a-z]{0,9}-){0,255}[0-9a-z]{0,9}$/.test(`${text}`)) {
    const seqs = `${text}`.slice(1).split('-');
    return new Map(seqs.flatMap((seq, shard) => (seq === '' ? [] : [[shard, Number.parseInt(seq, 36)]])));
  }
  const place = cursorSeq(`${text}`);
  return hasOneShard(store) || place === 0 ? new Map([[0, place]]) : behind(store, place);
}

export function cursorSeq(cursor: string): Seq {
  if (!/^\d{1,16}$/.test(cursor)) throw new HubError('invalid', { message: 'cursor: not one of ours' });
  return Number(cursor);
}

/** Where the logs stood when an event was recorded, by the instants that theirs bear. */
async function behind(store: Store, place: number): Promise<Positions> {
  const { shard: own, seq: at } = readPlace(place);
  const event = await store.event(own, at);
  if (!event) throw new HubError('invalid', { message: `there is no event ${place}, or no longer` });
  const found = new Map<Shard, Seq>([[own, at]]);
  let open = [...(await store.heads())].flatMap(([shard, head]) => {
    const low = store.horizon(shard);
    found.set(shard, shard === own ? at : low);
    return shard === own || head <= low ? [] : [{ shard, low, high: head }];
  });
  while (open.length > 0) {
    const middle = open.map(({ shard, low, high }) => ({ shard, after: Math.ceil((low + high) / 2) - 1 }));
    const looked = await store.ranges(middle.map((one) => ({ ...one, upTo: one.after + 1 })));
    const later = new Set(looked.flatMap((one) => (compare(one, event) > 0 ? [one.shard] : [])));
    open = open.flatMap(({ shard, low, high }) => {
      const half = Math.ceil((low + high) / 2);
      const next = later.has(shard) ? { shard, low, high: half - 1 } : { shard, low: half, high };
      found.set(shard, next.low);
      return next.low < next.high ? [next] : [];
    });
  }
  return found;
}

function compare(a: StoredEvent, b: StoredEvent): number {
  return a.at === b.at ? placeOf(a) - placeOf(b) : a.at < b.at ? -1 : 1;
}

/** Events read in one step; as many steps as one request may take. */
const step = 500;
const stepsMax = 40;

/** What is looked at in one shard: stretches in the order of reading, and of them what was read. */
interface Leg {
  readonly shard: Shard;
  left: readonly Range[];
  /** Read, and wanted. */
  readonly found: StoredEvent[];
  /** The last one that was read. */
  reached: StoredEvent | null;
}

/** Nothing of it comes before this. */
const comesTo = ({ found: [event], reached }: Leg): StoredEvent | null => event ?? reached;

/** Reads stretches of many shards, a few events of each at first and more where more are wanted. */
export class Merge {
  readonly #store: Store;
  readonly #sign: 1 | -1;
  readonly #fits: (event: StoredEvent) => boolean;
  readonly #legs: readonly Leg[];
  #steps = 0;

  /** `ranges`: of each shard in the order of reading. */
  constructor(
    store: Store,
    ranges: Iterable<Range>,
    order: 'oldest' | 'newest',
    fits: (event: StoredEvent) => boolean,
  ) {
    const legs = new Map<Shard, Range[]>();
    for (const { shard, after, upTo } of ranges) {
      const kept = { shard, after: Math.max(after, store.horizon(shard)), upTo };
      if (kept.after >= upTo) continue;
      const before = legs.get(shard);
      if (before) before.push(kept);
      else legs.set(shard, [kept]);
    }
    this.#store = store;
    this.#sign = order === 'oldest' ? 1 : -1;
    this.#fits = fits;
    this.#legs = [...legs].map(([shard, left]) => ({ shard, left, found: [], reached: null }));
  }

  /** The next one; null: there is none, or so much was looked at that somebody else goes first. `wanted`: with it, so many more. */
  async next(wanted: number): Promise<StoredEvent | null> {
    for (;;) {
      let first: Leg | null = null;
      for (const leg of this.#legs) {
        const isOver = leg.found.length === 0 && leg.left.length === 0;
        if (!isOver && (!first || this.#order(comesTo(leg), comesTo(first)) < 0)) first = leg;
      }
      const event = first?.found.shift();
      if (event || !first || this.#steps === stepsMax) return event ?? null;
      await this.#readOn(wanted);
    }
  }

  /** The next event to look at in each shard that has not come to its end. */
  rest(): Positions {
    return new Map(
      this.#legs.flatMap(({ shard, left: [range], found: [event] }) => {
        if (event) return [[shard, event.seq]];
        return range ? [[shard, this.#sign === 1 ? range.after + 1 : range.upTo]] : [];
      }),
    );
  }

  /** What was not read yet comes before everything that was. */
  #order(a: StoredEvent | null, b: StoredEvent | null): number {
    if (!a || !b) return (a ? 1 : 0) - (b ? 1 : 0);
    return this.#sign * compare(a, b);
  }

  async #readOn(wanted: number): Promise<void> {
    const legs = this.#short(wanted);
    const each = Math.ceil(step / legs.length);
    const pieces = legs.flatMap((leg) => this.#take(leg, each));
    const events = await this.#store.ranges(pieces);
    if (this.#sign === -1) events.reverse();
    const byShard = new Map(legs.map((leg) => [leg.shard, leg]));
    for (const event of events) {
      const leg = byShard.get(event.shard);
      if (!leg) continue;
      leg.reached = event;
      if (this.#fits(event)) leg.found.push(event);
    }
    this.#steps += 1;
  }

  /**
   * Those that may hold some of the events that are wanted. While nobody knows how far back these stand, those that have come the least
   * far, and each time half as many.
   */
  #short(wanted: number): Leg[] {
    const open = this.#legs.filter(({ left }) => left.length > 0).sort((a, b) => this.#order(a.reached, b.reached));
    const last = this.#legs
      .flatMap(({ found }) => found)
      .sort((a, b) => this.#order(a, b))
      .at(wanted - 1);
    const short = last ? open.filter(({ reached }) => this.#order(reached, last) < 0) : [];
    return short.length > 0 ? short : open.slice(0, Math.ceil(open.length / 2 ** this.#steps));
  }

  /** The next so many events of a shard. */
  #take(leg: Leg, count: number): Range[] {
    const taken: Range[] = [];
    const left = [...leg.left];
    for (let room = count; room > 0; ) {
      const range = left.shift();
      if (!range) break;
      const { shard, after, upTo } = range;
      const most = Math.min(room, upTo - after);
      const [first, rest] =
        this.#sign === 1
          ? [
              { shard, after, upTo: after + most },
              { shard, after: after + most, upTo },
            ]
          : [
              { shard, after: upTo - most, upTo },
              { shard, after, upTo: upTo - most },
            ];
      taken.push(first);
      if (rest.after < rest.upTo) left.unshift(rest);
      room -= most;
    }
    leg.left = left;
    return taken;
  }
}
