/**
 * Looks up an orphan case in the CPO's own list of sessions or CDRs, and stores what it finds as if the CPO had pushed
 * it. [D36, D52]
 *
 * ORPHAN-LOOKUP-1  The hub stores and forwards the CPO's own text, and stores nothing when the list lacks the object.
 * ORPHAN-LOOKUP-2  The result is one sentence for the case, whatever the CPO answers.
 * ORPHAN-LOOKUP-3  A list is read up to `bounds`, within `lookupMs`: a CPO may link to a further page without an end, and its eMSPs
 *     begin a look-up with each session that they stop.
 */
import type { ObjectModule } from '../../domain/modules.ts';
import { dateMs } from '../../domain/object.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import type { Trace } from '../../domain/trace.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Context } from '../kernel/context.ts';
import { readObject } from '../kernel/row-codecs.ts';
import { type ListOf, nameIn, type SenderLists, unreadPages } from './sender-lists.ts';

/** Margin, ms, before the session's last change and after now: clocks of CPOs differ, and date filters cut sharply. */
const marginMs = 3_600_000;
/** Objects of a page that are read in one turn. */
const readPerTurn = 100;

const mebibyte = 1024 * 1024;
/**
 * The list has what changed since the session did: 40 MiB are some 14,000 objects of 3 KB. A page is parsed in one turn of the event
 * loop, so it has a bound of its own. [ORPHAN-LOOKUP-3]
 */
const bounds = { pagesMax: 1_000, answerMax: 8 * mebibyte, bytesMax: 40 * mebibyte };
const lookupMs = 120_000;

/** For each kind of case the module whose list is read, and the field that holds the session's id. */
const lookedFor: Record<OrphanRecord['kind'], { module: ObjectModule; what: string; sessionField: string }> = {
  stop_without_complete: { module: 'sessions', what: 'the session', sessionField: 'id' },
  complete_without_cdr: { module: 'cdrs', what: 'a CDR of the session', sessionField: 'session_id' },
};

export async function askForEnd(
  context: Context,
  lists: SenderLists,
  record: OrphanRecord,
  trace: Trace,
): Promise<string> {
  const { module } = lookedFor[record.kind];
  const partner = context.directory.partnerOf(record.cpo);
  const refusal = partner ? lists.refusal(partner, module) : `${record.cpo} is not known any more`;
  if (!partner || refusal !== null) return `could not be queried: ${refusal}`;
  const { clock } = context.ports;
  const ends = new AbortController();
  const query = await around(context, record);
  const list: ListOf = { partner, cpo: record.cpo, module, query, trace, bounds, end: ends.signal };
  const timer = clock.setTimeout(() => ends.abort(`it took longer than ${lookupMs / 1000} s`), lookupMs);
  try {
    return await endOf(lists, list, record);
  } finally {
    clock.clearTimeout(timer);
  }
}

async function endOf(lists: SenderLists, list: ListOf, record: OrphanRecord): Promise<string> {
  const { what } = lookedFor[record.kind];
  const pages = lists.read(list);
  for (let page = await pages.next(); page !== null; page = await pages.next()) {
    if (page.kind === 'failed') return `could not be queried: ${page.reason}`;
    const text = await endIn(page.texts, record);
    if (text === undefined && page.behind === 'unread') return `could not be queried: ${unreadPages}`;
    if (text === undefined) continue;
    const taken = await lists.take(list, text, page, true);
    if (taken.result === 'refused') return `pulled, but what the CPO has cannot be used: ${taken.reason}`;
    const { status } = taken.object.facts;
    const found = status === undefined ? `the CPO has ${what}` : `the CPO reports ${status}`;
    return taken.result === 'unchanged' ? `queried: ${found}, which was known` : `queried: ${found}`;
  }
  return `queried: the CPO does not list ${what}`;
}

/** The query for the time in which the CPO last changed the session. */
async function around({ store, ports }: Context, record: OrphanRecord): Promise<string> {
  const session = await readObject(store, 'sessions', record.cpo, record.session.toLowerCase());
  const changedAt = dateMs(session?.lastUpdated ?? record.graceEndsAt);
  const instant = (at: number) => encodeURIComponent(new Date(at).toISOString());
  const from = Math.min(changedAt, ports.clock.wall()) - marginMs;
  return `date_from=${instant(from)}&date_to=${instant(ports.clock.wall() + marginMs)}`;
}

/** The object of the case; reads the texts in several turns of the event loop. */
async function endIn(texts: readonly string[], record: OrphanRecord): Promise<string | undefined> {
  for (const [at, text] of texts.entries()) {
    if (at % readPerTurn === readPerTurn - 1) await nextTurn();
    if (isOfCase(text, record)) return text;
  }
  return undefined;
}

function isOfCase(text: string, { kind, cpo, session }: OrphanRecord): boolean {
  if (nameIn(text)?.owner !== cpo) return false;
  const value = (JSON.parse(text) as Record<string, unknown>)[lookedFor[kind].sessionField];
  return typeof value === 'string' && value.toLowerCase() === session.toLowerCase();
}
