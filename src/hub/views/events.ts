/** Lists the events of the log for operators, filtered: forwards from a sequence, or backwards from its end. */
import type { Store, StoredEvent } from '../../../storage/contract.ts';
import type { EventFilter, EventView } from '../../api/events.ts';
import { HubError } from '../../domain/errors.ts';
import type { ObjectEventData, Owed } from '../../domain/events.ts';
import { concerns, type RolesOf, type SubjectFilter, subjectOf } from '../../domain/subject.ts';
import { isWithin, logSpan } from '../kernel/log-reads.ts';
import { whoField } from '../kernel/row-codecs.ts';
import type { EventVerbs } from '../ports/operator.ts';
import { LogWalk } from './log-walk.ts';

export function eventViews(store: Store, rolesOf: RolesOf): EventVerbs['events'] {
  return async (filter, { order, after, cursor, limit }) => {
    const fits = fitsOf(filter, rolesOf);
    const head = store.head();
    if (Math.max(after, cursor ?? 0) > head) throw new HubError('invalid', { message: `the log ends at ${head}` });
    const isForwards = order === 'oldest';
    const span = await logSpan(store, filter);
    const from = Math.max(isForwards ? (cursor ?? after) : after, span.after);
    const upTo = Math.min(isForwards ? head : (cursor ?? head), span.upTo);
    const walk = new LogWalk(store, [{ after: from, upTo }], order, fits);
    const items: EventView[] = [];
    while (items.length < limit) {
      const event = await walk.next();
      if (!event) break;
      items.push(eventView(event, rolesOf));
    }
    const { rest } = walk;
    const reached = rest === null ? Math.max(from, upTo) : rest - 1;
    return {
      items,
      next_cursor: rest === null ? null : String(isForwards ? reached : rest),
      last_seq: isForwards ? reached : head,
      kept_from: store.horizon() + 1,
    };
  };
}

export function eventView(event: StoredEvent, rolesOf: RolesOf): EventView {
  const { at, type, party, correlationId: correlation_id } = event;
  const { about, parties, object, by } = subjectOf(event, rolesOf);
  const { [whoField]: who = null } = (event.data ?? {}) as { readonly who?: string };
  return { seq: event.seq, at, type, about, parties, party, object, correlation_id, by, who, data: shownOf(event) };
}

/**
 * Removes token digests and sealed tokens, which no reader needs, bodies, which the delivery's detail shows, what
 * only readers of the audit log may see, and the query of a `response_url`, in which eMSPs put secrets.
 */
function shownOf({ type, data }: StoredEvent): unknown {
  if (typeof data !== 'object' || data === null) return data;
  const left: ReadonlySet<string> = new Set([...sealed, whoField, ...(type === 'audit.noted' ? audited : [])]);
  const shown = Object.entries(data).filter(([key]) => !key.endsWith('Digest') && !left.has(key));
  const isObject = type.startsWith('object.');
  return Object.fromEntries(
    shown.map(([key, value]) => {
      if (key === 'responseUrl') return [key, String(value).replace(/\?.*/s, '?…')];
      return [key, isObject && requests.has(key) ? withoutBody(value) : value];
    }),
  );
}

const sealed = ['partnerToken', 'sealedSecret'];
const audited = ['address', 'reason'];

const requests: ReadonlySet<string> = new Set(['owed', 'whole'] satisfies (keyof ObjectEventData)[]);

function withoutBody(request: Owed | null): unknown {
  if (request === null) return null;
  const { body: _body, ...rest } = request;
  return rest;
}

function fitsOf(filter: EventFilter, rolesOf: RolesOf): (event: StoredEvent) => boolean {
  const { type, correlation_id } = filter;
  const wanted: SubjectFilter = {
    party: filter.party?.toUpperCase(),
    object: filter.object?.toLowerCase(),
    about: filter.about?.toLowerCase(),
  };
  return (event) =>
    (!type || event.type === type || event.type.startsWith(`${type}.`)) &&
    (!correlation_id || event.correlationId === correlation_id) &&
    isWithin(event.at, filter) &&
    concerns(event, wanted, rolesOf);
}
