/**
 * A hub with life in it, for pages to be looked at: partners in every state, traffic, dead letters, a command that waits, a case that is
 * open. Real sockets; only the partners are simulated.
 */
import { cdrBody, locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { hubFor, type TestHub } from '../support/hub-in-process.ts';
import { admin, type PlainPartner, plainPartner, type Reply } from '../support/plain-partner.ts';

export interface Scene {
  readonly hub: TestHub;
  readonly viewerToken: string;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  readonly partners: readonly PlainPartner[];
  /** One more push of a session by some CPO; deliveries follow. */
  push(): Promise<void>;
}

/** Role, country, party id, name. */
const names = [
  ['CPO', 'NL', 'CPO', 'Laadnet Nederland'],
  ['EMSP', 'NL', 'EMS', 'Rijd & Laad'],
  ['CPO', 'DE', 'STR', 'Stromstelle'],
  ['CPO', 'BE', 'LAD', 'Laadpunt Vlaanderen'],
  ['CPO', 'FR', 'BOR', 'Borne Express'],
  ['CPO', 'AT', 'WAT', 'Wattwerk'],
  ['CPO', 'DK', 'LYN', 'Lynlader'],
  ['EMSP', 'DE', 'FAH', 'Fahrstrom'],
  ['EMSP', 'FR', 'VIF', 'Vif Mobilité'],
  ['EMSP', 'BE', 'VOL', 'Volt Club'],
  ['EMSP', 'CH', 'ALP', 'Alpenladen'],
  ['EMSP', 'SE', 'ELB', 'Elbilskort'],
] as const;

/** In order: the two that a session runs between come first. */
const refuses = 'FR-VIF';
const goesAway = 'BE-VOL';
const isPaused = 'CH-ALP';
const isSuspended = 'SE-ELB';

/** `pushes`: sessions that are pushed beforehand; half as many once some partners are away, paused or suspended. */
export async function scene(t: Parameters<typeof hubFor>[0], pushes = 14): Promise<Scene> {
  const viewerToken = 'viewer-token-of-the-scene';
  const env = {
    HUB_VIEWER_TOKEN: viewerToken,
    ...{ HUB_ORPHAN_GRACE_S: '0.2', HUB_ORPHAN_SWEEP_S: '0.5', HUB_COMMAND_RESULT_WINDOW_S: '600' },
    ...{ HUB_PROBE_INTERVAL_S: '1', HUB_OFFLINE_AFTER_S: '1', HUB_RETRY_SCHEDULE_S: '2,5,30' },
  };
  const hub = await hubFor(t, env);
  const partners: PlainPartner[] = [];
  for (const [role, countryCode, partyId, name] of names) {
    const id = `${countryCode}-${partyId}`;
    const answer = ({ path }: { path: string }): Reply => {
      if (path.includes('/commands/')) return { body: { result: 'ACCEPTED', timeout: 300 } };
      if (role === 'CPO' && path.includes('/sessions')) return { body: [] };
      return id === refuses && path.includes('/sessions/') ? { status: 404, text: '{"status_code":2003}' } : {};
    };
    const partner = await plainPartner({ role, countryCode, partyId, answer });
    t.teardown(() => partner.close());
    await partner.register(hub);
    await admin(hub, 'PATCH', `/parties/${id}`, { business_details: { name } });
    partners.push(partner);
  }
  const { adminToken } = hub;
  const cpos = partners.filter((_, index) => names[index]?.[0] === 'CPO');
  const emsps = partners.filter((_, index) => names[index]?.[0] === 'EMSP');
  for (const one of emsps) for (const cpo of cpos) await admin(hub, 'PUT', `/routes/${one.id}/${cpo.id}`, {});
  await admin({ url: hub.url, adminToken }, 'POST', '/parties', {
    roles: [{ role: 'CPO', country_code: 'NO', party_id: 'FJO', business_details: { name: 'Fjordlading' } }],
  });

  const [cpo, emsp] = [cpos[0], emsps[0]];
  if (!cpo || !emsp) throw new Error('the scene has no partners');
  for (const one of cpos) await stations(one);
  const drive = traffic(cpos, emsps);
  for (let times = 0; times < pushes; times++) await drive();
  await stopped(cpo, emsp);
  await started(emsp);
  await admin(hub, 'PATCH', `/parties/${isPaused}`, { paused: true });
  await admin(hub, 'POST', `/parties/${isSuspended}/suspend`);
  await partners.find(({ id }) => id === goesAway)?.close();
  for (let times = 0; times < pushes / 2; times++) await drive();
  return { hub, viewerToken, cpo, emsp, partners, push: drive };
}

const ownerOf = ({ id }: PlainPartner) => {
  const [country_code = '', party_id = ''] = id.split('-');
  return { country_code, party_id };
};

const now = () => new Date().toISOString();

async function pushed(cpo: PlainPartner, module: string, body: Record<string, unknown>): Promise<void> {
  const path = `/2.2.1/${module}/${cpo.id.replace('-', '/')}/${String(body.id)}`;
  const { json } = await cpo.call('PUT', path, body);
  if (json.status_code !== 1000) throw new Error(`PUT ${path}: ${JSON.stringify(json)}`);
}

async function stations(cpo: PlainPartner): Promise<void> {
  const own = { ...ownerOf(cpo), last_updated: now() };
  await pushed(cpo, 'tariffs', tariffBody('T-DAY', own));
  for (const id of ['LOC1', 'LOC2']) await pushed(cpo, 'locations', locationBody(`${id}`, own));
}

/** Sessions of every CPO with drivers of every eMSP, one step further each time. */
function traffic(cpos: readonly PlainPartner[], emsps: readonly PlainPartner[]): () => Promise<void> {
  let step = 0;
  return async () => {
    const cpo = cpos[step % cpos.length];
    const emsp = emsps[Math.floor(step / 2) % emsps.length];
    step++;
    if (!cpo || !emsp) return;
    const common = { ...ownerOf(cpo), last_updated: now() };
    const cdr_token = { ...ownerOf(emsp), uid: 'CARD1', type: 'RFID', contract_id: `${emsp.id}-C1` };
    const id = `S-${cpo.id}-${emsp.id}`;
    await pushed(cpo, 'sessions', sessionBody(id, { ...common, cdr_token, kwh: step / 10, status: 'ACTIVE' }));
    if (step % 7 === 0) {
      await cpo.call('POST', '/2.2.1/cdrs', cdrBody(`CDR-${step}`, { ...common, cdr_token, session_id: id }));
    }
  };
}

const commandPath = (name: string) => `/2.2.1/commands/${name}`;

/** Every CPO of the scene has the same ids, so the one that is meant is named. [D27] */
const toFirstCpo = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'CPO' };

async function accepted(emsp: PlainPartner, name: string, body: object): Promise<void> {
  const whole = { response_url: `${emsp.url}/results/1`, ...body };
  const { json } = await emsp.call('POST', commandPath(name), whole, toFirstCpo);
  if (json.status_code !== 1000) throw new Error(`${name}: ${JSON.stringify(json)}`);
}

/** A session that is stopped and whose end never comes: an orphan case. */
async function stopped(cpo: PlainPartner, emsp: PlainPartner): Promise<void> {
  await pushed(cpo, 'sessions', sessionBody('S-LOST', { ...ownerOf(cpo), last_updated: now() }));
  await accepted(emsp, 'STOP_SESSION', { session_id: 'S-LOST' });
}

/** A command whose result is still awaited. */
async function started(emsp: PlainPartner): Promise<void> {
  const token = {
    ...{ country_code: 'NL', party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'NL-EMS-C1', issuer: 'EMS' },
    ...{ valid: true, whitelist: 'ALLOWED', last_updated: now() },
  };
  await accepted(emsp, 'START_SESSION', { token, location_id: 'LOC1', evse_uid: 'EVSE1' });
}
