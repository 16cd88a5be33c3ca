/** Builds the verb that lists a noun: as a table, or all of it as a file. */
import type { Command } from 'commander';
import type { Query } from './client.ts';
import type { Column } from './table.ts';
import { type Context, count, type Option, type VerbSpec, verb } from './verb.ts';

export interface FileFlags {
  readonly csv?: boolean;
  readonly ndjson?: boolean;
  readonly limit?: number;
}

interface ListSpec<Item, Flags> extends Omit<VerbSpec<Flags>, 'usage' | 'run'> {
  readonly usage?: string;
  /** Of the list in the admin API. */
  readonly path: string;
  /** Items that a table has unless `--limit` says otherwise. */
  readonly limit: number;
  readonly columns: readonly Column<Item>[];
  readonly whenEmpty: (flags: Flags) => string;
}

export const fileOptions: readonly Option[] = [
  ['--csv', 'all of them as CSV, or up to 1000 with --limit'],
  ['--ndjson', 'the same, each as a line of JSON'],
];

/** Writes the list to stdout when a file is wanted; false when none is. */
export async function isFiled(
  { hub, screen }: Context,
  path: string,
  filter: Query,
  flags: FileFlags,
): Promise<boolean> {
  if (!flags.csv && !flags.ndjson) return false;
  const type = flags.csv ? 'text/csv' : 'application/x-ndjson';
  await screen.copy(hub.file(path, { ...filter, limit: flags.limit }, type));
  return true;
}

export function listVerb<Item, Flags extends object = object>(spec: ListSpec<Item, Flags>): Command {
  const { usage = 'list', summary, options = [], examples, path, limit, columns, whenEmpty } = spec;
  return verb<Flags & FileFlags>({
    usage,
    summary,
    examples,
    options: [...options, ['--limit <count>', `how many (default: ${limit})`, count], ...fileOptions],
    run: async (context, _args, flags) => {
      const wanted = filterOf(options, flags);
      if (await isFiled(context, path, wanted, flags)) return;
      const { hub, screen } = context;
      screen.list(await hub.list<Item>(path, wanted, flags.limit ?? limit), columns, whenEmpty(flags));
    },
  });
}

/** What the options of a filter ask for: `--from-seq` is the filter `from_seq`. */
export function filterOf(options: readonly Option[], flags: object): Query {
  const given = flags as Query;
  const names = options.map(([option]) => /--([\w-]+)/.exec(option)?.[1] ?? '');
  return Object.fromEntries(names.map((name) => [name.replaceAll('-', '_'), given[camelcase(name)]]));
}

/** As `commander` names the value of an option. */
const camelcase = (name: string) => name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
