/**
 * Whose START_SESSION a session goes back to, for CPOs in their COMPATIBILITY period, whose `cdr_token` names somebody else.
 * [interface, Sessions 3; D37]
 *
 * ATTRIBUTION-1  Only commands that this CPO itself accepted, at most 24 hours ago, and only while its period lasts.
 * ATTRIBUTION-2  `authorization_reference` first, else the token's uid; a CDR inherits from its session before that.
 */
import type { Put, Seen } from '../../../storage/contract.ts';
import type { CommandRecord } from '../../domain/command.ts';
import type { HubObject, ObjectChange, ObjectFacts } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import { isName, readObject, rowSeen } from '../kernel/row-codecs.ts';

interface Start {
  readonly emsp: PartyId;
  /** When the CPO accepted it, RFC 3339. */
  readonly at: string;
}

const kinds = { reference: 'starts:reference', uid: 'starts:uid' } as const;

/** Rows by which an accepted START_SESSION is found again. */
export function startRows(record: CommandRecord, at: string): Put[] {
  const row = (kind: string, id: string | null): Put[] => {
    const data: Start = { emsp: record.emsp, at };
    return id === null
      ? []
      : [{ kind, owner: record.cpo, id: id.toLowerCase(), shelf: null, upd: at, data, body: null }];
  };
  return [...row(kinds.reference, record.authorizationReference), ...row(kinds.uid, record.tokenUid)];
}

/** The eMSP that a session or CDR goes back to; null outside a COMPATIBILITY period or when no command fits. [RECORDER-6] */
export async function initiatorOf(
  context: Context,
  change: ObjectChange,
  before: HubObject | null,
  seen: Seen[],
): Promise<PartyId | null> {
  const { directory, ports, settings } = context;
  const compatible = directory.partnerOf(change.owner)?.settings;
  const now = ports.clock.now();
  if (compatible?.identity_mode !== 'COMPATIBILITY' || !(Date.parse(compatible.compatibility_until ?? '') > now))
    return null;
  if (before?.viewer) return before.viewer;
  const facts: ObjectFacts = { ...before?.facts, ...change.facts };
  if (facts.sessionId) {
    const session = await readObject(context.store, 'sessions', change.owner, facts.sessionId.toLowerCase(), seen);
    if (session?.viewer) return session.viewer;
  }
  const keys = [
    [kinds.reference, facts.authorizationReference],
    [kinds.uid, facts.cdrToken?.uid],
  ] as const;
  for (const [kind, id] of keys) {
    const key = { kind, owner: change.owner, id: id?.toLowerCase() ?? '' };
    const row = key.id && isName(key.id) ? await rowSeen(context.store, key, seen) : null;
    const start = row?.data as Start | undefined;
    if (start && now - Date.parse(start.at) <= settings.compatibilityWindowH * 3_600_000) return start.emsp;
  }
  return null;
}
