/** The sessions and CDRs of a period, compared. They are read page by page. */
import type { Position, Row } from '../../../storage/contract.ts';
import type { FindingView, Reconciliation } from '../../api/reconciliation.ts';
import { HubError } from '../../domain/errors.ts';
import { instantText } from '../../domain/instant.ts';
import { objectName, sortableDate } from '../../domain/object.ts';
import {
  billedBy,
  billing,
  type ComparedCdr,
  type ComparedSession,
  type Finding,
  isCompleted,
  nameOf,
  reconciled,
} from '../../domain/reconciliation.ts';
import { hourMs } from '../../kit/clock.ts';
import { mapLimit } from '../../kit/concurrency.ts';
import type { Context } from '../kernel/context.ts';
import { billedKey, isName, objectFromRow, ownedShelves, shelvesOf } from '../kernel/row-codecs.ts';
import type { ReconciliationFilter } from '../ports/operator.ts';

/** Sessions, CDRs and later CDRs that matter at most, each; what is kept of one takes some 300 bytes. */
const objectsMax = 50_000;
const findingsMax = 1000;
const [pageRows, pageCharacters] = [500, 4 * 1024 * 1024];
const lookedUpAtOnce = 16;
/** So long behind the period corrections of its CDRs are read. [RECONCILIATION-2] */
const correctedMs = 31 * 24 * hourMs;

/** Throws `invalid` when more than `objectsMax` sessions or CDRs would be compared. */
export async function reconciliationOf(context: Context, filter: ReconciliationFilter): Promise<Reconciliation> {
  const { store, ports } = context;
  const to = filter.to ?? instantText(ports.clock.wall());
  const { from } = filter;
  const sessionRows = await read('sessions', sessionOf, { from, to });
  const ofPeriod = await read('cdrs', cdrOf, { from, to });
  const inPeriod = new Set(sessionRows.map(({ cpo, key }) => nameOf(cpo, key)));
  const inCdrs = new Set(ofPeriod.map(billedBy));
  const matters = (cdr: ComparedCdr) => {
    const name = billedBy(cdr);
    return cdr.isCredit || (name !== null && (inPeriod.has(name) || inCdrs.has(name)));
  };
  const behind = { from: to, to: instantText(Date.parse(to) + correctedMs) };
  const later = await read('cdrs', cdrOf, behind, matters);
  for (const cdr of later) inCdrs.add(billedBy(cdr));
  const cdrs = billing([...ofPeriod, ...later]);
  const end = sortable(to);
  const cdrsInPeriod = cdrs.filter(({ at }) => at < end);

  const sessions = new Map<string, ComparedSession>();
  await mapLimit(cdrsInPeriod, lookedUpAtOnce, async (cdr) => {
    const [name, id] = [billedBy(cdr), cdr.sessionId?.toLowerCase()];
    if (name === null || id === undefined || inPeriod.has(name) || !isName(id)) return;
    const row = await store.get({ kind: 'sessions', owner: cdr.cpo, id });
    if (row) sessions.set(name, sessionOf(row));
  });
  // The mark of a session says that it had a CDR, not that this one still bills.
  const billed = new Set<string>();
  await mapLimit(sessionRows.filter(isCompleted), lookedUpAtOnce, async ({ cpo, key }) => {
    const name = nameOf(cpo, key);
    if (!inCdrs.has(name) && (await store.get(billedKey(cpo, key)))) billed.add(name);
  });

  const graceFrom = instantText(ports.clock.wall() - filter.graceH * hourMs);
  const rules = { billedBefore: sortable(graceFrom), end, toleranceKwh: filter.toleranceKwh };
  const findings = reconciled(sessionRows, cdrs, rules, { sessions, billed });
  return {
    from: filter.from,
    to,
    pairs: pairsOf(sessionRows, cdrsInPeriod, findings),
    findings: findings.slice(0, findingsMax).map(findingView),
    omitted: Math.max(0, findings.length - findingsMax),
  };

  /** Reads the objects of a time, or those of them that matter. */
  async function read<T extends ComparedSession | ComparedCdr>(
    module: 'sessions' | 'cdrs',
    entry: (row: Row) => T,
    time: { readonly from: string; readonly to: string },
    matters?: (one: T) => boolean,
  ): Promise<T[]> {
    const { emsp, cpo } = filter;
    const shelves = emsp === undefined ? shelvesOf(context.directory.parties()) : ownedShelves(emsp);
    const query = {
      kind: module,
      shelves,
      offset: 0,
      limit: pageRows,
      size: pageCharacters,
      from: sortable(time.from),
      to: sortable(time.to),
    };
    const found: T[] = [];
    for (let after: Position | null = null; ; ) {
      const { rows, total, isLast } = await store.list({ ...query, ...(after && { after }) });
      if (!matters && total > objectsMax) throw tooMany(`${total} ${module} in that time`);
      for (const row of rows) {
        if (cpo !== undefined && row.owner !== cpo) continue;
        const one = entry(row);
        if (!matters || matters(one)) found.push(one);
      }
      if (matters && found.length > objectsMax) throw tooMany(`more than ${objectsMax} later ${module} of that time`);
      after = rows.at(-1) ?? null;
      if (isLast || after === null) return found;
    }
  }
}

function tooMany(what: string): HubError {
  const message = `${what}; at most ${objectsMax} are compared: take less time, or one eMSP`;
  return new HubError('invalid', { message });
}

const sortable = (instant: string): string => sortableDate(instant) ?? instant;

/** Fields of a body that are compared; a body that is no object has none. */
function fieldsOf(body: string): Readonly<Record<string, unknown>> {
  const value: unknown = JSON.parse(body);
  return Object(value) as Record<string, unknown>;
}

const numberIn = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null;
const textIn = (value: unknown): string | null => (typeof value === 'string' ? value.toLowerCase() : null);

function sessionOf(row: Row): ComparedSession {
  const { owner: cpo, viewer: emsp, id, key, facts, body } = objectFromRow(row);
  const uid = facts.cdrToken?.uid.toLowerCase() ?? null;
  return { cpo, emsp, id, key, at: row.upd, kwh: numberIn(fieldsOf(body).kwh), uid, status: facts.status ?? '' };
}

function cdrOf(row: Row): ComparedCdr {
  const { owner: cpo, viewer: emsp, id, key, facts, body } = objectFromRow(row);
  const { total_energy, credit, credit_reference_id } = fieldsOf(body);
  return {
    cpo,
    emsp,
    id,
    key,
    at: row.upd,
    kwh: numberIn(total_energy),
    uid: facts.cdrToken?.uid.toLowerCase() ?? null,
    sessionId: facts.sessionId ?? null,
    isCredit: credit === true,
    credits: textIn(credit_reference_id),
  };
}

const dayOf = ({ at }: { readonly at: string }): string => at.slice(0, 10);
const named = (one: ComparedSession | ComparedCdr | null) => one && objectName({ owner: one.cpo, id: one.id });

/** Of the CDR, or of the session that has none. */
const subject = ({ session, cdr }: Finding) => (cdr ?? session) as ComparedSession | ComparedCdr;

function findingView(finding: Finding): FindingView {
  const { kind, session, cdr } = finding;
  const of = subject(finding);
  const billedSession = cdr?.sessionId ? objectName({ owner: cdr.cpo, id: cdr.sessionId }) : null;
  return {
    kind,
    day: dayOf(of),
    cpo: of.cpo,
    emsp: of.emsp,
    session: named(session) ?? billedSession,
    cdr: named(cdr),
    session_kwh: session?.kwh ?? null,
    cdr_kwh: cdr?.kwh ?? null,
  };
}

type Pair = { -readonly [Name in keyof Reconciliation['pairs'][number]]: Reconciliation['pairs'][number][Name] };

function pairsOf(
  sessions: readonly ComparedSession[],
  cdrs: readonly ComparedCdr[],
  findings: readonly Finding[],
): Pair[] {
  const pairs = new Map<string, Pair>();
  const pairOf = (one: ComparedSession | ComparedCdr): Pair => {
    const { cpo, emsp } = one;
    const day = dayOf(one);
    const key = `${day} ${cpo} ${emsp}`;
    const pair = pairs.get(key) ?? { day, cpo, emsp, sessions: 0, cdrs: 0, session_kwh: 0, cdr_kwh: 0, findings: 0 };
    pairs.set(key, pair);
    return pair;
  };
  for (const session of sessions) {
    if (!isCompleted(session)) continue;
    const pair = pairOf(session);
    pair.sessions += 1;
    pair.session_kwh += session.kwh ?? 0;
  }
  for (const cdr of cdrs) {
    const pair = pairOf(cdr);
    pair.cdrs += 1;
    pair.cdr_kwh += cdr.kwh ?? 0;
  }
  for (const finding of findings) pairOf(subject(finding)).findings += 1;
  for (const pair of pairs.values()) {
    pair.session_kwh = rounded(pair.session_kwh);
    pair.cdr_kwh = rounded(pair.cdr_kwh);
  }
  return [...pairs].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, pair]) => pair);
}

/** To Wh, since a sum of fractions has further ones. */
const rounded = (kwh: number): number => Math.round(kwh * 1000) / 1000;
