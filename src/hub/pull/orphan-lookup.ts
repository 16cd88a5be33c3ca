/**
 * Asks a CPO what became of the session of a case, and stores its answer as a push of it would be. [D36, D52]
 *
 * ORPHAN-LOOKUP-1  What is stored and forwarded is the CPO's own text; where it says nothing, nothing is stored.
 * ORPHAN-LOOKUP-2  What came of it is one sentence for the case, whatever the CPO did.
 */
import type { ObjectModule } from '../../domain/object.ts';
import { sortableDate } from '../../domain/object.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import type { Trace } from '../../domain/trace.ts';
import type { Context } from '../kernel/context.ts';
import { readObject } from '../kernel/row-codecs.ts';
import { type ListOf, nameIn, type SenderLists } from './sender-lists.ts';

/** Around the session's last known change: clocks of CPOs differ, and filters cut sharply. */
const marginMs = 3_600_000;

/** Where a case looks for its end, and by which field it knows it. */
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
  const { module, what } = lookedFor[record.kind];
  const partner = context.directory.partnerOf(record.cpo);
  const refusal = partner ? lists.refusal(partner, module) : `${record.cpo} is not known any more`;
  if (!partner || refusal !== null) return `could not be pulled: ${refusal}`;
  const list: ListOf = { partner, module, query: await around(context, record), trace };
  const pages = lists.read(list);
  for (let page = await pages.next(); page !== null; page = await pages.next()) {
    if (page.kind === 'failed') return `could not be pulled: ${page.reason}`;
    const text = page.texts.find((one) => isOfCase(one, record));
    if (text === undefined) continue;
    const taken = await lists.take(list, text, page, true);
    if (taken.result === 'refused') return `pulled, but what the CPO has cannot be used: ${taken.reason}`;
    const { status } = taken.object.facts;
    const found = status === undefined ? `the CPO has ${what}` : `the CPO reports ${status}`;
    return taken.result === 'unchanged' ? `pulled: ${found}, which was known` : `pulled: ${found}`;
  }
  return `pulled: the CPO's list does not have ${what}`;
}

/** The time in which the CPO changed the session last. */
async function around({ store, ports }: Context, record: OrphanRecord): Promise<string> {
  const session = await readObject(store, 'sessions', record.cpo, record.session.toLowerCase());
  const sortable = sortableDate(session?.lastUpdated ?? record.graceEndsAt) ?? '';
  const changedAt = Date.parse(`${sortable.slice(0, 23)}Z`);
  const instant = (at: number) => encodeURIComponent(new Date(at).toISOString());
  const from = Math.min(changedAt, ports.clock.now()) - marginMs;
  return `date_from=${instant(from)}&date_to=${instant(ports.clock.now() + marginMs)}`;
}

function isOfCase(text: string, { kind, cpo, session }: OrphanRecord): boolean {
  if (nameIn(text)?.owner !== cpo) return false;
  const value = (JSON.parse(text) as Record<string, unknown>)[lookedFor[kind].sessionField];
  return typeof value === 'string' && value.toLowerCase() === session.toLowerCase();
}
