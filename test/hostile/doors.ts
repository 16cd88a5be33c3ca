/**
 * One valid request for every door of the hub: what the generator of hostile input bends, and what the access matrix opens. A
 * door that has no row here fails the tests that use this table.
 */
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';

/** Whose token a request carries. `leaver` may be rotated, suspended and onboarded again without harm to the others. */
export type Actor = 'cpo' | 'emsp' | 'leaver' | 'admin' | 'nobody';

export interface Sample {
  readonly as: Actor;
  /** The path as it is asked for, with a query where the door needs one. */
  readonly path: string;
  readonly body?: (n: number) => object;
}

export const cpo = { countryCode: 'NL', partyId: 'CPO' } as const;
export const emsp = { countryCode: 'NL', partyId: 'EMS' } as const;
export const leaver = { countryCode: 'NL', partyId: 'LVR' } as const;

const at = '2026-01-02T03:04:05Z';
const evse = () => ({ uid: 'EVSE1', status: 'AVAILABLE', connectors: [], last_updated: at });
const connector = () => ({ id: '1', standard: 'IEC_62196_T2', format: 'SOCKET', last_updated: at });
const reference = () => ({ location_id: 'LOC1', evse_uids: ['EVSE1'] });

/** Filled in by whoever knows a URL and a token of the leaver. */
const credentials = () => ({
  token: 'leaver-token',
  url: 'http://leaver.invalid/ocpi/versions',
  roles: [{ role: 'CPO', country_code: 'NL', party_id: 'LVR', business_details: { name: 'Leaver' } }],
});

const startSession = (n: number) => ({
  response_url: `http://emsp.invalid/result/${n}`,
  token: { country_code: 'NL', party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'NL-EMS-C1' },
  ...{ location_id: 'LOC1', evse_uid: 'EVSE1', connector_id: '1', authorization_reference: `A${n}` },
});

const base = '/ocpi/2.2.1';
const location = `${base}/locations/NL/CPO/LOC1`;

/** By `METHOD path`, as the module table has them. */
export const ocpiSamples: Readonly<Record<string, Sample>> = {
  'GET /versions': { as: 'cpo', path: '/ocpi/versions' },
  'GET /2.2.1': { as: 'emsp', path: base },
  'GET /2.2.1/credentials': { as: 'leaver', path: `${base}/credentials` },
  'POST /2.2.1/credentials': { as: 'leaver', path: `${base}/credentials`, body: credentials },
  'PUT /2.2.1/credentials': { as: 'leaver', path: `${base}/credentials`, body: credentials },
  'DELETE /2.2.1/credentials': { as: 'leaver', path: `${base}/credentials` },
  'GET /2.2.1/hubclientinfo': { as: 'emsp', path: `${base}/hubclientinfo?limit=2` },
  'GET /2.2.1/locations': { as: 'emsp', path: `${base}/locations?date_from=${at}&limit=3&offset=1` },
  'GET /2.2.1/locations/:id': { as: 'emsp', path: `${base}/locations/LOC1` },
  'GET /2.2.1/locations/:id/:evse_uid': { as: 'emsp', path: `${base}/locations/LOC1/EVSE1` },
  'GET /2.2.1/locations/:country_code/:party_id/:id': { as: 'cpo', path: location },
  'PUT /2.2.1/locations/:country_code/:party_id/:id': { as: 'cpo', path: location, body: () => locationBody('LOC1') },
  'PATCH /2.2.1/locations/:country_code/:party_id/:id': {
    ...{ as: 'cpo', path: location },
    body: () => ({ name: 'Stationsplein', last_updated: at }),
  },
  'GET /2.2.1/locations/:country_code/:party_id/:id/:evse_uid': { as: 'cpo', path: `${location}/EVSE1` },
  'PUT /2.2.1/locations/:country_code/:party_id/:id/:evse_uid': { as: 'cpo', path: `${location}/EVSE1`, body: evse },
  'PATCH /2.2.1/locations/:country_code/:party_id/:id/:evse_uid': {
    ...{ as: 'cpo', path: `${location}/EVSE1` },
    body: () => ({ status: 'CHARGING', last_updated: at }),
  },
  'GET /2.2.1/locations/:country_code/:party_id/:id/:evse_uid/:connector_id': {
    ...{ as: 'cpo', path: `${location}/EVSE1/1` },
  },
  'PUT /2.2.1/locations/:country_code/:party_id/:id/:evse_uid/:connector_id': {
    ...{ as: 'cpo', path: `${location}/EVSE1/1`, body: connector },
  },
  'PATCH /2.2.1/locations/:country_code/:party_id/:id/:evse_uid/:connector_id': {
    ...{ as: 'cpo', path: `${location}/EVSE1/1` },
    body: () => ({ max_amperage: 16, last_updated: at }),
  },
  'GET /2.2.1/tariffs': { as: 'emsp', path: `${base}/tariffs?limit=2` },
  'GET /2.2.1/tariffs/:country_code/:party_id/:id': { as: 'cpo', path: `${base}/tariffs/NL/CPO/T1` },
  'PUT /2.2.1/tariffs/:country_code/:party_id/:id': {
    ...{ as: 'cpo', path: `${base}/tariffs/NL/CPO/T1` },
    body: () => tariffBody('T1'),
  },
  'DELETE /2.2.1/tariffs/:country_code/:party_id/:id': { as: 'cpo', path: `${base}/tariffs/NL/CPO/T1` },
  'GET /2.2.1/tokens': { as: 'cpo', path: `${base}/tokens?offset=0` },
  'GET /2.2.1/tokens/:country_code/:party_id/:uid': { as: 'emsp', path: `${base}/tokens/NL/EMS/CARD1?type=RFID` },
  'PUT /2.2.1/tokens/:country_code/:party_id/:uid': {
    ...{ as: 'emsp', path: `${base}/tokens/NL/EMS/CARD1` },
    body: () => tokenBody('CARD1'),
  },
  'PATCH /2.2.1/tokens/:country_code/:party_id/:uid': {
    ...{ as: 'emsp', path: `${base}/tokens/NL/EMS/CARD1?type=RFID` },
    body: () => ({ valid: false, last_updated: at }),
  },
  'POST /2.2.1/tokens/:uid/authorize': {
    ...{ as: 'cpo', path: `${base}/tokens/CARD1/authorize?type=RFID`, body: reference },
  },
  'PUT /2.2.1/tokens/:country_code/:party_id/:uid/authorize': {
    ...{ as: 'emsp', path: `${base}/tokens/NL/EMS/CARD1/authorize`, body: reference },
  },
  'GET /2.2.1/sessions': { as: 'emsp', path: `${base}/sessions?date_from=2020-01-01T00:00:00Z&limit=5` },
  'GET /2.2.1/sessions/:country_code/:party_id/:id': { as: 'emsp', path: `${base}/sessions/NL/CPO/S1` },
  'PUT /2.2.1/sessions/:country_code/:party_id/:id': {
    ...{ as: 'cpo', path: `${base}/sessions/NL/CPO/S1` },
    body: () => sessionBody('S1'),
  },
  'PATCH /2.2.1/sessions/:country_code/:party_id/:id': {
    ...{ as: 'cpo', path: `${base}/sessions/NL/CPO/S1` },
    body: (n) => ({ kwh: n, status: 'ACTIVE', last_updated: at }),
  },
  'GET /2.2.1/cdrs': { as: 'emsp', path: `${base}/cdrs?date_to=2030-01-01T00:00:00Z` },
  'POST /2.2.1/cdrs': { as: 'cpo', path: `${base}/cdrs`, body: (n) => cdrBody(`CDR${n}`) },
  'POST /2.2.1/cdrs/:country_code/:party_id': {
    ...{ as: 'cpo', path: `${base}/cdrs/NL/CPO` },
    body: (n) => cdrBody(`CDP${n}`),
  },
  'POST /2.2.1/cdrs/:country_code/:party_id/:id': {
    ...{ as: 'cpo', path: `${base}/cdrs/NL/CPO/CDR0` },
    body: () => cdrBody('CDR0'),
  },
  'GET /2.2.1/cdrs/:id': { as: 'emsp', path: `${base}/cdrs/CDR1` },
  'POST /2.2.1/commands/:command': { as: 'emsp', path: `${base}/commands/START_SESSION`, body: startSession },
  'POST /2.2.1/commands/callback/:command_id': {
    ...{ as: 'cpo', path: `${base}/commands/callback/00000000-0000-4000-8000-000000000000` },
    body: () => ({ result: 'ACCEPTED' }),
  },
};

const admin = '/admin/v1';

/** By `METHOD path`, as the route tables of the admin API have them. */
export const adminSamples: Readonly<Record<string, Sample>> = {
  'GET /history': { as: 'admin', path: `${admin}/history?step=hour` },
  'GET /parties/{id}/history': { as: 'admin', path: `${admin}/parties/NL-CPO/history` },
  'GET /parties/{id}/report/{month}': { as: 'admin', path: `${admin}/parties/NL-CPO/report/2026-05` },
  'GET /webhooks': { as: 'admin', path: `${admin}/webhooks?limit=5` },
  'GET /webhooks/{id}': { as: 'admin', path: `${admin}/webhooks/on-call` },
  'PUT /webhooks/{id}': {
    ...{ as: 'admin', path: `${admin}/webhooks/on-call` },
    body: () => ({ url: 'http://receiver.invalid/hook', kinds: ['partner.offline'], active: false }),
  },
  'DELETE /webhooks/{id}': { as: 'admin', path: `${admin}/webhooks/on-call` },
  'POST /webhooks/{id}/test': { as: 'admin', path: `${admin}/webhooks/on-call/test` },
  'POST /webhooks/{id}/redrive': { as: 'admin', path: `${admin}/webhooks/on-call/redrive` },
  'GET /audit': { as: 'admin', path: `${admin}/audit?operator=admin&limit=5` },
  'GET /audit/check': { as: 'admin', path: `${admin}/audit/check` },
  'POST /parties': {
    ...{ as: 'admin', path: `${admin}/parties` },
    body: (n) => {
      const partyId = (n % 46_656).toString(36).padStart(3, '0').toUpperCase();
      return { roles: [{ role: 'CPO', country_code: 'ZZ', party_id: partyId }], token_encoding: 'plain' };
    },
  },
  'GET /parties': { as: 'admin', path: `${admin}/parties?limit=2` },
  'POST /parties/{id}/check': { as: 'admin', path: `${admin}/parties/NL-LVR/check`, body: () => ({ write: false }) },
  'GET /checks': { as: 'admin', path: `${admin}/checks?party=NL-LVR` },
  'GET /checks/{id}': { as: 'admin', path: `${admin}/checks/nothing` },
  'GET /parties/{id}': { as: 'admin', path: `${admin}/parties/NL-LVR` },
  'PATCH /parties/{id}': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR` },
    body: () => ({ empty_2xx_ok: true, identity_mode: 'COMPATIBILITY', compatibility_until: '2030-01-01T00:00:00Z' }),
  },
  'POST /parties/{id}/portal-link': { as: 'admin', path: `${admin}/parties/NL-LVR/portal-link` },
  'POST /parties/{id}/initial-token': { as: 'admin', path: `${admin}/parties/NL-LVR/initial-token` },
  'POST /parties/{id}/connect': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR/connect` },
    body: () => ({ versions_url: 'http://leaver.invalid/versions', token: 'its-token' }),
  },
  'POST /parties/{id}/confirm-host': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR/confirm-host` },
    body: () => ({ host: 'leaver.invalid:443' }),
  },
  'PUT /parties/{id}/endpoints': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR/endpoints` },
    body: () => ({ endpoints: [{ identifier: 'tariffs', role: 'SENDER', url: 'http://leaver.invalid/tariffs' }] }),
  },
  'PUT /parties/{id}/roles': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR/roles` },
    body: () => ({ roles: [{ role: 'CPO', country_code: 'NL', party_id: 'LVR' }] }),
  },
  'POST /parties/{id}/probe': { as: 'admin', path: `${admin}/parties/NL-LVR/probe` },
  'POST /parties/{id}/circuits/{circuit}': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR/circuits/sync` },
    body: () => ({ state: 'closed' }),
  },
  'POST /parties/{id}/suspend': { as: 'admin', path: `${admin}/parties/NL-LVR/suspend` },
  'GET /routes': { as: 'admin', path: `${admin}/routes?limit=1` },
  'PUT /routes/{emsp}/{cpo}': {
    ...{ as: 'admin', path: `${admin}/routes/NL-EMS/NL-LVR` },
    body: () => ({ active: false }),
  },
  'DELETE /routes/{emsp}/{cpo}': { as: 'admin', path: `${admin}/routes/NL-EMS/NL-LVR` },
  'GET /views': { as: 'admin', path: `${admin}/views?limit=5` },
  'POST /views': {
    ...{ as: 'admin', path: `${admin}/views` },
    body: () => ({ name: 'dead', path: '/deliveries?state=DEAD' }),
  },
  'DELETE /views/{id}': { as: 'admin', path: `${admin}/views/none` },
  'GET /deliveries': { as: 'admin', path: `${admin}/deliveries?state=DEAD&from=${at}&receiver=NL-LVR&limit=5` },
  'GET /dead-letters': { as: 'admin', path: `${admin}/dead-letters` },
  'POST /dead-letters/{receiver}/{module}/{class}/triage': {
    ...{ as: 'admin', path: `${admin}/dead-letters/NL-EMS/sessions/timeout/triage` },
    body: () => ({ assignee: 'ann', snooze_until: at, remark: 'seen' }),
  },
  'GET /deliveries/{id}': { as: 'admin', path: `${admin}/deliveries/1-NL-EMS` },
  'POST /deliveries/{id}/redrive': {
    ...{ as: 'admin', path: `${admin}/deliveries/1-NL-EMS/redrive` },
    body: () => ({ force: false }),
  },
  'POST /redrive': {
    ...{ as: 'admin', path: `${admin}/redrive` },
    body: () => ({ filter: { state: 'DEAD', receiver: 'NL-LVR', from: at }, dry_run: true, rate_per_s: 1 }),
  },
  'POST /deliveries/{id}/discard': { as: 'admin', path: `${admin}/deliveries/1-NL-EMS/discard` },
  'POST /discard': {
    ...{ as: 'admin', path: `${admin}/discard` },
    body: () => ({ filter: { receiver: 'NL-LVR', class: 'timeout', from: at }, dry_run: true }),
  },
  'GET /redrives/{id}': { as: 'admin', path: `${admin}/redrives/1` },
  'DELETE /redrives/{id}': { as: 'admin', path: `${admin}/redrives/1` },
  'POST /parties/{id}/resync': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR/resync` },
    body: () => ({ module: 'tokens' }),
  },
  'GET /trace/{key}': { as: 'admin', path: `${admin}/trace/NL-CPO%2FS1` },
  'GET /trace/{party}/{id}': { as: 'admin', path: `${admin}/trace/NL-CPO/S1` },
  'GET /routes/explain': { as: 'admin', path: `${admin}/routes/explain?from=NL-CPO&to=NL-EMS&module=sessions` },
  'GET /events': { as: 'admin', path: `${admin}/events?after=1&type=object&limit=3` },
  'GET /commands': { as: 'admin', path: `${admin}/commands?limit=2` },
  'GET /commands/{id}': { as: 'admin', path: `${admin}/commands/none` },
  'POST /parties/{id}/pull/locations': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR/pull/locations` },
    body: () => ({ full: true, forward: false }),
  },
  'POST /parties/{id}/pull/tariffs': {
    ...{ as: 'admin', path: `${admin}/parties/NL-LVR/pull/tariffs` },
    body: () => ({ full: false }),
  },
  'GET /pulls': { as: 'admin', path: `${admin}/pulls?limit=2` },
  'GET /pulls/{id}': { as: 'admin', path: `${admin}/pulls/1` },
  'DELETE /pulls/{id}': { as: 'admin', path: `${admin}/pulls/1` },
  'GET /quarantine': { as: 'admin', path: `${admin}/quarantine?limit=2` },
  'GET /orphans': { as: 'admin', path: `${admin}/orphans?limit=2` },
  'POST /orphans/{id}/pull': { as: 'admin', path: `${admin}/orphans/none/pull` },
  'POST /orphans/{id}/triage': {
    ...{ as: 'admin', path: `${admin}/orphans/none/triage` },
    body: () => ({ assignee: null, remark: 'seen' }),
  },
  'POST /orphans/{id}/resolve': {
    ...{ as: 'admin', path: `${admin}/orphans/none/resolve` },
    body: () => ({ note: 'closed by hand' }),
  },
  'GET /reconciliation': { as: 'admin', path: `${admin}/reconciliation?from=2026-01-01T00:00:00Z` },
  'GET /stored-not-forwarded': { as: 'admin', path: `${admin}/stored-not-forwarded?limit=1` },
  'GET /cluster': { as: 'admin', path: `${admin}/cluster` },
  'GET /caller': { as: 'admin', path: `${admin}/caller` },
  // Never a directory that could be written to, not even when it is bent.
  'POST /backup': { as: 'admin', path: `${admin}/backup`, body: () => ({ directory: 'not-absolute' }) },
  'POST /subject': { as: 'admin', path: `${admin}/subject`, body: () => ({ uid: 'UNKNOWN-CARD' }) },
  'POST /erase': { as: 'admin', path: `${admin}/erase`, body: () => ({ uid: 'UNKNOWN-CARD', dry_run: true }) },
  'GET /backups/{id}': { as: 'admin', path: `${admin}/backups/1` },
  'GET /status': { as: 'admin', path: `${admin}/status` },
  'GET /parties/{id}/handshake': { as: 'admin', path: `${admin}/parties/NL-LVR/handshake` },
  'GET /parties/{id}/report': { as: 'admin', path: `${admin}/parties/NL-LVR/report` },
  'GET /overview': { as: 'admin', path: `${admin}/overview?after=x` },
};

/** Doors that stand in no table. */
export const otherSamples: Readonly<Record<string, Sample>> = {
  'GET /healthz': { as: 'nobody', path: '/healthz' },
  'GET /readyz': { as: 'nobody', path: '/readyz' },
  'GET /metrics': { as: 'admin', path: '/metrics' },
  'GET /admin/docs': { as: 'nobody', path: '/admin/docs' },
  'GET /console/': { as: 'nobody', path: '/console/' },
  'GET /portal/': { as: 'nobody', path: '/portal/' },
  'GET /admin/v1/openapi.json': { as: 'nobody', path: `${admin}/openapi.json` },
};

const portal = '/portal/v1';

/** Doors of the portal, as its partner NL-LVR asks at them. */
export const portalSamples: Readonly<Record<string, Omit<Sample, 'as'>>> = {
  'GET /caller': { path: `${portal}/caller` },
  'GET /checks': { path: `${portal}/checks` },
  'GET /deliveries': { path: `${portal}/deliveries?state=DEAD` },
  'GET /deliveries/{id}': { path: `${portal}/deliveries/1-NL-LVR` },
  'POST /deliveries/{id}/redrive': { path: `${portal}/deliveries/1-NL-LVR/redrive` },
  'GET /parties/{id}': { path: `${portal}/parties/NL-LVR` },
  'GET /parties/{id}/report': { path: `${portal}/parties/NL-LVR/report` },
  'POST /parties/{id}/check': { path: `${portal}/parties/NL-LVR/check` },
  'POST /parties/{id}/initial-token': { path: `${portal}/parties/NL-LVR/initial-token` },
};

/** Every sample by its `METHOD path`; admin paths with their prefix left out, as in their table. */
export const allSamples: Readonly<Record<string, Sample>> = { ...ocpiSamples, ...adminSamples, ...otherSamples };
