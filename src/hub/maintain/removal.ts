/** Removal of a stored object by the hub, of which partners are not notified: OCPI has no deletion of sessions, CDRs and tokens. */
import type { Put, Row } from '../../../storage/contract.ts';
import type { Actor, ObjectEventData } from '../../domain/events.ts';
import { modules } from '../../domain/modules.ts';
import { streamOf } from '../../domain/object.ts';
import type { Fact } from '../kernel/recorder.ts';
import { billedKey, objectFromRow, ownersKind } from '../kernel/row-codecs.ts';

/** The fact, and the rows to remove: that of the object and those by which it is found. */
export function removalOf(row: Row, reason: string, by: Actor): { readonly fact: Fact; readonly puts: Put[] } {
  const { module, owner, key, id, facts, viewer } = objectFromRow(row);
  const data: ObjectEventData = {
    module,
    method: 'DELETE',
    owner,
    id,
    within: [],
    lastUpdated: null,
    facts,
    viewer,
    owed: null,
    reason,
    warnings: [],
    by,
  };
  const puts: Put[] = [{ kind: module, owner, id: key, gone: true }];
  if (modules[module].isFoundById) puts.push({ kind: ownersKind(module), owner: key, id: owner, gone: true });
  // A CDR that ends before its session leaves the mark that the session was billed.
  if (module === 'sessions') puts.push({ ...billedKey(owner, key), gone: true });
  return { fact: { stream: streamOf(module, owner, key), event: { type: 'object.deleted', data }, party: null }, puts };
}
