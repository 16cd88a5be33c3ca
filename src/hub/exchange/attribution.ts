/**
 * Attributes a session or CDR to the eMSP whose START_SESSION began it. CPOs in their COMPATIBILITY period need this:
 * their `cdr_token` does not name that eMSP. [interface, Sessions 3; D37]
 *
 * ATTRIBUTION-1  Only commands count that this CPO itself accepted, at most `compatibilityWindowH` (24 h by default)
 *     ago, and only during its period.
 * ATTRIBUTION-2  The match is by `authorization_reference` first, else by the token's uid; a CDR first inherits from
 *     its session.
 */
import type { Put, Seen, Store } from '../../../storage/contract.ts';
import type { CommandRecord } from '../../domain/command.ts';
import type { HubObject, ObjectChange, ObjectFacts } from '../../domain/object.ts';
import type { PartyId } from '../../domain/party.ts';
import { hourMs } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import { isName, readObject, rowSeen } from '../kernel/row-codecs.ts';

interface Start {
  readonly emsp: PartyId;
  /** When the CPO accepted the command, RFC 3339. */
  readonly at: string;
}

const kinds = { reference: 'starts:reference', uid: 'starts:uid' } as const;

/** Index rows from the reference and the token uid of an accepted START_SESSION to its eMSP. */
export function startRows(record: CommandRecord, at: string): Put[] {
  const row = (kind: string, id: string | null): Put[] => {
    const data: Start = { emsp: record.emsp, at };
    return id === null
      ? []
      : [{ kind, owner: record.cpo, id: id.toLowerCase(), shelf: null, upd: at, data, body: null }];
  };
  return [...row(kinds.reference, record.authorizationReference), ...row(kinds.uid, record.tokenUid)];
}

/**
 * The eMSP that a session or CDR is attributed to; null outside a COMPATIBILITY period or when no command matches.
 * [RECORDER-6]
 */
export async function initiatorOf(
  context: Context,
  change: ObjectChange,
  before: HubObject | null,
  seen: Seen[],
): Promise<PartyId | null> {
  const { directory, ports, settings } = context;
  const compatible = directory.partnerOf(change.owner)?.settings;
  const { clock } = ports;
  const isCompatible = compatible?.identity_mode === 'COMPATIBILITY';
  if (!isCompatible || !(Date.parse(compatible.compatibility_until ?? '') > clock.now())) return null;
  if (before?.viewer) return before.viewer;
  const facts: ObjectFacts = { ...before?.facts, ...change.facts };
  if (facts.sessionId) {
    const session = await readObject(context.store, 'sessions', change.owner, facts.sessionId.toLowerCase(), seen);
    if (session?.viewer) return session.viewer;
  }
  for await (const start of startsOf(context.store, change.owner, facts, seen)) {
    const ageMs = clock.now() - clock.steady(Date.parse(start.at));
    if (ageMs <= settings.compatibilityWindowH * hourMs) return start.emsp;
  }
  return null;
}

/** Whether the CPO accepted a START_SESSION of the eMSP that the session may be of, however long ago. */
export async function isStartedBy(store: Store, emsp: PartyId, { owner, facts }: Begun): Promise<boolean> {
  for await (const start of startsOf(store, owner, facts, [])) if (start.emsp === emsp) return true;
  return false;
}

type Begun = Pick<HubObject, 'owner' | 'facts'>;

/** The latest START_SESSION with the reference of a session or CDR, then that with its token uid. */
async function* startsOf(store: Store, owner: PartyId, facts: ObjectFacts, seen: Seen[]): AsyncGenerator<Start> {
  const keys = [
    [kinds.reference, facts.authorizationReference],
    [kinds.uid, facts.cdrToken?.uid],
  ] as const;
  for (const [kind, id] of keys) {
    const key = { kind, owner, id: id?.toLowerCase() ?? '' };
    const row = key.id && isName(key.id) ? await rowSeen(store, key, seen) : null;
    if (row) yield row.data as Start;
  }
}
