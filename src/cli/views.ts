/** `ocpi-hub views`: addresses of the console that operators keep under a name. */
import type { Command } from 'commander';
import type { SavedViewView } from '../api/operators.ts';
import { Failure } from './client.ts';
import { listVerb } from './list-verb.ts';
import { type Column, when } from './table.ts';
import { noun, verb } from './verb.ts';

const columns: readonly Column<SavedViewView>[] = [
  { title: 'name', of: ({ name }) => name },
  { title: 'path', of: ({ path }) => path, shrinksTo: 24 },
  { title: 'by', of: ({ by }) => by },
  { title: 'saved', of: ({ at }, now) => when(at, now), shrinksTo: 20 },
];

export function command(): Command {
  return noun('views', 'addresses of the console that operators keep under a name', [
    listVerb<SavedViewView>({
      summary: 'list saved views, by name',
      examples: ['views'],
      path: '/views',
      limit: 200,
      columns,
      whenEmpty: () => 'No view is saved. The console saves the present page under Views.',
    }),
    verb({
      usage: 'save <name> <path>',
      summary: 'save an address of the console under a name; an existing name is replaced',
      examples: ['views save "dead CDRs" "/deliveries?state=DEAD&module=cdrs"'],
      run: async ({ hub, screen }, [name = '', path = '']) => {
        screen.answer(await hub.send<SavedViewView>('POST', '/views', { name, path }), (view) => [
          `${view.name} is saved: ${view.path}`,
        ]);
      },
    }),
    verb({
      usage: 'remove <name>',
      summary: 'remove a saved view',
      examples: ['views remove "dead CDRs"'],
      run: async ({ hub, screen }, [name = '']) => {
        const { items } = await hub.get<{ items: SavedViewView[] }>('/views', { limit: '1000' });
        const found = items.find((view) => view.name === name);
        if (!found) throw new Failure(`no view is named ${name}`);
        screen.answer(await hub.send<object>('DELETE', `/views/${found.id}`), () => [`${name} is removed`]);
      },
    }),
  ]);
}
