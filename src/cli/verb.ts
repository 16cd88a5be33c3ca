/**
 * Builds the verbs that talk to a running hub: usage, options, examples, and a function that gets a client and a
 * screen. A noun groups verbs; a noun without a verb runs its first one.
 */
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { outcomeClasses } from '../domain/errors.ts';
import { moduleNames } from '../domain/modules.ts';
import { type Connection, Failure, HubClient } from './client.ts';
import { Screen } from './screen.ts';

export interface Context {
  readonly hub: HubClient;
  readonly screen: Screen;
}

export type Option = readonly [flags: string, description: string, parse?: (text: string, before?: unknown) => unknown];

export interface VerbSpec<Flags> {
  /** The verb and its arguments: `show <id>`. */
  readonly usage: string;
  readonly summary: string;
  readonly options?: readonly Option[];
  /** The verb works on files and calls no hub: of the options of all verbs it takes --json alone. */
  readonly isLocal?: boolean;
  /** Each without the leading `ocpi-hub`. */
  readonly examples: readonly string[];
  readonly run: (context: Context, args: readonly string[], flags: Flags) => Promise<void>;
}

interface CommonFlags extends Connection {
  readonly json?: boolean;
}

const common: readonly Option[] = [
  ['--url <url>', 'address of the hub [HUB_URL, default: http://127.0.0.1:8080]'],
  ['--token <token>', 'token of an operator [HUB_ADMIN_TOKEN]'],
  ['--data-dir <directory>', 'where admin-token is when no token is given [HUB_DATA_DIR, default: ./data]'],
  ['--reason <text>', 'why, for the audit log'],
  ['--json', "the hub's answer as it is"],
];

export const localJson: Option = ['--json', 'the result as JSON'];

/** The help of a noun prints one example of each of its verbs. */
const examplesByVerb = new WeakMap<Command, readonly string[]>();

export function verb<Flags extends object = object>(spec: VerbSpec<Flags>): Command {
  const [name = '', ...args] = spec.usage.split(' ');
  const command = new Command(name).description(spec.summary).addHelpText('after', examplesOf(spec.examples));
  examplesByVerb.set(command, spec.examples);
  for (const arg of args) command.argument(arg);
  const own = spec.options ?? [];
  const shared = spec.isLocal ? [localJson] : common;
  // The filter of a list may be a reason, too.
  addOptions(command, [...own, ...shared.filter((option) => !own.some(([flags]) => isSame(flags, option[0])))]);
  return command.action(async () => {
    // The noun accepts the common options too, so that they may precede the verb.
    const flags = command.optsWithGlobals<CommonFlags & Flags>();
    try {
      await spec.run(
        { hub: new HubClient(flags, process.env), screen: new Screen(flags.json === true) },
        command.args,
        flags,
      );
    } catch (error) {
      if (error instanceof Failure && error.exitCode === 2) {
        process.stderr.write(`ocpi-hub: ${error.message}\n`);
        throw new CommanderError(2, 'ocpi-hub.usage', error.message);
      }
      throw error;
    }
  });
}

/** Whether two options have the same long flag. */
function isSame(one: string, other: string): boolean {
  const [a, b] = [one, other].map((flags) => /--[\w-]+/.exec(flags)?.[0]);
  return a === b;
}

/** Groups verbs under a noun; the noun alone runs the first one. `options`: what all of its verbs take. */
export function noun(
  name: string,
  summary: string,
  verbs: readonly [Command, ...Command[]],
  options: readonly Option[] = common,
): Command {
  const command = new Command(name).description(summary);
  addOptions(command, options);
  const [bare, ...others] = verbs;
  const names = verbs.map((each) => each.name());
  command.hook('preSubcommand', () => {
    const [word = '-'] = command.args;
    if (word.startsWith('-') || names.includes(word)) return;
    command.error(`ocpi-hub: unknown word "${word}": ${name} takes ${names.join(', ')}`, { exitCode: 2 });
  });
  command.addCommand(bare, { isDefault: true });
  for (const other of others) command.addCommand(other);
  const examples = verbs.flatMap((each) => examplesByVerb.get(each)?.slice(0, 1) ?? []);
  command.addHelpText('after', `\nA bare "ocpi-hub ${name}" is "ocpi-hub ${name} ${bare.name()}".`);
  return command.addHelpText('after', examplesOf(examples));
}

function addOptions(command: Command, options: readonly Option[]): void {
  for (const [flags, description, parse] of options) {
    if (parse) command.option(flags, description, parse);
    else command.option(flags, description);
  }
}

function examplesOf(examples: readonly string[]): string {
  return ['', 'Examples:', ...examples.map((example) => `  $ ocpi-hub ${example}`)].join('\n');
}

export const eitherOf = new Intl.ListFormat('en-GB', { type: 'disjunction' });

/** The filters of every verb that finds deliveries. */
export const deliveryOptions: readonly Option[] = [
  ['--receiver <party>', 'owed to this party, for example NL-EMS'],
  ['--partner <partner>', 'owed to any party of this partner'],
  ['--sender <party>', 'sent by this party, for example NL-CPO'],
  ['--module <module>', eitherOf.format(moduleNames), oneOf(...moduleNames)],
  ['--class <class>', `by how the last attempt ended: ${eitherOf.format(outcomeClasses)}`, oneOf(...outcomeClasses)],
  ['--object <object>', '{cc}-{pid}/{id}, for example NL-CPO/101'],
];

/** The filters by time of every list that has them. */
export const timeOptions: readonly Option[] = [
  ['--from <instant>', 'from then on: 2026-01-31T12:00:00Z, 2026-01-31, or 2h for two hours ago', instant],
  ['--to <instant>', 'before then', instant],
];

/** The filters by one party in its role. */
export const pairOptions: readonly Option[] = [
  ['--emsp <party>', 'of this eMSP, for example NL-EMS'],
  ['--cpo <party>', 'of this CPO, for example NL-CPO'],
];

export const partyOption: Option = ['--party <party>', 'whose eMSP or CPO is this, or has this in its id'];

/** Parses a count of at least 1. */
export function count(text: string): number {
  const number = Number(text);
  if (!/^\d+$/.test(text) || number < 1 || !Number.isSafeInteger(number)) {
    throw new InvalidArgumentError('expected a whole number from 1');
  }
  return number;
}

/** Parses a position in the log, from 0. */
export function position(text: string): number {
  if (/^\d+$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  throw new InvalidArgumentError('expected a whole number from 0');
}

const unitMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Parses RFC 3339, a date (midnight UTC), or a span before now: `90s`, `15m`, `2h`, `1d`. */
export function instant(text: string): string {
  const at = instantIn(text, -1);
  if (at !== null) return at;
  throw new InvalidArgumentError('expected 2026-01-31T12:00:00Z, 2026-01-31, or a span before now such as 15m or 2h');
}

/** The last instant with a year of four digits, epoch ms. */
const lastMs = Date.parse('9999-12-31T23:59:59Z');

/** `towards`: -1 for a span before now, 1 for one from now. Null for any other text. */
function instantIn(text: string, towards: 1 | -1): string | null {
  const [, amount, unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? [];
  const isDate = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/.test(text);
  const spanMs = Number(amount) * (unitMs[unit] ?? 0);
  const at = amount ? Date.now() + towards * spanMs : isDate ? Date.parse(text) : Number.NaN;
  return at >= 0 && at <= lastMs ? new Date(at).toISOString() : null;
}

/** Parses an instant to come: RFC 3339, or a span from now such as `4h`. */
export function ahead(text: string): string {
  const at = instantIn(text, 1);
  if (at !== null && Date.parse(at) > Date.now()) return at;
  throw new InvalidArgumentError(
    'expected an instant to come: 2026-01-31T12:00:00Z, 2026-01-31, or a span from now such as 4h or 2d',
  );
}

/** Parses one of the given words, in any case. */
export function oneOf(...words: readonly string[]) {
  return (text: string): string => {
    const word = words.find((each) => each.toLowerCase() === text.toLowerCase());
    if (word === undefined) throw new InvalidArgumentError(`expected one of ${words.join(', ')}`);
    return word;
  };
}

/** Collects an option that may be given more than once. */
export const repeated = (text: string, before: unknown): readonly string[] => [
  ...((before as readonly string[] | undefined) ?? []),
  text,
];
