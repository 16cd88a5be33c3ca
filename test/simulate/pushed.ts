/** Makes what simulated partners push, as their doors would hand it over, and reads what they list. */
import type { ObjectModule } from '../../src/domain/modules.ts';
import type { CdrTokenFact, ObjectChange, ObjectFacts, PushMethod } from '../../src/domain/object.ts';
import type { CredentialsBody } from '../../src/domain/party.ts';
import type { ObjectReader } from '../../src/hub/ports/ports.ts';
import { partsOf } from './cast.ts';
import type { Json } from './reference.ts';

function tokenFact(value: unknown): CdrTokenFact | null {
  const { country_code, party_id, uid } = (value ?? {}) as Record<string, string | undefined>;
  return country_code && party_id && uid ? { party: `${country_code}-${party_id}`.toUpperCase(), uid } : null;
}

const referenceIn = (body: Json): string | null => (body.authorization_reference as string | undefined) ?? null;

/** What the hub relies on in a body; of a fragment what it carries. */
function factsOf(module: ObjectModule, body: Json, isWhole: boolean): ObjectFacts {
  const has = (field: string) => isWhole || field in body;
  if (module === 'locations') return 'publish' in body ? { publish: body.publish as boolean } : {};
  if (module === 'tokens') return { tokenType: 'RFID' };
  if (module === 'cdrs') {
    const sessionId = (body.session_id as string | undefined) ?? null;
    return { cdrToken: tokenFact(body.cdr_token), sessionId, authorizationReference: referenceIn(body) };
  }
  if (module === 'tariffs') return {};
  return {
    ...(has('cdr_token') && { cdrToken: tokenFact(body.cdr_token) }),
    ...(has('authorization_reference') && { authorizationReference: referenceIn(body) }),
    ...(typeof body.status === 'string' && { status: body.status }),
  };
}

export interface Pushed {
  readonly module: ObjectModule;
  readonly method: PushMethod;
  readonly owner: string;
  readonly id: string;
  readonly within?: readonly string[];
  /** Null for a DELETE. */
  readonly body: Json | null;
}

export function changeOf({ module, method, owner, id, within = [], body }: Pushed): ObjectChange {
  const isWhole = method !== 'PATCH' && within.length === 0;
  return {
    ...{ module, method, owner, id, within },
    lastUpdated: body === null ? null : String(body.last_updated),
    facts: body === null || within.length > 0 ? {} : factsOf(module, body, isWhole),
    body: body === null ? '' : JSON.stringify(body),
  };
}

export const objectReader: ObjectReader = {
  credentials: (text) => JSON.parse(text) as CredentialsBody,
  read(module, text) {
    const body = JSON.parse(text) as Json;
    const { country_code, party_id, id, last_updated } = body as Record<string, string>;
    return {
      ...{ country_code: country_code ?? '', party_id: party_id ?? '', id: id ?? '' },
      ...{ lastUpdated: last_updated ?? '', facts: factsOf(module, body, true), warnings: [], quirks: [] },
    };
  },
};

export const ownedBy = (owner: string): { country_code: string; party_id: string } => partsOf(owner);

/** Few, so that commands and sessions meet. */
export const references: readonly string[] = ['AR1', 'AR2'];

export const cardOf = (emsp: string): string => `CARD-${emsp}`;

/** `uid`: of a card of somebody else. */
export function cdrTokenOf(emsp: string, uid: string = cardOf(emsp)): Json {
  return { ...partsOf(emsp), uid, type: 'RFID', contract_id: `${emsp}-1` };
}
