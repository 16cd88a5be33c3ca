/** `ocpi-hub events`: prints the end of the log, or the log from a sequence on, and follows it as it grows. */
import type { Command } from 'commander';
import type { EventPage, EventView } from '../api/events.ts';
import { eventWords } from '../domain/event-words.ts';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { Failure } from './client.ts';
import { type FileFlags, fileOptions, filterOf, isFiled } from './list-verb.ts';
import { type Column, table, when } from './table.ts';
import { type Context, count, noun, type Option, position, timeOptions, verb } from './verb.ts';

interface ListFlags extends FileFlags {
  readonly follow?: boolean;
  readonly after?: number;
}

const columns: readonly Column<EventView>[] = [
  { title: 'seq', of: ({ seq }) => seq, align: 'right' },
  { title: 'at', of: ({ at }, now) => when(at, now) },
  { title: 'type', of: ({ type }) => type },
  { title: 'by', of: ({ by, party, who }) => who ?? (by === 'partner' ? (party ?? by) : by) },
  { title: 'about', of: (event) => eventWords(event).join(' '), shrinksTo: 20 },
  { title: 'correlation id', of: ({ correlation_id }) => correlation_id, shrinksTo: 8 },
];

const filters: readonly Option[] = [
  ['--type <type>', 'of this type or group, for example delivery.dead or command'],
  ['--party <party>', 'that concern this party, for example NL-CPO', (text) => text.toUpperCase()],
  ['--about <subject>', 'about exactly this, for example partner:NL-CPO'],
  ['--object <object>', '{cc}-{pid}/{id}, for example NL-CPO/101'],
  ['--correlation-id <id>', 'of this request and all that came of it'],
  ...timeOptions,
];

const shownBefore = 10;
const followedAtOnce = 500;
const pauseMs = 1000;

export function command(): Command {
  return noun('events', 'the log: every fact that the hub recorded', [
    verb<ListFlags>({
      usage: 'list',
      summary: 'list the newest events, or those behind a sequence; oldest first',
      options: [
        ['-f, --follow', 'go on as the log grows, until Ctrl-C; NDJSON unless on a terminal'],
        ...filters,
        ['--after <sequence>', 'the first ones after this event or last_seq, instead of the newest', position],
        ['--limit <count>', 'how many (default: 50; with --follow: 10 to begin with)', count],
        ...fileOptions,
      ],
      examples: [
        'events',
        'events list --type delivery.dead --limit 100',
        'events list --follow --party NL-CPO',
        'events list --from 2h --to 1h --type partner',
        'events list --after 1200 --json',
      ],
      async run(context, _args, flags) {
        if (flags.follow && (flags.csv || flags.ndjson)) {
          throw new Failure('--follow excludes --csv and --ndjson: elsewhere than on a terminal it writes NDJSON', {
            exitCode: 2,
          });
        }
        if (flags.follow) return follow(context, flags);
        const isFile = await isFiled(context, '/events', { ...filterOf(filters, flags), after: flags.after }, flags);
        if (!isFile) await list(context, flags);
      },
    }),
  ]);
}

async function list({ hub, screen }: Context, flags: ListFlags): Promise<void> {
  const { after, limit = 50 } = flags;
  const { items, next_cursor } =
    after === undefined
      ? { ...(await newest({ hub, screen }, flags, limit)), next_cursor: null }
      : await hub.list<EventView>('/events', { ...filterOf(filters, flags), after }, limit);
  screen.list(
    { items, next_cursor },
    columns,
    'No event matches. Without filters, ocpi-hub events list shows the newest.',
  );
}

/** Newest events, returned oldest first as in the log. */
async function newest({ hub }: Context, flags: ListFlags, limit: number): Promise<EventPage> {
  const found = await hub.list<EventView, EventPage>(
    '/events',
    { ...filterOf(filters, flags), order: 'newest' },
    limit,
  );
  return { ...found, items: [...found.items].reverse() };
}

/**
 * Each page names the last sequence that the hub scanned; the next request starts behind it. While nobody answers, for
 * example between the death of an owner and the takeover, it asks again.
 */
async function follow(context: Context, flags: ListFlags): Promise<void> {
  const { hub } = context;
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort()).once('SIGTERM', () => stop.abort());
  // The reader of the output has closed the pipe.
  process.stdout.once('error', () => stop.abort());
  const write = writer(context);
  let after = flags.after;
  if (after === undefined) {
    const { items, last_seq } = await newest(context, flags, flags.limit ?? shownBefore);
    for (const item of items) write(item);
    after = last_seq;
  }
  let isAway = false;
  while (!stop.signal.aborted) {
    try {
      const page: EventPage = await hub.get(
        '/events',
        { ...filterOf(filters, flags), after, limit: followedAtOnce },
        stop.signal,
      );
      for (const item of page.items) write(item);
      after = page.last_seq;
      isAway = false;
      if (page.next_cursor !== null) continue;
    } catch (error) {
      if (stop.signal.aborted) return;
      if (!(error instanceof Failure && error.isAway)) throw error;
      if (!isAway) context.screen.say(`ocpi-hub: ${error.message}; asking again until it answers`);
      isAway = true;
    }
    await sleep(systemClock, pauseMs, stop.signal);
  }
}

function writer({ screen }: Context): (item: EventView) => void {
  let isFirst = true;
  return (item) => {
    if (screen.isJson || !process.stdout.isTTY) return screen.json(item);
    const [titles = '', line = ''] = table(columns, [item], screen.page);
    screen.lines(isFirst ? [titles, line] : [line]);
    isFirst = false;
  };
}
