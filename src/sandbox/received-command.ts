/** A command as a simulated CPO receives it, and its immediate answer. */
import { randomUUID } from 'node:crypto';
import type { PartyName } from './hub-line.ts';
import type { Request } from './server.ts';

export interface ReceivedCommand {
  readonly id: string;
  readonly command: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly responseUrl: string;
  /** The eMSP, from `OCPI-from-*`. */
  readonly from: PartyName;
  /** Result in the immediate answer. */
  readonly result: string;
}

/** The CPO's objects, by id. */
export interface Known {
  readonly locations: ReadonlyMap<string, unknown>;
  readonly sessions: ReadonlyMap<string, unknown>;
}

type Fields = Readonly<Record<string, unknown>>;

const atKnownLocation = (body: Fields, known: Known) =>
  known.locations.has(String(body.location_id)) ? 'ACCEPTED' : 'REJECTED';

const answers: Readonly<Record<string, (body: Fields, known: Known) => string>> = {
  START_SESSION: atKnownLocation,
  STOP_SESSION: (body, known) => (known.sessions.has(String(body.session_id)) ? 'ACCEPTED' : 'UNKNOWN_SESSION'),
  RESERVE_NOW: atKnownLocation,
  CANCEL_RESERVATION: () => 'ACCEPTED',
  UNLOCK_CONNECTOR: atKnownLocation,
};

/** Parses a command; null when OCPI does not define it. */
export function readCommand({ params, body, headers }: Request, known: Known): ReceivedCommand | null {
  const fields = JSON.parse(body) as Fields;
  const { command = '' } = params;
  const result = answers[command]?.(fields, known);
  if (result === undefined) return null;
  const header = (name: string) => String(headers[name] ?? '');
  const from = { country_code: header('ocpi-from-country-code'), party_id: header('ocpi-from-party-id') };
  return { id: randomUUID(), command, body: fields, responseUrl: String(fields.response_url), from, result };
}
