/** `ocpi-hub commands`: prints the commands of eMSPs and the state of each. */
import type { Command } from 'commander';
import { type CommandView, commandName, commandState } from '../api/commands.ts';
import { kinds, pathOf } from './complete.ts';
import { listVerb } from './list-verb.ts';
import { type Column, fields, when } from './table.ts';
import { eitherOf, noun, oneOf, pairOptions, partyOption, timeOptions, verb } from './verb.ts';

const columns: readonly Column<CommandView>[] = [
  { title: 'id', of: ({ id }) => id },
  { title: 'command', of: ({ command }) => command },
  { title: 'eMSP', of: ({ emsp }) => emsp },
  { title: 'CPO', of: ({ cpo }) => cpo },
  { title: 'state', of: ({ state }) => state },
  { title: 'result', of: ({ result, reason }) => [result, reason].filter(Boolean).join(' ') || null, shrinksTo: 12 },
  { title: 'session', of: ({ session }) => session, shrinksTo: 8 },
  { title: 'at', of: ({ at }, now) => when(at, now), shrinksTo: 20 },
];

export function command(): Command {
  return noun('commands', 'commands of eMSPs and how far each has come', [
    listVerb<CommandView>({
      summary: 'list commands, newest first',
      options: [
        ...pairOptions,
        partyOption,
        ['--state <state>', eitherOf.format(commandState.options), oneOf(...commandState.options)],
        ['--command <command>', 'for example STOP_SESSION', oneOf(...commandName.options)],
        ['--session <session>', 'that it stops: {cc}-{pid}/{id}, or the id alone'],
        ['--uid <uid>', 'of the token that it names, for example of the driver who was refused'],
        ...timeOptions,
      ],
      examples: [
        'commands',
        'commands list --emsp NL-EMS --state silent --from 2h',
        'commands list --uid 04A1B2C3D4E5F6 --from 1d',
        'commands list --limit 10 --json',
      ],
      path: '/commands',
      limit: 50,
      columns,
      whenEmpty: () =>
        'No command matches. Those that the hub refused are in the report of their eMSP: ocpi-hub parties report NL-EMS.',
    }),
    verb({
      usage: 'show <id>',
      summary: 'show a command; the beginning of its id suffices',
      examples: ['commands show 7f3a'],
      run: async ({ hub, screen }, [given = '']) => {
        const found = await hub.get<CommandView>(await pathOf(hub, kinds.command, given));
        screen.answer(found, (item, page) =>
          fields(page, [
            ['command', page.paint('bold', item.id)],
            ['what', item.command],
            ['from, to', `${item.emsp} → ${item.cpo}`],
            ['state', item.state],
            ['result', item.result],
            ['reason', item.reason],
            ['session', item.session],
            ['at', when(item.at, page.now)],
          ]),
        );
      },
    }),
  ]);
}
