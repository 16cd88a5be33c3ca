/**
 * Finds the objects that an operator means by an id alone: that of any object or EVSE, an `evse_id`, or a contract id.
 * [D78]
 *
 * TRACE-KEYS-1  What stands inside objects has no index: one search reads at most `rowsMax` rows of a module for it.
 */
import type { TraceCandidate } from '../../api/trace.ts';
import { moduleNames, modules, type ObjectModule } from '../../domain/modules.ts';
import { objectKey, objectName, tokenTypes } from '../../domain/object.ts';
import { keyOf, type PartyId } from '../../domain/party.ts';
import type { RefusedRecord } from '../../domain/report.ts';
import { nextTurn } from '../../kit/system-clock.ts';
import type { Context } from '../kernel/context.ts';
import { objectFromRow, ownersOf, readObject } from '../kernel/row-codecs.ts';
import { refusedStream } from '../partners/reports.ts';

/** [TRACE-KEYS-1] */
const rowsMax = 20_000;
/** Rows between two turns of the event loop. */
const piece = 500;
/** Objects that are listed at most. */
const candidatesMax = 100;

/** Types by which the objects of a module are keyed beside their ids. */
export const typesOf = (module: ObjectModule): readonly string[] => (modules[module].isKeyedByType ? tokenTypes : ['']);

export interface ById {
  readonly candidates: readonly TraceCandidate[];
  /** False when a module has more rows than were read, so that there may be others. */
  readonly isWhole: boolean;
}

/** Objects with this id; when there are none, those in which it names an EVSE or a contract. */
export async function candidatesFor(context: Context, id: string): Promise<ById> {
  const found = (await Promise.all(moduleNames.map((module) => withId(context, module, id)))).flat();
  if (found.length > 0) return { candidates: found.slice(0, candidatesMax), isWhole: found.length <= candidatesMax };
  const locations = await inside(context, 'locations', id, evseNames);
  const tokens = await inside(context, 'tokens', id, ({ contract_id }) => [contract_id]);
  return {
    candidates: [...locations.candidates, ...tokens.candidates],
    isWhole: locations.isWhole && tokens.isWhole,
  };
}

/** Refused pushes of objects that were never stored, by whichever partner, with this name or this id alone. */
export async function refusedAs({ store }: Context, key: string) {
  const wanted = key.toLowerCase();
  const found = new Map<string, TraceCandidate>();
  const streams: string[] = [];
  let read = 0;
  for await (const { owner, id, data } of store.scan('refused')) {
    read += 1;
    if (read % piece === 0) await nextTurn();
    const { object, module } = data as RefusedRecord;
    const name = object?.toLowerCase();
    if (object === null || module === null || (name !== wanted && !name?.endsWith(`/${wanted}`))) continue;
    found.set(`${module} ${name}`, { module, key: object });
    streams.push(refusedStream(owner, id));
  }
  return { streams, candidates: [...found.values()].slice(0, candidatesMax) };
}

async function withId(context: Context, module: ObjectModule, id: string): Promise<TraceCandidate[]> {
  const { store } = context;
  const owners = modules[module].isFoundById ? await ownersOf(store, module, id) : ownersIn(context, module);
  const keys = owners.flatMap((owner) =>
    typesOf(module).map((tokenType) => ({ owner, key: objectKey(module, id, { tokenType }) })),
  );
  const objects = await Promise.all(keys.map(({ owner, key }) => readObject(store, module, owner, key)));
  return objects.flatMap((object) => (object ? [{ module, key: objectName(object) }] : []));
}

function ownersIn({ directory }: Context, module: ObjectModule): PartyId[] {
  const all = [...directory.partners()].flatMap(({ roles }) => roles);
  return all.filter(({ role }) => role === modules[module].owner).map(keyOf);
}

/** Objects of a module whose body has this text as one of its `names`, in any case of letters. */
async function inside(
  { store }: Context,
  module: ObjectModule,
  id: string,
  names: (body: Record<string, unknown>) => unknown[],
): Promise<ById> {
  const wanted = id.toLowerCase();
  const candidates: TraceCandidate[] = [];
  let read = 0;
  for await (const row of store.scan(module)) {
    if (read === rowsMax || candidates.length === candidatesMax) return { candidates, isWhole: false };
    read += 1;
    if (read % piece === 0) await nextTurn();
    if (!row.body?.toLowerCase().includes(wanted)) continue;
    const isNamed = names(JSON.parse(row.body)).some((name) => String(name).toLowerCase() === wanted);
    if (isNamed) candidates.push({ module, key: objectName(objectFromRow(row)) });
  }
  return { candidates, isWhole: true };
}

function evseNames({ evses }: Record<string, unknown>): unknown[] {
  return Array.isArray(evses) ? evses.flatMap((evse) => [evse?.uid, evse?.evse_id]) : [];
}
