/** Folding what the log holds gives the object that live pushes gave, held against a naive model of parsed objects. */

import { isDeepStrictEqual } from 'node:util';
import { charactersOf, type ObjectEventData } from '../../src/domain/events.ts';
import { applyToObject } from '../../src/domain/fold.ts';
import type { ObjectModule } from '../../src/domain/modules.ts';
import type { HubObject, PushMethod } from '../../src/domain/object.ts';
import { fc } from '../support/property.ts';
import { t } from '../support/tap.ts';

interface Push {
  readonly data: ObjectEventData;
  readonly body: string;
}
type Json = Record<string, unknown>;

const owed = { method: 'PUT', path: '/NL/CPO/X1', query: '' } as const;
const push = (module: ObjectModule, method: PushMethod, fields: Json, more: Partial<ObjectEventData> = {}): Push => ({
  data: {
    ...{ module, method, owner: 'NL-CPO', id: 'X1', within: [], facts: {}, viewer: null, owed: null, warnings: [] },
    lastUpdated: typeof fields.last_updated === 'string' ? fields.last_updated : null,
    reason: 'unpublished',
    ...more,
  },
  body: JSON.stringify(fields, null, 1),
});
const apply = (before: HubObject | null, { data, body }: Push) =>
  applyToObject(before, { type: 'object.put', data, body, to: [] });
const throughLog = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** The same rules on parsed objects: fields replaced, new periods appended, items by id, parents moved. */
function model(before: Json | null, { data, body }: Push): Json | null {
  if (data.method === 'DELETE') return null;
  const came = JSON.parse(body) as Json;
  const isPatch = data.method === 'PATCH';
  const merged = (old: Json | undefined) => (isPatch ? { ...old, ...came } : came);
  const put = (list: unknown, idField: string, id: string, item: Json) => {
    const others = Array.isArray(list) ? (list as Json[]) : [];
    const at = others.findIndex((other) => String(other[idField]).toLowerCase() === id.toLowerCase());
    return at < 0 ? [...others, item] : others.map((other, index) => (index === at ? item : other));
  };
  const find = (list: unknown, idField: string, id: string) =>
    (Array.isArray(list) ? (list as Json[]) : []).find(
      (item) => String(item[idField]).toLowerCase() === id.toLowerCase(),
    );
  const [evseUid, connectorId] = data.within;
  if (evseUid === undefined) {
    if (isPatch && before === null) return null;
    const [old, more] = [before?.charging_periods, came.charging_periods];
    const appends = isPatch && data.module === 'sessions' && Array.isArray(old) && Array.isArray(more);
    const isNew = (item: unknown) => !(old as unknown[]).some((one) => JSON.stringify(one) === JSON.stringify(item));
    return {
      ...merged(before ?? undefined),
      ...(appends && { charging_periods: [...old, ...more.filter(isNew)] }),
    };
  }
  if (before === null) return null;
  const oldEvse = find(before.evses, 'uid', evseUid);
  const moved = ({ last_updated }: Json) => ({ last_updated: [last_updated, data.lastUpdated].sort().at(-1) });
  let evse = merged(oldEvse);
  if (connectorId === undefined) {
    if (isPatch && !oldEvse) return null;
  } else {
    const old = find(oldEvse?.connectors, 'id', connectorId);
    if (!oldEvse || (isPatch && !old)) return null;
    evse = { ...oldEvse, connectors: put(oldEvse.connectors, 'id', connectorId, merged(old)), ...moved(oldEvse) };
  }
  return { ...before, evses: put(before.evses, 'uid', evseUid, evse), ...moved(before) };
}

const at = fc.integer({ min: 0, max: 59 }).map((s) => `2026-01-02T03:04:${String(s).padStart(2, '0')}Z`);
const value = fc.constantFrom<unknown>(1.5, 'a"}', null, [1, [2]], { x: [] });
const sparse = fc.record(
  { name: value, kwh: value, charging_periods: fc.constantFrom([1], [2, { p: 3 }], []) },
  { requiredKeys: [], noNullPrototype: true },
);
const uid = fc.constantFrom('E1', 'e1', 'E2');
const connectorOf = fc.constantFrom('1', 'A', 'a');
const connector = fc.record({ id: connectorOf, n: value, last_updated: at });
const evse = fc
  .record({ uid, n: value, last_updated: at })
  .chain((fields) =>
    fc
      .uniqueArray(connector, { selector: ({ id }) => id.toLowerCase(), maxLength: 2 })
      .map((connectors) => ({ ...fields, connectors })),
  );
const evses = fc.uniqueArray(evse, { selector: (item) => item.uid.toLowerCase(), maxLength: 2 });
const facts = fc.record(
  { publish: fc.boolean(), status: fc.constantFrom('ACTIVE', 'COMPLETED') },
  { requiredKeys: [], noNullPrototype: true },
);
const more = fc.record(
  { facts, viewer: fc.constantFrom(null, 'NL-EMS'), owed: fc.constantFrom(null, owed) },
  { noNullPrototype: true },
);
const method = fc.constantFrom<PushMethod>('PUT', 'PATCH');
const flat = (module: ObjectModule, methods = method) =>
  fc
    .tuple(methods, sparse, at, more, fc.constantFrom('X1', 'x1'))
    .map(([how, fields, last_updated, extra, id]) =>
      push(module, how, how === 'DELETE' ? {} : { ...fields, last_updated }, { ...extra, id }),
    );
const whole = fc
  .tuple(fc.record({ publish: fc.boolean(), evses, last_updated: at }), more)
  .map(([fields, extra]) => push('locations', 'PUT', fields, extra));
const inEvse = fc
  .tuple(method, evse, more)
  .map(([how, fields, extra]) => push('locations', how, fields, { ...extra, within: [fields.uid] }));
const inConnector = fc
  .tuple(method, uid, connector, more)
  .map(([how, within, fields, extra]) => push('locations', how, fields, { ...extra, within: [within, fields.id] }));
const pushes = fc.oneof(
  fc.array(flat('sessions'), { maxLength: 12 }),
  fc.array(flat('tokens'), { maxLength: 12 }),
  fc.array(flat('tariffs', fc.constantFrom<PushMethod>('PUT', 'DELETE')), { maxLength: 12 }),
  fc.array(fc.oneof(flat('locations'), whole, inEvse, inConnector), { maxLength: 20 }),
);

t.test(
  'after any pushes the object equals that of a naive model, and folding the log gives it again [OBJECT-4]',
  async () => {
    fc.assert(
      fc.property(pushes, fc.nat(20), (list, cut) => {
        let live: HubObject | null = null;
        let expected: Json | null = null;
        let forwarded = false;
        const log: Push[] = [];
        const rows: (HubObject | null)[] = [null];
        for (const one of list) {
          const after: HubObject | null = apply(live, one);
          const modelled: Json | null = model(expected, one);
          if ((after === null) !== (modelled === null)) return false;
          // What needs something that is not there is refused at the door and never recorded.
          if (after === null && one.data.method !== 'DELETE') continue;
          [live, expected] = [after, modelled];
          forwarded = after !== null && (forwarded || one.data.owed !== null);
          if (after && !(isDeepStrictEqual(JSON.parse(after.body), expected) && after.forwarded === forwarded))
            return false;
          log.push(throughLog(one));
          rows.push(throughLog(after));
        }
        const refolded = log.reduce<HubObject | null>(apply, null);
        const from = Math.min(cut, log.length);
        const resumed = log.slice(from).reduce<HubObject | null>(apply, rows[from] ?? null);
        return isDeepStrictEqual(refolded, live) && isDeepStrictEqual(resumed, live);
      }),
      { numRuns: 500 },
    );
  },
);

t.test('fields stored beside the body are folded with it [D12, D18, D23, OBJECT-4]', async (t) => {
  const cdrToken = { party: 'NL-EMS', uid: 'card' };
  const first = push(
    'sessions',
    'PUT',
    { id: 'X1', last_updated: 'a' },
    {
      ...{ facts: { status: 'ACTIVE', cdrToken }, reason: 'not routed' },
    },
  );
  const steps: [string, Push, Partial<HubObject>][] = [
    [
      'first',
      first,
      { id: 'X1', key: 'x1', facts: { status: 'ACTIVE', cdrToken }, forwarded: false, reason: 'not routed' },
    ],
    [
      'a PATCH changes the facts it carries; the id keeps its first case',
      push(
        'sessions',
        'PATCH',
        { last_updated: 'b' },
        { id: 'x1', facts: { status: 'COMPLETED' }, viewer: 'NL-EMS', owed, reason: null },
      ),
      {
        id: 'X1',
        lastUpdated: 'b',
        facts: { status: 'COMPLETED', cdrToken },
        forwarded: true,
        reason: null,
        viewer: 'NL-EMS',
      },
    ],
    [
      'a PUT replaces the facts; what was forwarded once stays forwarded',
      push('sessions', 'PUT', { last_updated: 'a' }, { facts: { cdrToken: null }, reason: 'cdr_token missing' }),
      {
        id: 'X1',
        lastUpdated: 'a',
        facts: { cdrToken: null },
        forwarded: true,
        reason: 'cdr_token missing',
        viewer: null,
      },
    ],
  ];
  let object: HubObject | null = null;
  for (const [title, step, expected] of steps) {
    object = apply(object, step);
    t.match(object, expected, title);
    t.strictSame(object?.facts, expected.facts, `${title}: facts`);
  }
  const token = push('tokens', 'PUT', { last_updated: 'a' }, { facts: { tokenType: 'APP_USER' } });
  t.equal(apply(null, token)?.key, 'x1/APP_USER', 'the type is part of the key of a token');
  const published = apply(
    null,
    push('locations', 'PUT', { evses: [], last_updated: 'a' }, { facts: { publish: false } }),
  );
  const grown = apply(published, push('locations', 'PUT', { uid: 'E1', last_updated: 'b' }, { within: ['E1'] }));
  t.strictSame(
    [grown?.facts, grown?.lastUpdated],
    [{ publish: false }, 'b'],
    'an EVSE leaves the facts and moves the date',
  );
  t.equal(apply(published, push('locations', 'DELETE', {})), null, 'a DELETE leaves nothing');
});

t.test('the characters of an event are those of all its bodies [D59]', async (t) => {
  const whole = { method: 'PUT', path: '', query: '', body: '{"id": 1}' } as const;
  const { data } = push('locations', 'PATCH', {});
  t.equal(charactersOf({ body: null, data: {} }), 0);
  t.equal(charactersOf({ body: '{}', data: null }), 2);
  t.equal(charactersOf({ body: '{}', data }), 2);
  t.equal(charactersOf({ body: '{}', data: { ...data, owed: whole } }), 2 + 9);
  t.equal(charactersOf({ body: '{}', data: { ...data, owed, whole: { ...whole, to: [] } } }), 2 + 9);
});
