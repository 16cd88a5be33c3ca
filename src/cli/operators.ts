/**
 * `ocpi-hub operators`: edits HUB_OPERATORS_FILE on the machine of the hub; it talks to no hub. A running hub reads the
 * file again on SIGHUP.
 *
 * CLI-OPERATORS-1  A changed file keeps its owner: run by root, it would else be one that the hub cannot read.
 */
import { randomBytes } from 'node:crypto';
import { chmodSync, chownSync, existsSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { Command, Option } from 'commander';
import { operatorRoles } from '../api/audit.ts';
import type { Operator } from '../api/operators.ts';
import { dayMs } from '../kit/clock.ts';
import { digestOfToken, operatorIn, readOperators } from '../operators.ts';
import { Failure } from './client.ts';
import { Screen } from './screen.ts';
import { type Column, when } from './table.ts';
import { count } from './verb.ts';

interface Flags {
  readonly file?: string;
  readonly json?: boolean;
}

interface AddFlags extends Flags {
  readonly role: Operator['role'];
  readonly days?: number;
  readonly network?: readonly string[];
}

const columns: readonly Column<Omit<Operator, 'token_digest'>>[] = [
  { title: 'name', of: ({ name }) => name },
  { title: 'role', of: ({ role }) => role },
  { title: 'token ends', of: ({ expires_at }, now) => (expires_at === null ? 'never' : when(expires_at, now)) },
  { title: 'from', of: ({ networks }) => networks.join(', ') || 'everywhere' },
];

export function command(): Command {
  const command = new Command('operators').description('the operators with names of their own, in HUB_OPERATORS_FILE');
  const verbOf = (usage: string, summary: string) =>
    command
      .command(usage)
      .description(summary)
      .option('--file <path>', 'the file [HUB_OPERATORS_FILE]')
      .option('--json', 'as JSON');
  verbOf('list', 'list them').action((flags: Flags) => list(flags));
  verbOf('add <name>', 'add one, and print its token, which is shown only once')
    .addOption(new Option('--role <role>', 'what it may do').choices([...operatorRoles]).makeOptionMandatory())
    .option('--days <count>', 'the token ends after so many days (default: never)', count)
    .option('--network <cidr...>', 'the token is accepted from these networks alone')
    .action((name: string, flags: AddFlags) => add(name, flags));
  verbOf('revoke <name>', 'remove one; its token ends when the hub reads the file again').action(
    (name: string, flags: Flags) => revoke(name, flags),
  );
  return command.addHelpText(
    'after',
    `
Roles: viewer reads, with card numbers masked; support also re-drives, probes, resolves cases; operator also changes
partners, routes, circuits; admin also adds partners, issues tokens, backs up, erases and reads the audit log.

Examples:
  $ ocpi-hub operators add anna --role support --days 90 --network 10.0.0.0/8
  $ ocpi-hub operators list
  $ ocpi-hub operators revoke anna && kill -HUP <pid of the hub>`,
  );
}

function list(flags: Flags): void {
  const screen = new Screen(flags.json === true);
  const operators = known(fileOf(flags)).map(({ token_digest: _, ...shown }) => shown);
  const none = 'No operators yet: ocpi-hub operators add makes one.';
  screen.list({ items: operators, next_cursor: null }, columns, none);
}

function add(name: string, { role, days, network: networks = [], ...flags }: AddFlags): void {
  const file = fileOf(flags);
  const before = known(file);
  if (before.some((one) => one.name === name)) throw new Failure(`${name} is there already: revoke it first`);
  const token = randomBytes(32).toString('base64url');
  const expires_at = days === undefined ? null : new Date(Date.now() + days * dayMs).toISOString();
  const made = usable(() => operatorIn({ name, role, token_digest: digestOfToken(token), expires_at, networks }));
  write(file, [...before, made]);
  const screen = new Screen(flags.json === true);
  screen.answer({ name, role, expires_at, networks, token }, () => [token]);
  screen.say(`The token of ${name} is shown only once. A running hub takes it after kill -HUP.`);
}

function revoke(name: string, flags: Flags): void {
  const file = fileOf(flags);
  const before = known(file);
  const left = before.filter((one) => one.name !== name);
  if (left.length === before.length) throw new Failure(`${file} has no operator ${name}`);
  write(file, left);
  new Screen(flags.json === true).answer({ name }, () => [`${name} is removed; a running hub knows after kill -HUP.`]);
}

function fileOf({ file = process.env.HUB_OPERATORS_FILE }: Flags): string {
  if (file) return file;
  throw new Failure('which file? --file or HUB_OPERATORS_FILE names it', { exitCode: 2 });
}

const known = (file: string) => (existsSync(file) ? usable(() => readOperators(file)) : []);

/** The hub reads either the old file or the new one, never half of one. */
function write(file: string, operators: readonly Operator[]): void {
  const beside = `${file}.new`;
  usable(() => {
    try {
      writeFileSync(beside, `${JSON.stringify({ operators }, null, 2)}\n`, { mode: 0o600, flush: true });
      chmodSync(beside, 0o600);
      if (existsSync(file)) giveTo(beside, statSync(file));
      renameSync(beside, file);
    } catch (error) {
      rmSync(beside, { force: true });
      throw error;
    }
  });
}

/** [CLI-OPERATORS-1] */
function giveTo(path: string, owner: { uid: number; gid: number }): void {
  const { uid, gid } = statSync(path);
  if (uid !== owner.uid || gid !== owner.gid) chownSync(path, owner.uid, owner.gid);
}

function usable<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new Failure((error as Error).message);
  }
}
