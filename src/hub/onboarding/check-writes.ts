/**
 * The steps of a check that change something at the partner: test objects of the hub's own party, which bear the name
 * of the check, and a command for a location that no CPO has.
 */
import { isPartRefusal } from '../../domain/errors.ts';
import { habits } from '../../domain/habits.ts';
import { below } from '../../domain/party.ts';
import { enumValue } from '../../domain/quirks.ts';
import type { OutboundCall } from '../ports/ports.ts';
import type { CheckRun, Step } from './check-run.ts';

export const writeSteps: readonly Step[] = [
  { name: 'a test location', writes: true, run: writeLocation },
  { name: 'a test tariff', writes: true, run: writeTariff },
  { name: 'a test CDR', writes: true, run: writeCdr },
  { name: 'a test token', writes: true, run: writeToken },
  { name: 'a test command', writes: true, run: sendCommand },
];

const id = 'OCPI-HUB-CHECK';

/** Sends a body to a receiver; whether it was taken. */
async function send(
  check: CheckRun,
  module: string,
  method: OutboundCall['method'],
  path: readonly string[],
  body: object | null,
): Promise<boolean> {
  const endpoint = check.endpoint(module, 'RECEIVER')?.url ?? '';
  const url = below(endpoint, path, module === 'tokens' ? 'type=RFID' : '');
  const text = body && JSON.stringify(body);
  const outcome = await check.call({ method, module, url, endpoint, body: text, emptyOk: true });
  const { class: met, httpStatus, message } = outcome;
  if (met === 'delivered') return true;
  const isGone = method === 'DELETE' && (httpStatus === 404 || httpStatus === 410);
  if (isGone) return true;
  const isRefusedPatch = method === 'PATCH' && isPartRefusal(module, outcome);
  const { counted } = habits['patch-405'];
  check.found(isRefusedPatch ? counted : 'write-refused', module, `${method} ${path.join('/')}: ${message}`);
  return false;
}

const now = ({ context }: CheckRun, addMs = 0) => new Date(context.ports.clock.wall() + addMs).toISOString();

const coordinates = { latitude: '52.09000', longitude: '5.12000' };

async function writeLocation(check: CheckRun): Promise<void> {
  if (!check.endpoint('locations', 'RECEIVER')) return;
  const { country_code, party_id } = check.hub;
  const last_updated = now(check);
  const connector = {
    id: '1',
    standard: 'IEC_62196_T2',
    format: 'SOCKET',
    power_type: 'AC_3_PHASE',
    max_voltage: 230,
    max_amperage: 16,
    last_updated,
  };
  const evse = { uid: `${id}-1`, status: 'PLANNED', connectors: [connector], last_updated };
  const location = {
    country_code,
    party_id,
    id,
    publish: false,
    name: 'Check of the hub',
    address: 'Nowhere 1',
    city: 'Utrecht',
    country: 'NLD',
    coordinates,
    time_zone: 'Europe/Amsterdam',
    evses: [evse],
    last_updated,
  };
  const path = [country_code, party_id, id];
  if (!(await send(check, 'locations', 'PUT', path, location))) return;
  await send(check, 'locations', 'PATCH', path, { name: 'Check of the hub, ended', last_updated: now(check, 1) });
  // OCPI has no DELETE of locations: an EVSE that is REMOVED stands for it.
  await send(check, 'locations', 'PUT', [...path, evse.uid], {
    ...evse,
    status: 'REMOVED',
    last_updated: now(check, 2),
  });
}

async function writeTariff(check: CheckRun): Promise<void> {
  if (!check.endpoint('tariffs', 'RECEIVER')) return;
  const { country_code, party_id } = check.hub;
  const elements = [{ price_components: [{ type: 'ENERGY', price: 0, step_size: 1 }] }];
  const tariff = { country_code, party_id, id, currency: 'EUR', elements, last_updated: now(check) };
  const path = [country_code, party_id, id];
  if (await send(check, 'tariffs', 'PUT', path, tariff)) await send(check, 'tariffs', 'DELETE', path, null);
}

async function writeCdr(check: CheckRun): Promise<void> {
  const emsp = check.partner.roles.find(({ role }) => role === 'EMSP');
  if (!emsp || !check.endpoint('cdrs', 'RECEIVER')) return;
  const [start, end] = [now(check, -60_000), now(check)];
  const { country_code, party_id } = check.hub;
  const token = { country_code: emsp.country_code, party_id: emsp.party_id, uid: id, type: 'OTHER', contract_id: id };
  await send(check, 'cdrs', 'POST', [], {
    country_code,
    party_id,
    id: `${id}-${start.replace(/\D/g, '')}`,
    start_date_time: start,
    end_date_time: end,
    cdr_token: token,
    auth_method: 'WHITELIST',
    currency: 'EUR',
    total_cost: { excl_vat: 0 },
    cdr_location: {
      id,
      address: 'Nowhere 1',
      city: 'Utrecht',
      country: 'NLD',
      coordinates,
      evse_uid: `${id}-1`,
      evse_id: '#NA',
      connector_id: '1',
      connector_standard: 'IEC_62196_T2',
      connector_format: 'SOCKET',
      connector_power_type: 'AC_3_PHASE',
    },
    charging_periods: [{ start_date_time: start, dimensions: [{ type: 'ENERGY', volume: 0 }] }],
    total_energy: 0,
    total_time: 0,
    remark: 'Check of the hub: nothing was charged',
    last_updated: end,
  });
}

async function writeToken(check: CheckRun): Promise<void> {
  if (!check.endpoint('tokens', 'RECEIVER')) return;
  const { country_code, party_id } = check.hub;
  const token = {
    country_code,
    party_id,
    uid: id,
    type: 'RFID',
    contract_id: id,
    issuer: 'Check of the hub',
    valid: false,
    whitelist: 'NEVER',
    last_updated: now(check),
  };
  const path = [country_code, party_id, id];
  if (!(await send(check, 'tokens', 'PUT', path, token))) return;
  await send(check, 'tokens', 'PATCH', path, { valid: false, last_updated: now(check, 1) });
}

async function sendCommand(check: CheckRun): Promise<void> {
  const endpoint = check.endpoint('commands', 'RECEIVER')?.url;
  const { context, hub } = check;
  if (endpoint === undefined || !check.partner.roles.some(({ role }) => role === 'CPO')) return;
  const { publicUrl } = context.settings;
  const token = { ...hub, uid: id, type: 'APP_USER', contract_id: id, issuer: 'Check of the hub', valid: true };
  const body = JSON.stringify({
    response_url: `${publicUrl}/ocpi/2.2.1/commands/callback/${context.ports.secrets.newId()}`,
    token: { ...token, whitelist: 'NEVER', last_updated: now(check) },
    location_id: `${id}-UNKNOWN`,
  });
  const url = below(endpoint, ['START_SESSION']);
  const asked = { method: 'POST', module: 'commands', url, endpoint, body, oneObject: 'result' } as const;
  const { class: met, data, message } = await check.call(asked);
  const result = enumValue((data as { result?: unknown } | null | undefined)?.result);
  if (met !== 'delivered' || typeof result !== 'string') check.found('command-failed', 'commands', message);
  else if (result === 'ACCEPTED') {
    check.found('command-accepted', 'commands', 'START_SESSION at an unknown location is ACCEPTED');
  }
}
