/**
 * Subject, parties and actor of every event: one table over all event types, so that no filter and no list misses an
 * event.
 *
 * SUBJECT-1  A subject depends only on the event and on the parties of a partner, so events of older stores are found
 *     as far as their stream and data allow.
 * SUBJECT-2  Every event type has its own line in the table; a missing line is a compile error.
 */
import type { Actor, CommandNamed, DeliveryNamed, HubEvent, ObjectEventData, OrphanNamed } from './events.ts';
import { isModule, modules } from './modules.ts';
import { objectName } from './object.ts';
import type { PartyId } from './party.ts';
import type { Route } from './routing.ts';
import type { DeadGroupName } from './triage.ts';

/** The fields of a stored event that its subject depends on. */
export interface Recorded {
  readonly stream: string;
  readonly type: string;
  readonly party: PartyId | null;
  readonly to: readonly PartyId[];
  readonly data: unknown;
}

export interface Subject {
  /** `{noun}:{key}`: `partner:NL-CPO`, `session:NL-CPO/101`, `delivery:42-NL-EMS`. */
  readonly about: string;
  /** All parties that the event concerns, without duplicates. */
  readonly parties: readonly PartyId[];
  /** `{cc}-{pid}/{id}`; null when the event concerns no object. */
  readonly object: string | null;
  readonly by: Actor;
}

/** The parties of a partner. */
export type RolesOf = (partner: PartyId) => readonly PartyId[];

type DataOf<Type, Event = HubEvent> = Event extends { type: infer Types; data: infer Data }
  ? Type extends Types
    ? Data
    : never
  : never;

/** A line of the table; receivers and the partner that the event was recorded for are added for all types. */
interface Line {
  readonly about: string;
  readonly parties?: readonly (PartyId | null | undefined)[];
  /** A partner, with all of its parties. */
  readonly partner?: PartyId;
  readonly object?: string | null;
  /** When absent: the partner that the event was recorded for, or the hub when there is none. */
  readonly by?: Actor;
}

type Teller<Data> = (event: Recorded & { readonly data: Data }) => Line;

const isParty = (text: string): boolean => /^[A-Z]{2}-[A-Z0-9]{1,3}$/.test(text);
const keyOf = (name: string): string => name.slice(name.indexOf(':') + 1);

const ofObject =
  (by?: Actor): Teller<ObjectEventData> =>
  ({ data }) => {
    const object = objectName(data);
    const parties = [data.owner, data.viewer, data.receiver];
    const actor = data.by ?? by;
    return { about: `${modules[data.module].noun}:${object}`, parties, object, ...(actor && { by: actor }) };
  };

const ofPartner =
  (by: Actor) =>
  ({ stream }: Recorded): Line => ({ about: stream, partner: keyOf(stream), by });

const ofCircuit: Teller<DataOf<'circuit.opened'>> = (event) => ofPartner(event.data.by ?? 'hub')(event);

/** The actor of a suspension comes from its reason, the only hint in older logs. */
const ofSuspension: Teller<DataOf<'partner.suspended'>> = (event) => {
  const { reason = '' } = event.data as Partial<typeof event.data>;
  const by = reason.endsWith('by the partner') ? 'partner' : reason.endsWith('by an operator') ? 'operator' : 'hub';
  return ofPartner(by)(event);
};

const ofCommand: Teller<CommandNamed> = ({ stream, data: { emsp, cpo, sessionId } }) => {
  const object = cpo && sessionId ? objectName({ owner: cpo, id: sessionId }) : null;
  return { about: stream, parties: [emsp, cpo], object };
};

const ofOrphan: Teller<OrphanNamed> = ({ stream, data: { emsp, cpo, session, by = 'hub' } }) => {
  const object = cpo && session ? objectName({ owner: cpo, id: session }) : null;
  return { about: stream, parties: [cpo, emsp], object, by };
};

const ofPull =
  (by: Actor) =>
  ({ stream, party }: Recorded): Line => ({ about: stream, ...(party && { partner: party }), by });

const ofRoute: Teller<Route> = ({ stream, data: { emsp, cpo } }) => {
  return { about: stream, parties: [emsp, cpo], by: 'operator' };
};

const ofAuthorization: Teller<DataOf<'token.authorized'>> = ({ data: { direction, uid, from, to } }) => {
  const owner = direction === 'toEmsp' ? to : from;
  const object = owner === '' ? null : objectName({ owner, id: uid });
  return { about: `token:${object ?? uid}`, parties: [from, to], object };
};

const ofDelivery =
  (by: Actor): Teller<DeliveryNamed> =>
  ({ stream, data: { receiver, sender, object = null } }) => ({
    about: stream,
    parties: [receiver, sender],
    object,
    by,
  });

const ofJob =
  (by: Actor): Teller<DataOf<'job.started'>> =>
  ({ stream, data: { kind, state, receiver } }) => {
    const whom = kind === 'resync' && receiver ? { partner: receiver } : { parties: [receiver] };
    return { about: stream, ...whom, by: state === 'CANCELED' ? 'operator' : by };
  };

const ofStream =
  (by: Actor) =>
  ({ stream }: Recorded): Line => ({ about: stream, by });

/** The index rows of owners (`…:owners`) have the object's id as `owner` and the party as `id`. */
const ofRow: Teller<DataOf<'row.rebuilt'>> = ({ data: { kind, owner, id } }) => {
  const parties = [owner, ...(kind.endsWith(':owners') ? [id] : [])].filter(isParty);
  const object = isModule(kind)
    ? { owner, id: modules[kind].isKeyedByType ? id.slice(0, id.lastIndexOf('/')) : id }
    : null;
  return { about: `row:${kind}/${owner}/${id}`, parties, object: object && objectName(object), by: 'hub' };
};

const ofActor: Teller<DataOf<'actor.quarantined'>> = ({ data: { actor, parties } }) => {
  const name = keyOf(actor);
  if (/^(partner|courier):/.test(actor)) return { about: actor, partner: name, by: 'hub' };
  if (!actor.startsWith('orphan-')) return { about: actor, parties: parties ?? [], by: 'hub' };
  return { about: actor, parties: parties ?? [name.slice(0, name.indexOf('/'))], object: name, by: 'hub' };
};

const ofNotice: Teller<DataOf<'notification.raised'>> = ({ data: { kind, subject, parties } }) => ({
  about: `notification:${kind}/${subject}`,
  parties,
  by: 'hub',
});

const ofTriage =
  (by: Actor): Teller<DeadGroupName> =>
  ({ stream, data: { receiver } }) => ({ about: stream, parties: [receiver], by });

/** [SUBJECT-2] */
export const subjects: { readonly [Type in HubEvent['type']]: Teller<DataOf<Type>> } = {
  'object.put': ofObject(),
  'object.patched': ofObject(),
  'object.deleted': ofObject(),
  'object.resent': ofObject('operator'),
  'object.base': ofObject('hub'),
  'object.missed': ofObject('hub'),
  'partner.added': ofPartner('operator'),
  'partner.initialTokenIssued': ofPartner('operator'),
  'partner.registered': ofPartner('partner'),
  'partner.rotated': ofPartner('partner'),
  'partner.hostChangeAsked': ofPartner('partner'),
  'partner.hostChanged': ofPartner('partner'),
  'partner.hostConfirmed': ofPartner('operator'),
  'partner.tokenConfirmed': ofPartner('partner'),
  'partner.hubTokenIssued': ofPartner('operator'),
  'partner.resealed': ofPartner('hub'),
  'partner.suspended': ofSuspension,
  'partner.online': ofPartner('hub'),
  'partner.offline': ofPartner('hub'),
  'partner.changed': ofPartner('operator'),
  'partner.endpointsSet': ofPartner('operator'),
  'circuit.opened': ofCircuit,
  'circuit.closed': ofCircuit,
  'command.requested': ofCommand,
  'command.answered': ofCommand,
  'command.failed': ofCommand,
  'command.resultReceived': ofCommand,
  'command.relayed': ofCommand,
  'command.relayFailed': ofCommand,
  'command.silent': ofCommand,
  'orphan.armed': ofOrphan,
  'orphan.disarmed': ofOrphan,
  'orphan.opened': ofOrphan,
  'orphan.pulled': ofOrphan,
  'orphan.triaged': ofOrphan,
  'orphan.resolved': ofOrphan,
  'pull.started': ofPull('operator'),
  'pull.progressed': ofPull('hub'),
  'pull.done': ofPull('hub'),
  'pull.failed': ofPull('hub'),
  'pull.objectRefused': ({ data: { pull, party, object } }) => {
    return { about: `pull:${pull}`, partner: party, object, by: 'hub' };
  },
  'push.refused': ({ data: { partner, object } }) => ({ about: `partner:${partner}`, partner, object, by: 'partner' }),
  'report.noted': ({ stream, party }) => {
    return { about: `partner:${keyOf(stream)}`, ...(party && { partner: party }), by: 'hub' };
  },
  'release.ended': ({ data: { partner } }) => ({ about: `partner:${partner}`, partner, by: 'hub' }),
  'route.set': ofRoute,
  'route.removed': ofRoute,
  'token.authorized': ofAuthorization,
  'delivery.dead': ofDelivery('hub'),
  'delivery.redriven': ofDelivery('operator'),
  'delivery.discarded': ofDelivery('operator'),
  'job.started': ofJob('operator'),
  'job.progressed': ofJob('hub'),
  'job.ended': ofJob('hub'),
  'log.trimmed': ({ data: { dead } }) => ({ about: 'log:events', parties: Object.keys(dead ?? {}), by: 'hub' }),
  'backup.started': ofStream('operator'),
  'backup.ended': ofStream('hub'),
  'person.erased': ({ stream }) => ({ about: stream, by: 'operator' }),
  'quota.warned': ({ stream, data: { party } }) => ({ about: stream, parties: [party], by: 'hub' }),
  'webhook.set': ofStream('operator'),
  'webhook.removed': ofStream('operator'),
  'triage.changed': ofTriage('operator'),
  'triage.ended': ofTriage('hub'),
  'view.saved': ofStream('operator'),
  'view.removed': ofStream('operator'),
  'notification.raised': ofNotice,
  'notification.ended': ofNotice,
  'history.recorded': ofStream('hub'),
  'audit.noted': ({ stream, data: { operator } }) => ({ about: stream, by: operator === 'hub' ? 'hub' : 'operator' }),
  'audit.removed': ({ stream }) => ({ about: stream, by: 'hub' }),
  'row.rebuilt': ofRow,
  'actor.quarantined': ofActor,
};

/** The line of an event; an event of a type that only another version knows is about its stream. */
function lineOf(event: Recorded): Line {
  const tell = (subjects as Readonly<Record<string, Teller<never> | undefined>>)[event.type];
  return tell ? tell(event as never) : { about: event.stream };
}

export function subjectOf(event: Recorded, rolesOf: RolesOf): Subject {
  const { about, parties = [], partner, object = null, by } = lineOf(event);
  const partners = partner === undefined ? [] : [partner, ...rolesOf(partner)];
  const all = [event.party, ...partners, ...parties, ...event.to].filter((party) => party != null && party !== '');
  return {
    about,
    parties: [...new Set(all as PartyId[])],
    object,
    by: by ?? (event.party === null ? 'hub' : 'partner'),
  };
}

export interface SubjectFilter {
  /** In upper case. */
  readonly party?: PartyId | undefined;
  /** In lower case. */
  readonly object?: string | undefined;
  /** In lower case. */
  readonly about?: string | undefined;
}

/** Whether an event matches the filter. Faster than `subjectOf`, for searches over many events. */
export function concerns(event: Recorded, { party, object, about }: SubjectFilter, rolesOf: RolesOf): boolean {
  if (party === undefined && object === undefined && about === undefined) return true;
  const line = lineOf(event);
  if (object !== undefined && line.object?.toLowerCase() !== object) return false;
  if (about !== undefined && line.about.toLowerCase() !== about) return false;
  if (party === undefined || event.party === party || event.to.includes(party)) return true;
  if (line.parties?.includes(party)) return true;
  return line.partner !== undefined && (line.partner === party || rolesOf(line.partner).includes(party));
}
