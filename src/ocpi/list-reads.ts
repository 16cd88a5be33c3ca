/**
 * Remembers the pages of lists that partners were answered: for those that count offsets and do not follow the links,
 * and to find those that take the link to the page before for the next one.
 *
 * LIST-READS-1  A request without a cursor, at the offset where an answered page ended and more followed, gets what follows
 *     the last item of that page, as by the next link: each item updated or deleted meanwhile has moved the later ones to
 *     lower offsets, and a partner that counts offsets would skip as many. [D32] Only a hub of one node does so: other
 *     nodes answer pages of which this one does not know.
 * LIST-READS-2  A page ends by its items, and by the limit that the partner wrote where that is more: some partners add
 *     theirs to the offset although `X-Limit` is lower. The latter counts only for a partner that asked for such an
 *     offset next, and for none that asked for the one by the items. Behind a full page both are one offset, which says nothing of
 *     the partner.
 * LIST-READS-3  A partner goes backward when it asks twice for the page before the last within `soonMs` of the last, and
 *     began the list again in between neither by its filters nor by its first page. One that reads a list of two pages
 *     again without a pause, from an `offset=0` that it writes out, looks the same.
 * LIST-READS-4  Memory is bounded: of a partner and module the last list alone is remembered, with its last `endsMax`
 *     ends of pages for `endMs` each. A request for the first page begins the list again.
 */
import type { PartyId } from '../domain/party.ts';
import type { Clock } from '../kit/clock.ts';
import { keepNewest } from '../kit/memo.ts';
import { type CursorPosition, type Page, type PageFound, previousOffset } from '../transport/pagination.ts';

/** Within which a link is followed, ms: a later request is rather one that begins again. */
const soonMs = 60_000;
/** A reader may go back once. */
const timesMin = 2;
/** A page whose answer was lost is asked for again, and some partners ask for several pages at a time. */
const endsMax = 32;
/** How long a partner may take for a page, ms: an older end may be that of a read before. */
const endMs = 600_000;

/** Who reads which list. */
export interface ListReader {
  readonly partner: string;
  readonly party: PartyId;
  /** The counterpart that the request names. */
  readonly to: PartyId | undefined;
  readonly module: string;
}

type Counted = NonNullable<Page['continues']>;

/** Where a page ended. */
interface End {
  readonly last: CursorPosition;
  /** What the offset counts. */
  readonly by: Counted;
  /** The limit that the partner wrote for that page, else the default one. */
  readonly wanted: number;
  readonly at: number;
}

interface Read {
  readonly list: string;
  /** By the offset that follows, in the order in which they were noted. */
  readonly ends: Map<number, End>;
  /** What its offsets count, once it has asked for one where a page ended. [LIST-READS-2] */
  counts: Exclude<Counted, 'both'> | undefined;
  /** The end by its limit of the page that was answered last, until the next request; else null. */
  next: number | null;
  /** Page size of the last request. */
  limit: number;
  /** Offset of the page before, when the last page was answered; else null. */
  before: number | null;
  at: number;
  /** How often it went back from the last page. */
  times: number;
}

const nameOf = ({ partner, module }: ListReader) => `${partner} ${module}`;
const listOf = ({ party, to }: ListReader, page: Page) => JSON.stringify([party, to, page.filters]);

export class ListReads {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #isAlone: boolean;
  readonly #reads = new Map<string, Read>();

  /** `isAlone`: no other node answers lists of this hub. */
  constructor({ clock, isAlone }: { readonly clock: Pick<Clock, 'now'>; readonly isAlone: boolean }) {
    this.#clock = clock;
    this.#isAlone = isAlone;
  }

  /** The page that is asked for, from where the one that it continues ended. [LIST-READS-1] */
  continued(reader: ListReader, page: Page): Page {
    const { request } = page;
    const { offset } = request;
    const read = this.#reads.get(nameOf(reader));
    if (read?.list !== listOf(reader, page) || request.after) return page;
    const { next } = read;
    read.next = null;
    if (offset === 0) {
      read.ends.clear();
      read.counts = undefined;
    }
    const end = read.ends.get(offset);
    if (!end || this.#clock.now() - end.at > endMs) return page;
    const { by, wanted, last } = end;
    if (by === 'limits' && wanted !== page.wanted) return page;
    if (by === 'items') read.counts = by;
    else if (by === 'limits' && next === offset) read.counts ??= by;
    const isContinued = by === 'both' || by === read.counts;
    return isContinued ? { ...page, request: { ...request, after: last }, continues: by } : page;
  }

  /** Notes a page that the partner is answered; true when it went back again. [LIST-READS-3] */
  answered(reader: ListReader, page: Page, found: PageFound): boolean {
    const { request, hasOffset, continues } = page;
    const { offset, limit } = request;
    const at = this.#clock.now();
    const read = this.#readOf(reader, page);
    const isAlike = read.limit === limit;
    const isByOffset = hasOffset && (!request.after || continues !== undefined);
    const isBack = isByOffset && isAlike && read.before === offset && at - read.at <= soonMs;
    const begins = !isAlike || (offset === 0 && !isBack);
    read.times = (begins ? 0 : read.times) + (isBack ? 1 : 0);
    read.before = found.isLast ? previousOffset(page, found) : null;
    read.limit = limit;
    read.at = at;
    if (this.#isAlone && found.last && !found.isLast) noteEnds(read, page, { ...found, last: found.last }, at);
    return isBack && read.times >= timesMin;
  }

  #readOf(reader: ListReader, page: Page): Read {
    const list = listOf(reader, page);
    const known = this.#reads.get(nameOf(reader));
    if (known?.list === list) return known;
    const none = { counts: undefined, next: null, limit: -1, before: null, at: 0, times: 0 };
    const read: Read = { list, ends: new Map<number, End>(), ...none };
    this.#reads.set(nameOf(reader), read);
    return read;
  }
}

/** Notes where a page ended that others follow. [LIST-READS-2] */
function noteEnds(read: Read, page: Page, { count, last }: { count: number; last: CursorPosition }, at: number): void {
  const { request, wanted, hasLimit } = page;
  const note = (by: Counted, rows: number) =>
    keepNewest(read.ends, request.offset + rows, { last, by, wanted, at }, endsMax);
  note(hasLimit && wanted === count ? 'both' : 'items', count);
  if (!hasLimit || wanted <= count) return;
  read.next = request.offset + wanted;
  note('limits', wanted);
}
