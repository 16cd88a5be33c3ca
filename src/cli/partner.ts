/**
 * `ocpi-hub partner`: runs one simulated CPO or eMSP against any hub, as a sandbox for onboarding. It registers; a CPO
 * pushes a tariff and a location, an eMSP starts a session when `--start-session` says so; then it answers requests
 * until a signal. Exit 0 stopped, 1 failed, 2 wrong usage.
 */
import { randomUUID } from 'node:crypto';
import { Command, InvalidArgumentError, Option } from 'commander';
import { habits } from '../domain/habits.ts';
import { keyOf } from '../domain/party.ts';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { parsedHttpUrl } from '../kit/url.ts';
import type { Location } from '../sandbox/bodies.ts';
import { newSession, newToken } from '../sandbox/bodies.ts';
import type { Copy } from '../sandbox/copies.ts';
import { type Cpo, startCpo } from '../sandbox/cpo.ts';
import { type Emsp, startEmsp } from '../sandbox/emsp.ts';
import { faults, namesOf } from '../sandbox/habits.ts';
import type { PartyName } from '../sandbox/hub-line.ts';
import { Narrator } from '../sandbox/narrate.ts';
import { runSessions } from '../sandbox/traffic.ts';
import { repeated } from './verb.ts';

interface PartnerFlags {
  readonly role: 'CPO' | 'EMSP';
  readonly hub: string;
  readonly token: string;
  readonly countryCode: string;
  readonly partyId?: string;
  readonly host: string;
  readonly port: number;
  readonly publicUrl?: string;
  readonly plainToken?: boolean;
  readonly startSession?: PartyName;
  /** How long that session lasts, milliseconds; absent: until the CPO ends it. */
  readonly stopAfter?: number;
  readonly driverOf?: PartyName;
  readonly answer?: readonly string[];
  readonly send?: readonly string[];
  /** From one session to the next, milliseconds. */
  readonly sessions?: number;
}

export function command(): Command {
  return new Command('partner')
    .description('run one simulated partner against any hub')
    .addOption(new Option('--role <role>', 'what it is').choices(['CPO', 'EMSP']).makeOptionMandatory())
    .requiredOption('--hub <url>', 'base address of the hub, without /ocpi', webAddress)
    .requiredOption('--token <token>', 'initial token that the operator of the hub issued')
    .option('--country-code <code>', 'its country_code', matching(/^[A-Za-z]{2}$/, 'two letters'), 'NL')
    .option(
      '--party-id <id>',
      'its party_id (default: CPO or EMS)',
      matching(/^[A-Za-z0-9]{1,3}$/, 'one to three letters or digits'),
    )
    .option('--host <address>', 'where it listens', '127.0.0.1')
    .option('--port <port>', 'port it listens on; 0 takes any free one', port, 0)
    .option('--public-url <url>', 'where the hub reaches it, when that is not where it listens', webAddress)
    .option('--plain-token', 'send tokens as they are instead of in base64')
    .option('--start-session <cpo>', 'eMSP: start a session at a location of this CPO, for example NL-CPO', party)
    .option('--stop-after <seconds>', 'eMSP: stop that session after so long, and wait for its CDR', seconds)
    .option('--sessions <rate>', 'CPO: begin sessions of its own at this rate, for example 1/s, 30/m or 5/h', rate)
    .option('--driver-of <emsp>', 'CPO: whose driver the CDR of early-cdr names (default: NL-EMS)', party)
    .option('--answer <habit>', 'how it answers, once registered: a fault or a habit; may be given again', repeated)
    .option('--send <habit>', 'how it sends: a habit; may be given again', repeated)
    .addHelpText('after', choices())
    .action(async (flags: PartnerFlags, command: Command) => {
      const problem = problemOf(flags);
      if (problem !== null) command.error(`error: ${problem}`, { exitCode: 2 });
      process.exit(await run(flags));
    });
}

async function run(flags: PartnerFlags): Promise<number> {
  const narrator = new Narrator(process.stdout, process.env);
  const stopAsked = new Promise<void>((resolve) => {
    process.once('SIGINT', () => resolve()).once('SIGTERM', () => resolve());
  });
  let partner: Cpo | Emsp | null = null;
  try {
    partner = await start(flags);
    narrator.follow(partner);
    narrator.line(`${flags.role} ${partner.id} listens on ${narrator.paint('cyan', partner.url)}`);
    narrator.step('It registers');
    await partner.register();
    if (partner.role === 'CPO') {
      narrator.step('It pushes a tariff and a location');
      await partner.pushTariff();
      const location = await partner.pushLocation();
      if (partner.has('early-cdr'))
        await postEarlyCdr(partner, location, flags.driverOf ?? { country_code: 'NL', party_id: 'EMS' });
    }
    if (partner.role === 'EMSP') {
      narrator.step("It pushes its drivers' tokens");
      // Two, so that a list with a limit has a second page.
      await partner.pushToken(partner.driver);
      await partner.pushToken(newToken(partner, partner.stamp()));
    }
    if (partner.role === 'CPO' && flags.sessions) {
      const onProblem = (problem: string) => narrator.line(problem);
      runSessions(partner, { everyMs: flags.sessions, onProblem });
    }
    if (partner.role === 'EMSP' && flags.startSession) {
      const { id } = partner;
      narrator.step(`It starts a session at ${keyOf(flags.startSession)}`);
      const session = await Promise.race([startSession(partner, flags.startSession), stopAsked]);
      if (session) narrator.line(`${id} charges in session ${narrator.paint('cyan', session)}`);
      if (session && flags.stopAfter !== undefined) {
        await Promise.race([sleep(systemClock, flags.stopAfter), stopAsked]);
        narrator.step('It stops the session');
        const cdr = await Promise.race([stopSession(partner, session, flags.startSession), stopAsked]);
        if (cdr) narrator.line(`${session} is billed by ${narrator.paint('cyan', cdr)}`);
      }
    }
    narrator.step('It answers what it is asked, until Ctrl-C');
    await stopAsked;
    return 0;
  } catch (error) {
    process.stderr.write(`ocpi-hub: ${error instanceof Error ? error.message : String(error)}\n`);
    return 1;
  } finally {
    await partner?.close();
  }
}

function start(flags: PartnerFlags): Promise<Cpo | Emsp> {
  const { role, hub, token, countryCode, partyId, host, port, publicUrl } = flags;
  const options = {
    country_code: countryCode.toUpperCase(),
    party_id: (partyId ?? role.slice(0, 3)).toUpperCase(),
    hubUrl: hub,
    initialToken: token,
    host,
    port,
    tokenEncoding: flags.plainToken ? ('plain' as const) : ('base64' as const),
    habits: [...(flags.answer ?? []), ...(flags.send ?? [])],
    ...(publicUrl === undefined ? {} : { publicUrl }),
  };
  return role === 'CPO' ? startCpo({ ...options, carriesOutCommands: 'itself' }) : startEmsp(options);
}

const arrivalMs = 60_000;
const lookEveryMs = 5_000;

/**
 * Starts a session at the CPO's first location, waiting for one to arrive. Resolves to `NL-CPO/{id}` when the session
 * is ACTIVE.
 */
async function startSession(emsp: Emsp, cpo: PartyName): Promise<string> {
  const owner = keyOf(cpo);
  const location = await locationOf(emsp, owner);
  const [evse] = location.evses;
  const reference = randomUUID();
  const common = { token: emsp.driver, location_id: location.id, authorization_reference: reference };
  const fields = evse ? { ...common, evse_uid: evse.uid } : common;
  const before = new Set(emsp.copies.of('sessions').map(({ id }) => id));
  const { result } = await emsp.command('START_SESSION', fields, cpo);
  if (result !== 'ACCEPTED') throw new Error(`${owner} answered START_SESSION with ${result}`);
  const isActive = ({ state }: Copy) => String(state?.status).toUpperCase() === 'ACTIVE';
  // A CPO that leaves out the reference of the command is taken at its word that a command started the session.
  const isStarted = ({ id, state }: Copy) =>
    state?.authorization_reference == null
      ? String(state?.auth_method).toUpperCase() === 'COMMAND' && !before.has(id)
      : state.authorization_reference === reference;
  const active = () =>
    emsp.copies.of('sessions').find((copy) => copy.owner === owner && isActive(copy) && isStarted(copy));
  const { id } = await emsp.until(`an active session of ${owner}`, active, arrivalMs);
  return `${owner}/${id}`;
}

/** The CPO's first location, from the list or as it is pushed: a rule that is made later pushes nothing of before. */
async function locationOf(emsp: Emsp, owner: string): Promise<Location> {
  const pushed = () => emsp.copies.of('locations').find((copy) => copy.owner === owner)?.state as Location | undefined;
  for (let waited = 0; waited < arrivalMs; waited += lookEveryMs) {
    const { items } = await emsp.pull('locations');
    const pulled = (items as Location[]).find((location) => keyOf(location) === owner);
    const found = pulled ?? (await emsp.until(`a location of ${owner}`, pushed, lookEveryMs).catch(() => null));
    if (found) return found;
  }
  throw new Error(`waited ${arrivalMs / 1_000} s in vain for a location of ${owner}`);
}

/** Stops a session, named `NL-CPO/{id}`, and resolves to the id of the CDR that bills it. */
async function stopSession(emsp: Emsp, name: string, cpo: PartyName): Promise<string> {
  const session_id = name.slice(name.indexOf('/') + 1);
  const { result } = await emsp.command('STOP_SESSION', { session_id }, cpo);
  if (result !== 'ACCEPTED') throw new Error(`${keyOf(cpo)} answered STOP_SESSION with ${result}`);
  const billed = () => emsp.copies.of('cdrs').find(({ state }) => state?.session_id === session_id);
  return (await emsp.until(`the CDR of ${name}`, billed, arrivalMs)).id;
}

/** A CDR of a session that was charged before the hub knew of it. */
async function postEarlyCdr(cpo: Cpo, location: Location, emsp: PartyName): Promise<void> {
  const token = { ...emsp, uid: 'EARLY', type: 'RFID', contract_id: `${keyOf(emsp)}-EARLY` };
  const session = { ...newSession(cpo, cpo.stamp(), token, location), kwh: 4.5, status: 'COMPLETED' };
  await cpo.bill(session);
}

/** What is wrong with the flags together; null when nothing is. */
function problemOf({ role, startSession, stopAfter, sessions, answer = [], send = [] }: PartnerFlags): string | null {
  if (startSession && role !== 'EMSP') return 'only an EMSP takes --start-session';
  if (stopAfter !== undefined && !startSession) return '--stop-after needs --start-session';
  if (sessions && role !== 'CPO') return 'only a CPO takes --sessions';
  const given = { answers: ['--answer', answer], sends: ['--send', send] } as const;
  for (const kind of ['answers', 'sends'] as const) {
    const [flag, names] = given[kind];
    const known = namesOf(kind, role);
    const unknown = names.find((name) => !known.includes(name));
    if (unknown !== undefined)
      return `${flag} ${unknown}: expected of ${role === 'CPO' ? 'a CPO' : 'an eMSP'} one of ${known.join(', ')}`;
  }
  return null;
}

/** The habits for the help, each with what it does. */
function choices(): string {
  const listed = (kind: 'answers' | 'sends') => {
    const own = new Set([...namesOf(kind, 'CPO'), ...namesOf(kind, 'EMSP')]);
    const does = Object.entries(habits).filter(([name]) => own.has(name));
    return does.map(([name, habit]) => `  ${name.padEnd(20)} ${habit.does}`);
  };
  return [
    `\nFaults for --answer: ${Object.keys(faults).join(', ')}`,
    ...['\nHabits for --answer:', ...listed('answers')],
    ...['\nHabits for --send:', ...listed('sends')],
  ].join('\n');
}

function rate(text: string): number {
  const [, count, unit = ''] = /^(\d+(?:\.\d+)?)\/([smh])$/.exec(text) ?? [];
  const unitMs = { s: 1_000, m: 60_000, h: 3_600_000 }[unit];
  if (!unitMs || !(Number(count) > 0)) throw new InvalidArgumentError('expected a rate such as 1/s, 30/m or 5/h');
  return unitMs / Number(count);
}

function seconds(text: string): number {
  if (!/^\d{1,5}$/.test(text)) throw new InvalidArgumentError('expected a number of seconds');
  return Number(text) * 1_000;
}

function party(text: string): PartyName {
  const [, country_code, party_id] = /^([A-Za-z]{2})-([A-Za-z0-9]{1,3})$/.exec(text) ?? [];
  if (!country_code || !party_id) throw new InvalidArgumentError('expected a party such as NL-CPO');
  return { country_code, party_id };
}

function webAddress(text: string): string {
  if (parsedHttpUrl(text) === null) throw new InvalidArgumentError('expected an http or https URL');
  return text.replace(/\/+$/, '').replace(/\/ocpi(\/versions)?$/, '');
}

function port(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0 || number > 65_535) throw new InvalidArgumentError('expected 0 to 65535');
  return number;
}

const matching = (pattern: RegExp, expected: string) => (text: string) => {
  if (!pattern.test(text)) throw new InvalidArgumentError(`expected ${expected}`);
  return text;
};
