/**
 * The report of a partner: what it pushed wrongly, what the hub makes up for, and which deliveries from it and to it
 * are dead. [D69, D70, D86]
 */
import type { Seq, Store } from '../../../storage/contract.ts';
import type { RefusedView, ReportView } from '../../api/report.ts';
import { deliveryId, type ObjectEventData } from '../../domain/events.ts';
import { sourceOf } from '../../domain/habits.ts';
import type { ObjectModule } from '../../domain/modules.ts';
import { choicesOf } from '../../domain/partner-settings.ts';
import { keyOf, type PartyId } from '../../domain/party.ts';
import { noTallies, type RefusedRecord, type Tallies, type Tally } from '../../domain/report.ts';
import type { DeliveryMemory } from '../delivery/delivery-row.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { deadRows } from '../delivery/outbox-writer.ts';
import type { Context } from '../kernel/context.ts';
import { rowData } from '../kernel/row-codecs.ts';
import { type PartnerReports, refusalsOf, reportKey } from '../partners/reports.ts';

type DeadGroup = ReportView['dead_letters'][number];

/** Throws `notFound`. */
export async function reportOf(
  context: Context,
  outbound: Pick<Dispatcher, 'unwritten'>,
  reports: Pick<PartnerReports, 'flush'>,
  id: string,
): Promise<ReportView> {
  const partner = context.directory.known(id);
  await reports.flush(partner.id);
  const [refused, tallies, dead_letters] = await Promise.all([
    refusalsOf(context, partner.id),
    rowData<Tallies>(context.store, reportKey(partner.id)),
    deadLetters(context, outbound, new Set(partner.roles.map(keyOf))),
  ]);
  const { warnings, quirks } = tallies ?? noTallies;
  const settings = choicesOf(partner.settings);
  return {
    refused: refused.map(({ data, body }) => refusedView(data as RefusedRecord, body ?? '')),
    warnings: seen(warnings).map(({ name: field, ...one }) => ({ ...one, field })),
    quirks: seen(quirks).map(({ name: quirk, ...one }) => ({ ...one, quirk, source: sourceOf(quirk, settings) })),
    dead_letters,
  };
}

function refusedView(record: RefusedRecord, body: string): RefusedView {
  const { module, method, path, object, reason, code, count, firstAt: first_at, lastAt: last_at } = record;
  return { module, method, path, object, reason, code, count, first_at, last_at, body };
}

/** Most first; a key is a module and a name. */
function seen(tallies: Readonly<Record<string, Tally>>) {
  const all = Object.entries(tallies).map(([key, { firstAt: first_at, lastAt: last_at, ...tally }]) => {
    const [module = '', name = ''] = key.split(' ', 2);
    return { module, name, ...tally, first_at, last_at };
  });
  return all.sort((a, b) => b.count - a.count);
}

/** Dead letters that these parties sent or should have received, by receiver, sender, module and reason. */
async function deadLetters(
  context: Context,
  outbound: Pick<Dispatcher, 'unwritten'>,
  own: ReadonlySet<PartyId>,
): Promise<DeadGroup[]> {
  const groups = new Map<string, DeadGroup>();
  for await (const row of deadRows(context, outbound.unwritten())) {
    const { dest: receiver, data, seq } = row;
    const { module, class: met, reason, sender = await senderOf(context.store, seq) } = data as DeliveryMemory;
    if (!own.has(receiver) && !own.has(sender)) continue;
    const key = JSON.stringify([receiver, sender, module, met, reason]);
    const before = groups.get(key);
    groups.set(key, {
      receiver,
      sender,
      module: module as ObjectModule,
      class: met ?? 'unknown',
      reason: reason ?? '',
      count: (before?.count ?? 0) + 1,
      sample: before?.sample ?? deliveryId(receiver, row),
    });
  }
  return [...groups.values()].sort((a, b) => b.count - a.count);
}

/** For a row of an earlier version, which does not name the sender; empty when the event is no longer in the log. */
async function senderOf(store: Store, seq: Seq): Promise<PartyId> {
  const event = await store.event(seq);
  return event === null ? '' : (event.data as ObjectEventData).owner;
}
