/**
 * Looks up orphan cases in the CPO's own list of sessions or CDRs, and stores what it finds as if the CPO had pushed
 * it. [D36, D52]
 *
 * ORPHAN-LOOKUP-1  The hub stores and forwards the CPO's own text, and stores nothing when the list lacks the object.
 * ORPHAN-LOOKUP-2  The result is one sentence for the case, whatever the CPO answers.
 * ORPHAN-LOOKUP-3  A list is read up to `bounds`, within `lookupMs`: a CPO may link to a further page without an end, and its eMSPs
 *     begin a look-up with each session that they stop.
 * ORPHAN-LOOKUP-4  One list of a CPO is read at a time. It also answers the cases that wait meanwhile and whose time it covers, as far as it is
 *     read; a failure answers only the case whose turn it is, since the others may need less of the list.
 */

import type { OrphanKind, Trace } from '../../domain/events.ts';
import { secondText } from '../../domain/instant.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import { dateMs } from '../../domain/object.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import { hourMs } from '../../kit/clock.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Taken } from '../exchange/ingest.ts';
import type { Context } from '../kernel/context.ts';
import { readObject } from '../kernel/row-codecs.ts';
import { type ListOf, nameIn, type Refused, type SenderLists, unreadPages } from './sender-lists.ts';

/** Margin, ms, before the session's last change and after now: clocks of CPOs differ, and date filters cut sharply. */
const marginMs = hourMs;
/** Objects of a page that are read in one turn. */
const readPerTurn = 100;

const mebibyte = 1024 * 1024;
/**
 * The list has what changed since the session did: 40 MiB are some 14,000 objects of 3 KB. A page is parsed in one turn of the event
 * loop, so it has a bound of its own. [ORPHAN-LOOKUP-3]
 */
const bounds = { pagesMax: 1_000, answerMax: 8 * mebibyte, bytesMax: 40 * mebibyte };
const lookupMs = 120_000;
/** Cases that one reading answers: for each of them a session is read. */
const answeredMax = 100;

/** For each kind of case the module whose list is read, and the field that holds the session's id. */
const lookedFor: Record<OrphanKind, { module: ObjectModule; what: string; sessionField: string }> = {
  stop_without_complete: { module: 'sessions', what: 'the session', sessionField: 'id' },
  complete_without_cdr: { module: 'cdrs', what: 'a CDR of the session', sessionField: 'session_id' },
};

/** A case whose CPO is to be queried. */
interface Asked {
  readonly record: OrphanRecord;
  readonly isOpen: () => boolean;
  /** One sentence; null before the list was read. */
  note: string | null;
}

export class OrphanLookup {
  readonly #context: Context;
  readonly #lists: SenderLists;
  /** In the order of their turns. */
  readonly #asked = new Set<Asked>();

  constructor(context: Context, lists: SenderLists) {
    this.#context = context;
    this.#lists = lists;
  }

  /** Waits for the turn of the case; null when it is not open then. [ORPHAN-LOOKUP-4] */
  async askForEnd(record: OrphanRecord, trace: Trace, isOpen: () => boolean): Promise<string | null> {
    const asked: Asked = { record, isOpen, note: null };
    this.#asked.add(asked);
    const answer = async () => {
      if (!isOpen()) return null;
      const failure = asked.note === null ? await this.#lookUp(asked, trace) : null;
      return asked.note ?? `could not be queried: ${failure}`;
    };
    try {
      return await this.#context.recorder.inTurn(`orphan-pull:${record.cpo}`, answer);
    } finally {
      this.#asked.delete(asked);
    }
  }

  /** Why the list could not be read to its end; null when it was. */
  async #lookUp(asked: Asked, trace: Trace): Promise<string | null> {
    const { cpo, kind } = asked.record;
    const { module } = lookedFor[kind];
    const { clock } = this.#context.ports;
    const partner = this.#context.directory.partnerOf(cpo);
    if (!partner) return `${cpo} is not known any more`;
    const refusal = this.#lists.refusal(partner, module);
    if (refusal !== null) return refusal;
    const ends = new AbortController();
    const from = await this.#changedAt(asked.record);
    const sought = await this.#coveredFrom(from, asked);
    const list: ListOf = { partner, cpo, module, query: around(from, clock.wall()), trace, bounds, end: ends.signal };
    const timer = clock.setTimeout(() => ends.abort(`it took longer than ${lookupMs / 1000} s`), lookupMs);
    try {
      return await this.#read(list, kind, sought);
    } finally {
      clock.clearTimeout(timer);
    }
  }

  /** By their session, the case and those that wait for the same list and need no more of it. */
  async #coveredFrom(from: number, asked: Asked): Promise<Map<string, Asked>> {
    const { cpo, kind } = asked.record;
    const isWaiting = ({ record, isOpen, note }: Asked) =>
      record.cpo === cpo && record.kind === kind && note === null && isOpen();
    const covered = new Map<string, Asked>();
    for (const other of [...this.#asked].filter(isWaiting).slice(0, answeredMax)) {
      if (other !== asked) await nextTurn();
      if (other === asked || (await this.#changedAt(other.record)) >= from)
        covered.set(other.record.session.toLowerCase(), other);
    }
    return covered;
  }

  async #read(list: ListOf, kind: OrphanKind, sought: Map<string, Asked>): Promise<string | null> {
    const { what } = lookedFor[kind];
    const pages = this.#lists.read(list);
    while (sought.size > 0) {
      const page = await pages.next();
      if (page?.kind === 'failed') return page.reason;
      if (page === null) break;
      for await (const [asked, text] of endsIn(page.texts, list, kind, sought))
        asked.note = noteOf(await this.#lists.take(list, text, page, true), what);
      if (page.behind === 'unread' && sought.size > 0) return unreadPages;
    }
    for (const asked of sought.values()) asked.note = `queried: the CPO does not list ${what}`;
    return null;
  }

  /** When the CPO last changed the session of the case; at most now. */
  async #changedAt(record: OrphanRecord): Promise<number> {
    const { store, ports } = this.#context;
    const session = await readObject(store, 'sessions', record.cpo, record.session.toLowerCase());
    return Math.min(dateMs(session?.lastUpdated ?? record.graceEndsAt), ports.clock.wall());
  }
}

function around(from: number, to: number): string {
  const instant = (at: number) => encodeURIComponent(secondText(at));
  return `date_from=${instant(from - marginMs)}&date_to=${instant(to + marginMs)}`;
}

function noteOf(taken: Taken | Refused, what: string): string {
  if (taken.result === 'refused') return `pulled, but what the CPO has cannot be used: ${taken.reason}`;
  const { status } = taken.object.facts;
  const found = status === undefined ? `the CPO has ${what}` : `the CPO reports ${status}`;
  return taken.result === 'unchanged' ? `queried: ${found}, which was known` : `queried: ${found}`;
}

/** The objects of the cases, which are sought no more then; reads the texts in several turns of the event loop. */
async function* endsIn(texts: readonly string[], { cpo }: ListOf, kind: OrphanKind, sought: Map<string, Asked>) {
  for (const [at, text] of texts.entries()) {
    if (at % readPerTurn === readPerTurn - 1) await nextTurn();
    if (nameIn(text)?.owner !== cpo) continue;
    const value = (JSON.parse(text) as Record<string, unknown>)[lookedFor[kind].sessionField];
    const session = typeof value === 'string' ? value.toLowerCase() : '';
    const asked = sought.get(session);
    if (asked && sought.delete(session)) yield [asked, text] as const;
  }
}
