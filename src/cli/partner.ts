/**
 * `ocpi-hub partner`: runs one simulated CPO or eMSP against any hub, as a sandbox for onboarding. It registers; a CPO
 * pushes a tariff and a location, an eMSP starts a session when `--start-session` says so; then it answers requests
 * until a signal. Exit 0 stopped, 1 failed, 2 wrong usage.
 */
import { Command, InvalidArgumentError, Option } from 'commander';
import { keyOf } from '../domain/party.ts';
import { parsedUrl } from '../kit/url.ts';
import type { Location } from '../sandbox/bodies.ts';
import { type Cpo, startCpo } from '../sandbox/cpo.ts';
import { type Emsp, startEmsp } from '../sandbox/emsp.ts';
import type { PartyName } from '../sandbox/hub-line.ts';
import { Narrator } from '../sandbox/narrate.ts';

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
    .action(async (flags: PartnerFlags, command: Command) => {
      if (flags.startSession && flags.role !== 'EMSP') command.error('error: only an EMSP takes --start-session');
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
      await partner.pushLocation();
    }
    if (partner.role === 'EMSP' && flags.startSession) {
      const { id } = partner;
      narrator.step(`It starts a session at ${keyOf(flags.startSession)}`);
      const session = await Promise.race([startSession(partner, flags.startSession), stopAsked]);
      if (session) narrator.line(`${id} charges in session ${narrator.paint('cyan', session)}`);
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
    ...(publicUrl === undefined ? {} : { publicUrl }),
  };
  return role === 'CPO' ? startCpo({ ...options, carriesOutCommands: 'itself' }) : startEmsp(options);
}

const arrivalMs = 60_000;

/**
 * Starts a session at the CPO's first location, waiting for one to arrive. Resolves to `NL-CPO/{id}` when the session
 * is ACTIVE.
 */
async function startSession(emsp: Emsp, cpo: PartyName): Promise<string> {
  const owner = keyOf(cpo);
  const { items } = await emsp.pull('locations');
  const isTheirs = (location: Location) => keyOf(location) === owner;
  const pulled = (items as Location[]).find(isTheirs);
  // A location added after the list was read arrives as a push.
  const pushed = () => emsp.copies.of('locations').find((copy) => copy.owner === owner)?.state;
  const location = pulled ?? ((await emsp.until(`a location of ${owner}`, pushed, arrivalMs)) as Location);
  const [evse] = location.evses;
  const fields = { token: emsp.driver, location_id: location.id, ...(evse && { evse_uid: evse.uid }) };
  const { result } = await emsp.command('START_SESSION', fields, cpo);
  if (result !== 'ACCEPTED') throw new Error(`${owner} answered START_SESSION with ${result}`);
  const active = () =>
    emsp.copies.of('sessions').find((copy) => copy.owner === owner && copy.state?.status === 'ACTIVE');
  const { id } = await emsp.until(`an active session of ${owner}`, active, arrivalMs);
  return `${owner}/${id}`;
}

function party(text: string): PartyName {
  const [, country_code, party_id] = /^([A-Za-z]{2})-([A-Za-z0-9]{1,3})$/.exec(text) ?? [];
  if (!country_code || !party_id) throw new InvalidArgumentError('expected a party such as NL-CPO');
  return { country_code, party_id };
}

function webAddress(text: string): string {
  if (parsedUrl(text) === null || !/^https?:/.test(text))
    throw new InvalidArgumentError('expected an http or https URL');
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
