/**
 * A charging session from end to end through a hub, as named steps of a simulated CPO and eMSP: onboarding, catalogue,
 * authorization, start, meter readings, stop, CDR. The eMSP also pulls each object back and compares it with what the
 * CPO pushed. The demo shows the steps to people; tests run them one at a time, some with the hub killed between two.
 *
 * SESSION-PATH-1  A step uses only the hub's OCPI and admin interfaces.
 * SESSION-PATH-2  A step that waits is woken when an exchange with a simulated partner begins or ends; its time-out
 *     names what it waited for.
 */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { Location, Session, Tariff } from './bodies.ts';
import type { Copy } from './copies.ts';
import { type Cpo, type CpoOptions, type ReceivedCommand, startCpo } from './cpo.ts';
import { type Emsp, type SentCommand, startEmsp } from './emsp.ts';
import type { PartyName } from './hub-line.ts';
import type { Partner, PartnerOptions } from './partner.ts';

/** One request of the operator, for observers. */
export interface AdminCall {
  readonly method: string;
  readonly path: string;
  readonly status: number | null;
  readonly durationMs: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface PathOptions {
  readonly hubUrl: string;
  readonly adminToken: string;
  readonly cpo?: Partial<CpoOptions>;
  readonly emsp?: Partial<PartnerOptions>;
  /** Both partners repeat their requests while the hub is unavailable. The operator does not. */
  readonly retryUntilAnswered?: boolean;
  readonly onAdminCall?: (call: AdminCall) => void;
}

export interface PathContext {
  readonly hubUrl: string;
  readonly adminToken: string;
  readonly cpo: Cpo;
  readonly emsp: Emsp;
  readonly options: PathOptions;
  /** Results of earlier steps for later ones; of a charging session, those of the latest. */
  readonly made: {
    initialTokens: Map<string, string>;
    tariff?: Tariff;
    location?: Location;
    authorizationReference?: string;
    start?: SentCommand;
    started?: ReceivedCommand;
    session?: Session;
    stop?: SentCommand;
    stopped?: ReceivedCommand;
    cdrId?: string;
  };
  close(): Promise<void>;
}

/** Starts both partners; they listen and are unknown to the hub. */
export async function openPath(options: PathOptions): Promise<PathContext> {
  const { hubUrl, adminToken, retryUntilAnswered = false } = options;
  const common = { hubUrl, retryUntilAnswered };
  const cpo = await startCpo({
    country_code: 'NL',
    party_id: 'CPO',
    name: 'Laadnet Nederland',
    ...common,
    ...options.cpo,
  });
  const emsp = await startEmsp({ country_code: 'DE', party_id: 'EMS', name: 'Fahrstrom', ...common, ...options.emsp });
  const close = async () => {
    await Promise.all([cpo.close(), emsp.close()]);
  };
  return { hubUrl, adminToken, cpo, emsp, options, made: { initialTokens: new Map() }, close };
}

export interface Step {
  readonly name: string;
  readonly run: (context: PathContext) => Promise<void>;
}

const onboarding: readonly Step[] = [
  { name: 'The operator adds a CPO and an eMSP, and lets traffic flow between them', run: addParties },
  { name: 'The CPO registers', run: ({ cpo, made }) => cpo.register(made.initialTokens.get(cpo.id)) },
  { name: 'The eMSP registers', run: ({ emsp, made }) => emsp.register(made.initialTokens.get(emsp.id)) },
  { name: 'Each sees the other connected in hub client info', run: seeEachOther },
];

const catalogue: readonly Step[] = [
  { name: 'The CPO pushes a tariff and a location', run: pushCatalogue },
  { name: 'They arrive at the eMSP, byte for byte', run: awaitCatalogue },
  { name: 'The eMSP pulls them back, byte for byte', run: pullCatalogue },
];

export const charging: readonly Step[] = [
  { name: 'A driver holds a card to the station: the CPO asks the eMSP', run: authorize },
  { name: 'The driver starts from the app: START_SESSION is accepted', run: startSession },
  { name: 'The station reports its result, and the eMSP gets it', run: relayStartResult },
  { name: 'The session is PENDING, then ACTIVE, and the eMSP sees both', run: activate },
  { name: 'Meter readings reach the eMSP', run: readMeter },
  { name: 'The driver stops from the app: STOP_SESSION is accepted', run: stopSession },
  { name: 'The station reports that too', run: relayStopResult },
  { name: 'The session is COMPLETED', run: complete },
  { name: 'The CDR reaches the eMSP, byte for byte', run: bill },
  { name: 'The eMSP pulls session and CDR back: nothing lost, nothing changed', run: pullBack },
];

/** The path of partners that are registered and routed, in order. */
export const traffic: readonly Step[] = [...catalogue, ...charging];

/** The full path, in order. */
export const sessionPath: readonly Step[] = [...onboarding, ...traffic];

async function addParties(context: PathContext): Promise<void> {
  const { cpo, emsp, made } = context;
  for (const partner of [cpo, emsp]) {
    const { role, country_code, party_id } = partner;
    const roles = [{ role, country_code, party_id, business_details: { name: `Simulated ${role} ${partner.id}` } }];
    const added = (await admin(context, 'POST', '/parties', { roles })) as { initial_token: string };
    made.initialTokens.set(partner.id, added.initial_token);
  }
  await admin(context, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
}

async function seeEachOther({ cpo, emsp }: PathContext): Promise<void> {
  const look = async (viewer: Partner, seen: Partner) => {
    const { items } = await viewer.pull('hubclientinfo');
    const entry = (items as (PartyName & { status: string })[]).find((one) => sameParty(one, seen));
    expect(
      entry?.status === 'CONNECTED',
      `${seen.id} is ${entry?.status ?? 'missing'} in hub client info for ${viewer.id}`,
    );
  };
  await look(cpo, emsp);
  await look(emsp, cpo);
}

async function pushCatalogue({ cpo, made }: PathContext): Promise<void> {
  made.tariff = await cpo.pushTariff();
  const location = cpo.nextLocation();
  made.location = await cpo.pushLocation(location, inItsOwnHand(location));
}

/**
 * Formats JSON as no library would, with a field that OCPI does not define: the hub must forward it byte for byte.
 * [D17]
 */
function inItsOwnHand(location: Location): string {
  const text = JSON.stringify(location, null, 1);
  return `${text.slice(0, text.lastIndexOf('}'))},"x_roof": {"kWp":12.50, "note":"Sonnen\\u0064ach"} }`;
}

async function awaitCatalogue({ cpo, emsp, made }: PathContext): Promise<void> {
  if (emsp.has('not-subscribed')) return;
  for (const [module, object] of Object.entries({ tariffs: had(made.tariff), locations: had(made.location) })) {
    const sent = cpo.pushed.get(`${module}/${object.id}`);
    await emsp.until(`${module} ${object.id} as it was pushed`, () => emsp.copy(module, cpo, object.id)?.text === sent);
  }
}

async function pullCatalogue({ cpo, emsp, made }: PathContext): Promise<void> {
  for (const [module, object] of Object.entries({ tariffs: had(made.tariff), locations: had(made.location) })) {
    const { pages } = await emsp.pull(module);
    const sent = had(cpo.pushed.get(`${module}/${object.id}`));
    expect(
      pages.some((page) => page.includes(sent)),
      `the list of ${module} does not hold ${object.id} as it was pushed`,
    );
  }
}

async function authorize({ cpo, emsp, made }: PathContext): Promise<void> {
  const { data } = await cpo.authorize(emsp.driver.uid, emsp, { locationId: had(made.location).id });
  const { allowed, authorization_reference: reference } = data as {
    allowed?: string;
    authorization_reference?: string;
  };
  expect(allowed === 'ALLOWED', `the eMSP allows this token, but the CPO was told ${allowed}`);
  if (reference !== undefined) made.authorizationReference = reference;
}

async function startSession({ cpo, emsp, made }: PathContext): Promise<void> {
  const { id, evses } = had(made.location);
  const evse = had(evses[0]);
  const known = new Set(cpo.commands);
  made.start = await emsp.command('START_SESSION', {
    token: emsp.driver,
    location_id: id,
    evse_uid: evse.uid,
    connector_id: evse.connectors[0]?.id,
    ...(made.authorizationReference === undefined ? {} : { authorization_reference: made.authorizationReference }),
  });
  expect(made.start.result === 'ACCEPTED', `START_SESSION was answered ${made.start.result}`);
  made.started = await newCommand(cpo, known, 'START_SESSION');
  expect(!made.started.responseUrl.startsWith(emsp.url), 'the CPO was given the address of the eMSP itself');
}

async function relayStartResult({ cpo, emsp, made }: PathContext): Promise<void> {
  await relayResult(cpo, emsp, had(made.started), had(made.start));
}

async function activate({ cpo, emsp, made }: PathContext): Promise<void> {
  const session = await cpo.openSession(had(made.started));
  made.session = session;
  const sees = (status: string) =>
    emsp.until(`session ${session.id} ${status}`, () =>
      statusesOf(emsp.copy('sessions', cpo, session.id)).includes(status),
    );
  await sees('PENDING');
  await cpo.startCharging(session);
  await sees('ACTIVE');
}

async function readMeter({ cpo, emsp, made }: PathContext): Promise<void> {
  const session = had(made.session);
  for (const kwh of [1.25, 4.8, 11.375]) await cpo.meter(session, kwh);
  await sameSession(cpo, emsp, session);
}

async function stopSession({ cpo, emsp, made }: PathContext): Promise<void> {
  const known = new Set(cpo.commands);
  made.stop = await emsp.command('STOP_SESSION', { session_id: had(made.session).id });
  expect(made.stop.result === 'ACCEPTED', `STOP_SESSION was answered ${made.stop.result}`);
  made.stopped = await newCommand(cpo, known, 'STOP_SESSION');
}

async function relayStopResult({ cpo, emsp, made }: PathContext): Promise<void> {
  await relayResult(cpo, emsp, had(made.stopped), had(made.stop));
}

async function complete({ cpo, emsp, made }: PathContext): Promise<void> {
  const session = had(made.session);
  await cpo.completeCharging(session);
  await sameSession(cpo, emsp, session);
}

async function bill({ cpo, emsp, made }: PathContext): Promise<void> {
  const cdr = await cpo.bill(had(made.session));
  made.cdrId = cdr.id;
  const sent = cpo.pushed.get(`cdrs/${cdr.id}`);
  await emsp.until(`CDR ${cdr.id} as it was posted`, () => emsp.copy('cdrs', cpo, cdr.id)?.text === sent);
}

async function pullBack({ cpo, emsp, made }: PathContext): Promise<void> {
  const session = had(made.session);
  const sessions = await emsp.pull('sessions', { date_from: session.start_date_time });
  const found = (sessions.items as Session[]).find((one) => one.id === session.id && sameParty(one, cpo));
  expect(
    isDeepStrictEqual(asKept(cpo, found), asSent(cpo, session)),
    `session ${session.id} was pulled back in another state than the CPO's`,
  );
  const cdrs = await emsp.pull('cdrs', { date_from: session.start_date_time });
  const sent = had(cpo.pushed.get(`cdrs/${had(made.cdrId)}`));
  expect(
    cdrs.pages.some((page) => page.includes(sent)),
    `the list of CDRs does not hold ${made.cdrId} as it was posted`,
  );
}

/** Reports ACCEPTED as the CPO and waits until the eMSP receives it at the `response_url` that it gave. */
async function relayResult(cpo: Cpo, emsp: Emsp, received: ReceivedCommand, sent: SentCommand): Promise<void> {
  await cpo.reportResult(received);
  const [first] = await emsp.until(`the result of ${received.command}`, () => nonEmpty(emsp.resultsOf(sent.id)));
  expect(first?.result === 'ACCEPTED', `the result of ${received.command} arrived as ${first?.result}`);
}

/** Waits until the eMSP's merged copy equals the CPO's state. */
async function sameSession(cpo: Cpo, emsp: Emsp, session: Session): Promise<void> {
  const state = asSent(cpo, session);
  const what = `session ${session.id} with ${session.kwh} kWh, ${session.status}`;
  await emsp.until(what, () => isDeepStrictEqual(asKept(cpo, emsp.copy('sessions', cpo, session.id)?.state), state));
}

function newCommand(cpo: Cpo, known: ReadonlySet<ReceivedCommand>, name: string): Promise<ReceivedCommand> {
  return cpo.until(name, () => cpo.commands.find((one) => one.command === name && !known.has(one)));
}

function statusesOf(copy: Copy | undefined): string[] {
  return (copy?.arrivals ?? []).map(({ body }) =>
    ((JSON.parse(body || '{}') as { status?: string }).status ?? '').toUpperCase(),
  );
}

/** Sends a request of the operator and parses the answer; rejects unless it is a success. */
async function admin(context: PathContext, method: string, path: string, body: unknown): Promise<unknown> {
  const { hubUrl, adminToken, options } = context;
  const startedAt = performance.now();
  const headers = {
    authorization: `Bearer ${adminToken}`,
    'content-type': 'application/json',
    'x-request-id': randomUUID(),
  };
  const response = await fetch(`${hubUrl}/admin/v1${path}`, { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  const durationMs = performance.now() - startedAt;
  options.onAdminCall?.({ method, path: `/admin/v1${path}`, status: response.status, durationMs, headers });
  expect(response.ok, `${method} /admin/v1${path} was answered HTTP ${response.status}: ${text.slice(0, 200)}`);
  return text === '' ? null : JSON.parse(text);
}

function expect(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Error(otherwise);
}

/** The session as its CPO writes it. */
const asSent = (cpo: Cpo, session: Session): unknown =>
  asKept(cpo, JSON.parse(cpo.written(JSON.stringify(session), 'sessions')));

/** A session without the date that some CPOs leave out of a PATCH: then receivers keep an earlier one. */
function asKept(cpo: Cpo, session: object | null | undefined): unknown {
  return session && cpo.has('patch-without-date') ? { ...session, last_updated: undefined } : session;
}

const nonEmpty = <T>(list: readonly T[]) => (list.length > 0 ? list : null);

const sameParty = (one: PartyName, other: PartyName) =>
  one.country_code.toUpperCase() === other.country_code.toUpperCase() &&
  one.party_id.toUpperCase() === other.party_id.toUpperCase();

/** A value that an earlier step has made. */
function had<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('an earlier step has not been run');
  return value;
}
