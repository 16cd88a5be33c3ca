/**
 * The Commands module: commands of eMSPs, and the callbacks by which CPOs send the results. [interface, Commands;
 * D26–D29]
 *
 * The CPO gets the body byte for byte, except that `response_url` becomes the hub's callback. [D17, Commands 2] The
 * eMSP gets the CPO's answer unchanged. [D72]
 */
import { HubError } from '../../domain/errors.ts';
import { type CommandName, commandNames } from '../../domain/events.ts';
import { members, slice } from '../../domain/json-text.ts';
import { replaceField } from '../../domain/object.ts';
import { enumValue, type Quirk, quirksWarnedOf } from '../../domain/quirks.ts';
import type { Hub, TokenParty } from '../../hub/ports/hub.ts';
import { commandToken } from '../../transport/shapes.ts';
import {
  type Checked,
  check,
  ciString,
  dateTime,
  httpUrl,
  identifier,
  may,
  must,
  object,
} from '../../transport/types.ts';
import { cpoElseInvalidToken, emsp } from '../caller.ts';
import { bodyOf, checkedBody, refuseAmbiguous } from '../objects.ts';
import { type Answer, done, type Exchange, type OcpiModule, stored, version } from '../route.ts';

/** Size limit of a CommandResult, bytes: its messages have at most 512 characters each. */
const resultBytesMax = 64 * 1024;

export const commands: OcpiModule = {
  identifier: 'commands',
  roles: ['RECEIVER'],
  routes: [
    {
      method: 'POST',
      path: `/${version}/commands/:command`,
      by: emsp,
      budget: 'commands',
      isAwaited: true,
      handle: forwardCommand,
    },
    {
      method: 'POST',
      path: `/${version}/commands/callback/:command_id`,
      by: cpoElseInvalidToken,
      budget: 'other',
      bodyMax: resultBytesMax,
      isAwaited: true,
      handle: takeResult,
    },
  ],
};

/** The fields that the hub reads; each command has some of them. */
interface CommandBody {
  readonly response_url: string;
  readonly token?: TokenParty & { readonly uid: string };
  readonly location_id?: string;
  readonly evse_uid?: string | null | undefined;
  readonly connector_id?: string | null | undefined;
  readonly session_id?: string;
  readonly reservation_id?: string;
  readonly expiry_date?: string;
  readonly authorization_reference?: string | null | undefined;
}

const response_url = must(httpUrl);
const location_id = must(identifier(36));
const atLocation = {
  location_id,
  evse_uid: may(ciString(36)),
  connector_id: may(ciString(36)),
  authorization_reference: may(ciString(36)),
};

const bodies: Readonly<Record<CommandName, Checked<CommandBody>>> = {
  START_SESSION: object({
    response_url,
    token: must(commandToken),
    ...atLocation,
  }),
  STOP_SESSION: object({ response_url, session_id: must(identifier(36)) }),
  RESERVE_NOW: object({
    response_url,
    token: must(commandToken),
    expiry_date: must(dateTime),
    reservation_id: must(identifier(36)),
    ...atLocation,
  }),
  CANCEL_RESERVATION: object({ response_url, reservation_id: must(identifier(36)) }),
  UNLOCK_CONNECTOR: object({
    response_url,
    location_id,
    evse_uid: must(identifier(36)),
    connector_id: must(identifier(36)),
  }),
};

async function forwardCommand(hub: Hub, exchange: Exchange): Promise<Answer> {
  const command = commandNames.find((name) => name === exchange.params.command);
  if (command === undefined) {
    throw new HubError('unknownCommand', { message: `Unknown command: expected one of ${commandNames.join(', ')}` });
  }
  const checked = checkedBody(exchange, bodies[command]);
  const { text, notes } = checked;
  const body = ownFields(checked.body, bodies[command]);
  const to = exchange.to();
  const quirks: Quirk[] = exchange.isToHub() ? ['to-hub'] : [];
  if (body.token && !(body.token.country_code && body.token.party_id)) quirks.push('token-without-party');
  hub.used(aboutCommands(exchange), quirks);
  hub.warned(aboutCommands(exchange), notes);
  const request = {
    command,
    to,
    responseUrl: body.response_url,
    locationId: body.location_id ?? null,
    within: body.evse_uid ? [body.evse_uid, ...(body.connector_id ? [body.connector_id] : [])] : [],
    sessionId: body.session_id ?? null,
    reservationId: body.reservation_id ?? null,
    ...(body.expiry_date !== undefined && { expiryDate: body.expiry_date }),
    tokenUid: body.token?.uid ?? null,
    tokenParty: body.token,
    authorizationReference: body.authorization_reference ?? null,
    quirks: [...quirks, ...quirksWarnedOf(notes)],
    bodyFor: (callbackUrl: string) => replaceField(text, 'response_url', callbackUrl),
  };
  const { text: answer } = await hub.command(exchange.caller, request, exchange.reading);
  return stored(answer);
}

/** The view without fields of other commands, which some clients send with every command, some of them empty. [TYPES-6] */
function ownFields<T extends object>(view: T, { names = [] }: Checked<T>): T {
  return Object.fromEntries(Object.entries(view).filter(([name]) => names.includes(name))) as T;
}

const aboutCommands = ({ caller }: Exchange) => ({ partner: caller.partner.id, module: 'commands', object: null });

// Callbacks

const commandResult = object({ result: must(identifier(255)) });

async function takeResult(hub: Hub, exchange: Exchange): Promise<Answer> {
  const { credential, caller, params } = exchange;
  const result = unwrapped(exchange);
  const { body } = check(commandResult, JSON.parse(result));
  refuseAmbiguous(result, commandResult);
  const { text, hasMark } = bodyOf(exchange);
  const read = String(enumValue(body.result));
  const quirks: Quirk[] = hasMark ? ['byte-order-mark'] : [];
  if (result !== text) quirks.push('enveloped-callback');
  if (exchange.isFromOther()) quirks.push('foreign-sender');
  if (read !== body.result) quirks.push('lower-case');
  hub.used(aboutCommands(exchange), quirks);
  await hub.callback(credential, params.command_id ?? '', result, read, caller.trace, quirks);
  return done();
}

/** The text of the CommandResult, taken out of the envelope that some CPOs wrap it in. [D29] */
function unwrapped(exchange: Exchange): string {
  const { text, value } = bodyOf(exchange);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return text;
  if (Object.hasOwn(value, 'result') || !Object.hasOwn(value, 'status_code')) return text;
  const inner = members(text).get('data');
  return inner ? slice(text, inner) : text;
}
