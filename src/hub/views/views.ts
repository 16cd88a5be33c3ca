/**
 * Read models for operators: deliveries, events, commands, cases, pulls and quarantine, read from the log and its rows.
 */
import type { Row, StoredEvent } from '../../../storage/contract.ts';
import type { AuditEntry, AuditFilter } from '../../api/audit.ts';
import type { CommandFilter, CommandView } from '../../api/commands.ts';
import type { Page, TriageView } from '../../api/common.ts';
import type { DeadGroup, DeliveryView, Unforwarded, UnforwardedFilter } from '../../api/deliveries.ts';
import type { OrphanView } from '../../api/orphans.ts';
import type { PullFilter, PullView, QuarantineView } from '../../api/pulls.ts';
import { type CommandRecord, shownState } from '../../domain/command.ts';
import { HubError } from '../../domain/errors.ts';
import { deliveryId, type ObjectEventData, owedTo, readDeliveryId } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import { ownedModules } from '../../domain/modules.ts';
import { objectName } from '../../domain/object.ts';
import type { OrphanRecord } from '../../domain/orphan.ts';
import { isOfPair, keyOf, namesEither, type PartyId } from '../../domain/party.ts';
import type { PullRecord, QuarantineRecord } from '../../domain/pull.ts';
import { nameOfGroup, type Triage } from '../../domain/triage.ts';
import { DeadCounts, type DeadGroupCount } from '../delivery/dead-counts.ts';
import { presentRequest } from '../delivery/delivery-request.ts';
import type { DeliveryMemory } from '../delivery/delivery-row.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { type DeliveryStanding, deadRows } from '../delivery/outbox-writer.ts';
import type { Context } from '../kernel/context.ts';
import { changeBy, type TimeBounds } from '../kernel/log-reads.ts';
import { keptShelves, objectFromRow, rowData } from '../kernel/row-codecs.ts';
import type { DeadGroups } from '../maintain/dead-groups.ts';
import type { DeliveryDetail, PageRequest } from '../ports/operator.ts';
import { deliveryLists } from './deliveries.ts';
import { eventView, eventViews } from './events.ts';
import { notOurs, readCursor } from './log-walk.ts';

/** Rows that a filtered page examines, and rows per read: more would delay other requests. */
const examinedMax = 5_000;
const examinedStep = 500;

export function views(context: Context, outbound: Dispatcher, triaged: Pick<DeadGroups, 'triages'>) {
  const { store } = context;
  const rolesOf = (partner: PartyId) => context.directory.partner(partner)?.roles.map(keyOf) ?? [];

  async function deliveryView(event: StoredEvent, receiver: PartyId): Promise<DeliveryView> {
    return shown(event, receiver, await outbound.standing(receiver, event.seq));
  }

  function shown(event: StoredEvent, receiver: PartyId, { row, state }: DeliveryStanding): DeliveryView {
    const data = event.data as ObjectEventData;
    const memory = row?.data as DeliveryMemory | undefined;
    return {
      id: deliveryId(receiver, event),
      state,
      receiver,
      sender: data.owner,
      module: data.module,
      object: objectName(data),
      method: memory?.whole ? 'PUT' : (owedTo(data, receiver)?.method ?? data.method),
      seq: event.seq,
      correlation_id: event.correlationId,
      accepted_at: event.at,
      due_at: memory?.due ?? null,
      class: memory?.class ?? memory?.attempts.at(-1)?.class ?? null,
      reason: memory?.reason ?? null,
      attempts: memory?.attempts ?? [],
    };
  }

  async function delivery(id: string): Promise<DeliveryDetail> {
    const { seq = 0, receiver = '' } = readDeliveryId(id) ?? {};
    const event = seq ? await store.event(seq) : null;
    const standing = event && (await outbound.standing(receiver, seq));
    if (!standing || (!event.to.includes(receiver) && !standing.row)) throw new HubError('notFound');
    const change = await changeBy(store, event, {
      receiver,
      isDelivered: async (earlier) => (await outbound.standing(receiver, earlier)).state === 'DELIVERED',
    });
    const request = presentRequest(
      context.directory,
      event,
      await outbound.wholes.requestOf(event, receiver, standing.row),
      receiver,
    );
    return { ...shown(event, receiver, standing), request, change };
  }

  /** Of a quarantined store nothing was counted at the start. */
  async function deadCounts(): Promise<DeadGroupCount[]> {
    if (store.health().state !== 'quarantined') return outbound.deadGroups();
    const counts = new DeadCounts();
    for await (const row of deadRows(context, outbound.unwritten())) counts.add(row);
    return [...counts.groups()];
  }

  async function deadGroups(assignee: string | null): Promise<DeadGroup[]> {
    const triages = await triaged.triages();
    const groups = (await deadCounts()).map(({ first, oldest, newest, ...group }): DeadGroup => {
      const triage = triages.get(nameOfGroup(group));
      const [oldest_at, newest_at] = [instantText(oldest), instantText(newest)];
      const sample = deliveryId(group.receiver, { seq: first });
      return { ...group, sample, oldest_at, newest_at, triage: triage ? triageView(triage) : null };
    });
    const wanted = groups.filter(({ triage }) => assignee === null || triage?.assignee === assignee);
    return wanted.sort((a, b) => b.count - a.count);
  }

  async function commands({ from, to, ...filter }: CommandFilter, page: PageRequest): Promise<Page<CommandView>> {
    const fits = ({ data }: Row) => isWanted(data as CommandRecord, filter);
    const list = { kind: 'commands', shelves: ['commands'], ...(from && { from }), ...(to && { to }) };
    const view = (row: Row) => commandView(row.data as CommandRecord);
    return newestFirst(list, page, view, Object.keys(filter).length > 0 ? fits : null);
  }

  async function command(id: string): Promise<CommandView> {
    const record = await rowData<CommandRecord>(store, { kind: 'commands', owner: '', id });
    if (!record) throw new HubError('notFound');
    return commandView(record);
  }

  async function orphans(state: string | null, assignee: string | null): Promise<OrphanView[]> {
    const found: OrphanView[] = [];
    for await (const row of store.scan('orphans')) {
      const view = orphanView(row.data as OrphanRecord);
      const isOf = assignee === null || view.triage?.assignee === assignee;
      if (isOf && (state === null ? view.state !== 'GRACE' : view.state === state)) found.push(view);
    }
    return found;
  }

  async function pulls({ party }: PullFilter, page: PageRequest): Promise<Page<PullView>> {
    const partner = party && (context.directory.partnerOf(party)?.id ?? party);
    const fits = ({ data }: Row) => (data as PullRecord).party === partner;
    const view = (row: Row) => pullView(row.data as PullRecord);
    return newestFirst({ kind: 'pulls', shelves: ['pulls'] }, page, view, partner === undefined ? null : fits);
  }

  async function pull(id: string): Promise<PullView> {
    const record = await rowData<PullRecord>(store, { kind: 'pulls', owner: '', id });
    if (!record) throw new HubError('notFound');
    return pullView(record);
  }

  async function quarantine(page: PageRequest): Promise<Page<QuarantineView>> {
    return newestFirst({ kind: 'quarantine', shelves: ['quarantine'] }, page, ({ data, upd: at, body }) => {
      return { ...(data as QuarantineRecord), at, text: body ?? '' };
    });
  }

  async function audit(filter: AuditFilter, page: PageRequest): Promise<Page<AuditEntry>> {
    const view = ({ data }: Row) => data as AuditEntry;
    return newestFirst({ kind: 'audit', shelves: ['audit'] }, page, view, auditFits(filter));
  }

  /** Sessions first, then CDRs, each newest first. */
  async function storedNotForwarded(filter: UnforwardedFilter, page: PageRequest): Promise<Page<Unforwarded>> {
    const { cpo, reason } = filter;
    const fits = (row: Row) =>
      (cpo === undefined || row.owner === cpo) && (reason === undefined || objectFromRow(row).reason === reason);
    const isFiltered = cpo !== undefined || reason !== undefined;
    const view = async (row: Row) => {
      const object = objectFromRow(row);
      const event = await store.event(row.seq);
      return {
        module: row.kind,
        object: objectName(object),
        cpo: object.owner,
        emsp: object.viewer,
        names: object.facts.cdrToken?.party ?? null,
        reason: object.reason ?? '',
        at: event?.at ?? object.lastUpdated,
      };
    };
    const [place = 0, left = null] = readCursor(page.cursor);
    const kind = ownedModules[place];
    if (kind === undefined) throw notOurs();
    const found = await newestFirst(
      { kind, shelves: keptShelves(context.directory.parties()) },
      { ...page, cursor: left === null ? null : String(left) },
      view,
      isFiltered ? fits : null,
    );
    if (found.next_cursor !== null) return { ...found, next_cursor: `${place}.${found.next_cursor}` };
    if (place + 1 >= ownedModules.length) return found;
    const next = String(place + 1);
    // A page without an item looks like the end of the list to those who do not look at the cursor.
    return found.items.length > 0
      ? { ...found, next_cursor: next }
      : storedNotForwarded(filter, { ...page, cursor: next });
  }

  /**
   * Pages from the end of a list: any offset is cheap in a counted index. The cursor is the number of rows left. With a
   * filter a page examines at most `examinedMax` rows.
   */
  async function newestFirst<T>(
    query: { kind: string; shelves: readonly string[] } & TimeBounds,
    page: PageRequest,
    view: (row: Row) => T | Promise<T>,
    fits: ((row: Row) => boolean) | null = null,
  ): Promise<Page<T>> {
    let [left = (await store.list({ ...query, offset: 0, limit: 1 })).total] = readCursor(page.cursor);
    const step = fits === null ? page.limit : examinedStep;
    const end = Math.max(0, left - (fits === null ? page.limit : examinedMax));
    const found: Row[] = [];
    while (left > end && found.length < page.limit) {
      const offset = Math.max(end, left - step);
      const { rows } = await store.list({ ...query, offset, limit: left - offset });
      left = offset;
      for (const [index, row] of [...rows.entries()].reverse()) {
        if (fits !== null && !fits(row)) continue;
        found.push(row);
        if (found.length < page.limit) continue;
        left = offset + index;
        break;
      }
    }
    return { items: await Promise.all(found.map(view)), next_cursor: left > 0 ? String(left) : null };
  }

  return {
    deadGroups,
    deliveryView,
    shown,
    eventShown: (event: StoredEvent) => eventView(event, rolesOf),
    deliveries: deliveryLists(context, outbound, deliveryView),
    delivery,
    commands,
    command,
    events: eventViews(store, rolesOf),
    orphans,
    pull,
    pulls,
    quarantine,
    storedNotForwarded,
    audit,
  };
}

function commandView({ id, command, emsp, cpo, state, result, reason, sessionId, at }: CommandRecord): CommandView {
  return { id, command, emsp, cpo, state: shownState({ state, reason }), result, reason, session: sessionId, at };
}

function isWanted(record: CommandRecord, filter: CommandFilter): boolean {
  const { party, state, command } = filter;
  if (!isOfPair(record, filter) || !namesEither(record, party)) return false;
  if (state !== undefined && state !== shownState(record)) return false;
  if (command !== undefined && command !== record.command) return false;
  if (filter.uid !== undefined && filter.uid.toLowerCase() !== record.tokenUid?.toLowerCase()) return false;
  const session = filter.session?.toLowerCase();
  if (session === undefined) return true;
  const { cpo, sessionId } = record;
  return (
    sessionId !== null &&
    [sessionId, objectName({ owner: cpo, id: sessionId })].some((name) => name.toLowerCase() === session)
  );
}

function pullView(record: PullRecord): PullView {
  const { dateFrom: date_from, startedAt: started_at, endedAt: ended_at, error, ...rest } = record;
  return { ...rest, date_from, started_at, ended_at, ...(error !== null && { error }) };
}

export function triageView({ assignee, snoozedUntil: snoozed_until, remarks }: Triage): TriageView {
  return { assignee, snoozed_until, remarks };
}

export function orphanView(record: OrphanRecord): OrphanView {
  const { id, kind, state, cpo, emsp, note } = record;
  const { openedAt: opened_at, pulledAt: pulled_at, resolvedAt: resolved_at } = record;
  const session = objectName({ owner: cpo, id: record.session });
  const triage = record.triage ? triageView(record.triage) : null;
  return { id, kind, state, session, cpo, emsp, opened_at, pulled_at, resolved_at, note, triage };
}

/** Null: every entry fits. Verb and about are searched for the text, in any case. */
function auditFits({ operator, verb, about, from, to }: AuditFilter): ((row: Row) => boolean) | null {
  const has = (text: string, part: string | undefined) =>
    part === undefined || text.toLowerCase().includes(part.toLowerCase());
  if ([operator, verb, about, from, to].every((value) => value === undefined)) return null;
  return ({ data }) => {
    const entry = data as AuditEntry;
    return (
      (operator === undefined || entry.operator === operator) &&
      has(entry.verb, verb) &&
      has(entry.about, about) &&
      (from === undefined || Date.parse(entry.at) >= Date.parse(from)) &&
      (to === undefined || Date.parse(entry.at) < Date.parse(to))
    );
  };
}
