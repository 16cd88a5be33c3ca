/**
 * Reads a partner's list page by page, following `Link` headers with `rel="next"`, and by `offset` where there is no
 * link to follow. [interface, Pagination and Admin pulls; D61, D85]
 *
 * PULL-1  Nothing is thrown: a list that cannot be read completely ends with a `failed` page that states the reason.
 * PULL-2  Reading terminates: no page is requested twice, a page that repeats the one before ends it, and the number of
 *     pages is bounded: by the total over the rows of the first page, plus two, where the partner tells a total, and by `guessedMax` where
 *     pages are guessed. The call may bound pages and bytes.
 * PULL-3  The client's egress guard checks every link, and no link is followed from https to http, or to another
 *     origin: the partner's token stays at the origin of the list.
 * PULL-4  Where the partner tells a total, fewer rows fail the list. A total counts as absent once more rows came: some partners
 *     tell the rows of the page.
 * PULL-5  A list without link, whose total is unknown or that of its page, goes on by `offset` behind a page with just as many rows as
 *     asked for, or as `X-Limit` allows. Such a guessed page fails no list: unless it is empty or names an object that no page before it named,
 *     it is dropped, and the list ends as complete as its total says. An error that says nothing of the list (401, 5xx, no answer in time) leaves
 *     what is behind `unread`. A success without `data` is an empty list, on the first page or where the partner tells a total; it is no
 *     end by which others are deleted.
 * PULL-6  A page of more items than real objects of its size are fails: each item costs the hub, whatever it holds.
 * PULL-7  Where the partner tells a total, a link that it then refuses is left, and the list goes on by `offset`.
 * PULL-8  A page that is throttled (429, or 503 with `Retry-After`) is asked for again after `Retry-After`, but for at most
 *     `throttled.waitMsMax`, up to `throttled.triesMax` times: the next pull would begin at the first page and be throttled, too.
 * PULL-9  An empty page ends a list whose total has come: some partners link to a next page from each. Of a list without a total
 *     `emptyMax` empty pages in a row are followed, since some partners filter after they cut pages; what the last of them links to is
 *     then `unread`.
 */
import { createHash, randomUUID } from 'node:crypto';
import { isRefusal, type Outcome } from '../domain/errors.ts';
import { namedIn } from '../domain/object.ts';
import type { Quirk } from '../domain/quirks.ts';
import type { ListCall, PartnerInspector, PartnerLists, PartnerPage } from '../hub/ports/ports.ts';
import { type Clock, sleep } from '../kit/clock.ts';
import { parsedUrl, resolvedLink } from '../kit/url.ts';
import { envelopeItems, envelopeTime } from '../transport/envelope.ts';
import type { Client, Read } from './client.ts';

/** Timeout per page, ms. */
const timeoutMs = 30_000;
/** Pages per list at most, unless the call bounds them. */
const pagesMax = 10_000;
/** Pages at most of a list that goes on by guesses: it may bring other objects for ever. [PULL-2] */
const guessedMax = 1_000;
const mebibyte = 1024 * 1024;

/** Requests of one page, and the wait before each further one, ms: without `Retry-After`, and at most. [PULL-8] */
const throttled = { triesMax: 10, waitMs: 5_000, waitMsMax: 60_000 };

/** Empty pages in a row at which a list without a total is left. [PULL-9] */
const emptyMax = 10;

/** How far a list was read. */
interface Reading {
  readonly list: ListCall;
  /** URLs of the pages that were requested. */
  readonly seen: Set<string>;
  rows: number;
  firstRows: number;
  bytes: number;
  /** Empty pages in a row, up to the last one. */
  empty: number;
  /** The last `X-Total-Count`; null without one, and once more rows came. [PULL-4] */
  total: number | null;
  /** More rows came than the total of the partner. */
  isTotalWrong: boolean;
  /** Nothing but a full page says that there is the page that is read next. [PULL-5] */
  isGuess: boolean;
  /** Names of the objects, as long as a page may be guessed; an empty one of those that state none. */
  readonly names: Set<string>;
  /** A page had a link to the next. */
  isLinked: boolean;
  /** The partner refused the page that it linked to: no further link is followed. */
  isLinkRefused: boolean;
  /** Digest of the last page. */
  last: string;
}

/** Items in a page of so many characters, at most. The smallest object of OCPI, a token, takes 200. */
const itemsMax = (characters: number): number => 1_000 + characters / 128;

interface Next {
  /** Null when the list is at its end. */
  readonly url: string | null;
  readonly quirk?: Quirk;
  readonly failure?: string;
  readonly isGuess?: true;
}

const failed = (reason: string): PartnerPage => ({ kind: 'failed', reason });

export function partnerLists(client: Pick<Client, 'read'>, clock: Clock): PartnerLists {
  const readOnce = ({ end: _, bounds, ...list }: ListCall, url: string): Promise<Read> =>
    client.read({
      ...list,
      answerMax: bounds?.answerMax,
      method: 'GET',
      url,
      body: null,
      requestId: randomUUID(),
      timeoutMs,
      resend: true,
    });

  /** [PULL-8] */
  async function readPage(list: ListCall, url: string): Promise<Read> {
    for (let tries = 1; ; tries++) {
      const read = await readOnce(list, url);
      const { outcome } = read;
      if (outcome.class !== 'throttled' || tries === throttled.triesMax || list.end.aborted) return read;
      await sleep(clock, Math.min(outcome.retryAfterMs ?? throttled.waitMs, throttled.waitMsMax), list.end);
    }
  }

  async function* pages(list: ListCall): AsyncGenerator<PartnerPage, void, undefined> {
    const none = { rows: 0, firstRows: 0, bytes: 0, empty: 0, total: null, last: '' };
    const flags = { isTotalWrong: false, isGuess: false, isLinked: false, isLinkRefused: false };
    const reading: Reading = { list, seen: new Set(), names: new Set(), ...none, ...flags };
    for (let url: string | null = list.url; url !== null; ) {
      const refusal = refusalOf(reading, url);
      if (refusal !== null) return yield failed(refusal);
      reading.seen.add(parsedUrl(url)?.href ?? url);
      const number = reading.seen.size;
      const { outcome, text, headers } = await readPage(list, url);
      const { isGuess } = reading;
      if (isGuess && !isUsableGuess(reading, outcome, text)) {
        if (!isEndAnswer(outcome)) yield { ...emptyPage, total: reading.total, behind: 'unread', quirks: [] };
        return;
      }
      if (outcome.class !== 'delivered') {
        const instead = insteadOf(reading, outcome);
        if (instead === null || (instead.url !== null && reading.seen.has(instead.url)))
          return yield failed(`page ${number}: ${outcome.class}: ${outcome.message}`);
        reading.isLinkRefused = true;
        // Nothing is behind the link; the quirk is noted all the same.
        if (instead.url === null) yield { ...emptyPage, total: reading.total, quirks: ['refused-next-link'] };
        url = instead.url;
        continue;
      }
      // That of a guessed page may count its own rows, or all up to it.
      const said = (isGuess ? null : totalOf(one(headers['x-total-count']))) ?? reading.total;
      let total = reading.isTotalWrong ? null : said;
      const isLeftOut = (outcome.data ?? null) === null && (number === 1 || total !== null);
      const data = isLeftOut ? [] : outcome.data;
      if (!Array.isArray(data)) return yield failed(`page ${number}: its data is not a list`);
      const { length } = data;
      if (length > itemsMax(text.length)) return yield failed(`page ${number}: ${length} items are no objects of OCPI`);
      const texts = envelopeItems(text);
      const content = digestOf(texts);
      if (texts.length > 0 && content === reading.last) return yield failed(`page ${number} repeats the one before`);
      const isComplete = texts.length === 0 && total !== null && reading.rows >= total;
      reading.empty = texts.length === 0 ? reading.empty + 1 : 0;
      reading.last = content;
      reading.rows += texts.length;
      reading.bytes += Buffer.byteLength(text);
      if (number === 1) reading.firstRows = texts.length;
      if (total !== null && reading.rows > total) {
        reading.isTotalWrong = true;
        total = null;
      }
      reading.total = total;
      const next: Next = isComplete ? { url: null } : afterPage(reading, headers, url, texts.length);
      const isLeft = total === null && reading.empty === emptyMax && next.url !== null;
      const guessed = isGuess && texts.length > 0 ? 'no-next-link' : next.quirk;
      const quirk = reading.isLinkRefused ? 'refused-next-link' : guessed;
      const empty: Quirk[] = isLeftOut ? ['list-without-data'] : [];
      const quirks = [...(outcome.quirks ?? []), ...(quirk ? [quirk] : []), ...empty];
      const isStatedEnd = isAnnounced(reading) || (isGuess && !next.isGuess && texts.length < limitOf(list));
      const isEndKnown = isLeftOut ? total === reading.rows : isStatedEnd;
      const madeAt = number === 1 ? envelopeTime(text) : null;
      const behind = isLeft ? 'unread' : isEndKnown ? 'nothing' : 'unsaid';
      if (!reading.isLinked) for (const item of data) reading.names.add(nameOf(item));
      yield { kind: 'page', texts, total, madeAt, behind, quirks };
      if (next.failure) return yield failed(next.failure);
      url = isLeft ? null : next.url;
      reading.isGuess = next.isGuess === true;
    }
  }

  return { pages };
}

/** Reads one page of a list with all that a check looks at: the objects' texts and the headers of pagination. */
export function partnerInspector(client: Pick<Client, 'read'>): PartnerInspector {
  return {
    async page(call) {
      const { outcome, text, headers } = await client.read(call);
      return {
        outcome,
        texts: outcome.class === 'delivered' ? envelopeItems(text) : [],
        total: one(headers['x-total-count']),
        limit: one(headers['x-limit']),
        next: nextLink(one(headers.link), call.url),
      };
    },
  };
}

/** Why the page is not requested; null when it is. [PULL-2] */
function refusalOf({ list, seen, total, isGuess, firstRows, rows, bytes }: Reading, url: string): string | null {
  if (seen.has(url)) return `the link of page ${seen.size} leads back to a page that was read already`;
  const { bounds } = list;
  if (bounds && bytes >= bounds.bytesMax) return `the list has more than ${bounds.bytesMax / mebibyte} MiB`;
  const bound = Math.min(bounds?.pagesMax ?? pagesMax, isGuess ? guessedMax : Number.POSITIVE_INFINITY);
  const most = total === null ? bound : Math.min(bound, Math.ceil(total / Math.max(firstRows, 1)) + 2);
  if (seen.size === 0 || seen.size < most) return null;
  return total === null ? `the list has more than ${most} pages` : `${rows} of ${total} came in ${seen.size} pages`;
}

/** Whether a guessed page is empty, or names an object that no page before it named. [PULL-5] */
function isUsableGuess({ names }: Reading, { class: met, data }: Outcome, text: string): boolean {
  if (met !== 'delivered' || !Array.isArray(data) || data.length > itemsMax(text.length)) return false;
  return data.length === 0 || data.some((item) => !names.has(nameOf(item)));
}

/** Whether the answer to a guess says that there is no such page, or that the partner does not read `offset`. */
const isEndAnswer = (outcome: Outcome): boolean =>
  outcome.class === 'delivered' || (isRefusal(outcome) && outcome.class !== 'auth_error');

const nameOf = (item: unknown): string => namedIn(item)?.name ?? '';

const emptyPage = { kind: 'page', texts: [], madeAt: null, behind: 'nothing' } as const;

/** What follows in place of a page that was linked to and refused; null when the list cannot go on. [PULL-7] */
function insteadOf({ list, total, rows, isLinked, isLinkRefused }: Reading, outcome: Outcome): Next | null {
  if (!isLinked || isLinkRefused || total === null || !isRefusal(outcome)) return null;
  return { url: rows >= total ? null : atOffset(list.url, rows) };
}

/** What follows a page of so many rows. */
function afterPage(reading: Reading, headers: Read['headers'], url: string, pageRows: number): Next {
  const { list, rows, total } = reading;
  const link = nextLink(one(headers.link), url, reading.seen);
  const next = link === null ? null : resolvedLink(link, url);
  if (link !== null) reading.isLinked = true;
  const isOwn = next !== null && !reading.isLinkRefused && new URL(next).origin === new URL(list.url).origin;
  if (isOwn) return { url: next };
  const quirk = link === null ? 'no-next-link' : next === null ? 'unreadable-next-link' : 'foreign-next-link';
  const limit = Math.min(limitOf(list), totalOf(one(headers['x-limit'])) || Number.POSITIVE_INFINITY);
  const isFull = !reading.isLinked && pageRows === limit && (total === null || total === pageRows);
  if (isFull) return { url: atOffset(list.url, rows), isGuess: true };
  if (total !== null && rows >= total) return { url: null, ...(link !== null && { quirk }) };
  if (total !== null && pageRows > 0) return { url: atOffset(list.url, rows), quirk };
  if (total !== null) return { url: null, failure: `${rows} of ${total}: the list ends before` };
  if (link === null) return { url: null };
  const leads = next === null ? 'is not usable' : 'leads to another origin';
  return { url: null, quirk, failure: `the link of page ${reading.seen.size} ${leads}` };
}

/** Whether the partner tells by headers how far its list goes. */
const isAnnounced = ({ total, isLinked }: Reading): boolean => total !== null || isLinked;

/** Rows of a page that are asked for; infinite without a limit. */
const limitOf = ({ url }: ListCall): number =>
  Number(new URL(url).searchParams.get('limit') ?? Number.POSITIVE_INFINITY);

function digestOf(texts: readonly string[]): string {
  const hash = createHash('sha256');
  for (const text of texts) hash.update(text);
  return hash.digest('base64');
}

/** The list's own URL from a row on. */
function atOffset(url: string, offset: number): string {
  const own = new URL(url);
  own.searchParams.set('offset', String(offset));
  return own.href;
}

/** A header value as one text; repeated headers are joined by commas. */
const one = (value: string | string[] | undefined): string => (Array.isArray(value) ? value.join(', ') : (value ?? ''));

const totalOf = (text: string): number | null => (/^\d{1,15}$/.test(text.trim()) ? Number(text) : null);

const linkValues = /<([^<>]*)>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:"[^"]*"|'[^']*'|[^\s;,"]+))?)*)/g;
const relation = /;\s*rel\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;,"]+))/i;
/** One link without its brackets. */
const unbracketed = /^\s*([^\s;,<>]+)\s*(;[^<>]*)?$/;

/**
 * The target of the link with relation `next` of a page; null when there is none. A link without brackets, or the only one without a
 * relation, counts where it leads to another page of the list.
 */
export function nextLink(header: string, page: string, seen: ReadonlySet<string> = new Set()): string | null {
  const links = [...header.replace(unbracketed, '<$1>$2').matchAll(linkValues)];
  for (const [, target = '', parameters = ''] of links) {
    const [isRelated, ...given] = relation.exec(parameters) ?? [];
    const relations = given
      .find((each) => each !== undefined)
      ?.toLowerCase()
      .split(/\s+/);
    const isNext = relations?.includes('next') || (!isRelated && links.length === 1);
    const isProper = isRelated && header.includes('<');
    if (isNext && (isProper || isOtherPage(target.trim(), page, seen))) return target.trim();
  }
  return null;
}

/** Whether a link leads to the path of the page with a query that was not asked for yet. */
function isOtherPage(link: string, page: string, seen: ReadonlySet<string>): boolean {
  const next = resolvedLink(link, page);
  if (next === null || seen.has(next)) return false;
  const [to, own] = [new URL(next), new URL(page)];
  return to.origin === own.origin && to.pathname === own.pathname && to.search !== '' && to.search !== own.search;
}
