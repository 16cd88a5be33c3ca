/**
 * `ocpi-hub commands`: prints the commands of eMSPs and the state of each.
 */
import type { Command } from 'commander';
import type { CommandView } from '../api/commands.ts';
import { complete, kinds } from './complete.ts';
import { type Column, fields, when } from './table.ts';
import { count, noun, verb } from './verb.ts';

const columns: readonly Column<CommandView>[] = [
  { title: 'id', of: ({ id }) => id },
  { title: 'command', of: ({ command }) => command },
  { title: 'eMSP', of: ({ emsp }) => emsp },
  { title: 'CPO', of: ({ cpo }) => cpo },
  { title: 'state', of: ({ state }) => state },
  { title: 'result', of: ({ result }) => result },
  { title: 'at', of: ({ at }, now) => when(at, now), shrinksTo: 20 },
];

export function command(): Command {
  return noun('commands', 'commands of eMSPs and how far each has come', [
    verb<{ limit?: number }>({
      usage: 'list',
      summary: 'list commands, newest first',
      options: [['--limit <count>', 'how many (default: 50)', count]],
      examples: ['commands', 'commands list --limit 10 --json'],
      run: async ({ hub, screen }, _args, { limit = 50 }) => {
        const none = 'No command yet. ocpi-hub routes list shows which eMSPs may send some.';
        screen.list(await hub.list<CommandView>('/commands', {}, limit), columns, none);
      },
    }),
    verb({
      usage: 'show <id>',
      summary: 'show a command; the beginning of its id suffices',
      examples: ['commands show 7f3a'],
      run: async ({ hub, screen }, [given = '']) => {
        const id = await complete(hub, kinds.command, given);
        const found = await hub.get<CommandView>(`/commands/${encodeURIComponent(id)}`);
        screen.answer(found, (item, page) =>
          fields(
            [
              ['command', page.paint('bold', item.id)],
              ['what', item.command],
              ['from, to', `${item.emsp} → ${item.cpo}`],
              ['state', item.state],
              ['result', item.result],
              ['at', when(item.at, page.now)],
            ],
            page,
          ),
        );
      },
    }),
  ]);
}
