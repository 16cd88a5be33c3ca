/**
 * `ocpi-hub parties pull`: has the hub pull a CPO's list, and prints the progress until the pull ends; `cancel-pull` ends it.
 */
import type { Command } from 'commander';
import type { PullView } from '../api/pulls.ts';
import { Failure } from './client.ts';
import { complete, kinds, partyPath } from './complete.ts';
import { watched } from './job.ts';
import { many } from './table.ts';
import { verb } from './verb.ts';

interface PullFlags {
  readonly full?: boolean;
  readonly forward?: boolean;
}

const modules = ['locations', 'tariffs'];
/** Of the newest pulls of a partner: it may have pulled its other list many times meanwhile. */
const lookedThrough = 1000;

export function pullVerb(): Command {
  return verb<PullFlags>({
    usage: 'pull <id> <module>',
    summary: 'pull the locations or tariffs that a CPO lists',
    options: [
      ['--full', 'the whole list, not what changed since the last successful pull'],
      ['--forward', 'send what is new to the routed eMSPs'],
    ],
    examples: ['parties pull NL-CPO locations', 'parties pull NL-CPO tariffs --full --forward'],
    run: async ({ hub, screen }, [given = '', module = ''], { full = false, forward = false }) => {
      if (!modules.includes(module)) {
        throw new Failure(`"${module}" cannot be pulled: expected locations or tariffs`, { exitCode: 2 });
      }
      const path = `${await partyPath(hub, given)}/pull/${module}`;
      const started = await hub.send<{ id: string }>('POST', path, { full, forward });
      const look = () => hub.get<PullView>(`/pulls/${encodeURIComponent(started.id)}`);
      const words = ({ pages, received }: PullView) => `${many(pages, 'page')}, ${received} received`;
      const pull = await watched(screen, await look(), look, words);
      screen.answer(pull, linesOf);
      if (pull.state === 'FAILED') throw new Failure(`the pull failed: ${pull.error ?? 'the hub gives no reason'}`);
    },
  });
}

export function cancelPullVerb(): Command {
  return verb({
    usage: 'cancel-pull <id> <module>',
    summary: 'end the running pull of the locations or tariffs of a CPO; what was stored stays stored',
    examples: ['parties cancel-pull NL-CPO locations'],
    run: async ({ hub, screen }, [given = '', module = '']) => {
      const id = await complete(hub, kinds.party, given);
      const { items } = await hub.list<PullView>('/pulls', { party: id }, lookedThrough);
      const running = items.find((one) => one.module === module && one.state === 'RUNNING');
      if (!running) throw new Failure(`no pull of the ${module} of ${id} runs`);
      const ended = await hub.send<PullView>('DELETE', `/pulls/${encodeURIComponent(running.id)}`);
      screen.answer(ended, (pull) => {
        const [first = '', ...rest] = linesOf(pull);
        // Its last page may have come before the request.
        return [pull.state === 'DONE' ? first : `canceled: ${first}`, ...rest];
      });
    },
  });
}

function linesOf({ pages, received, stored, unchanged, invalid, deleted, note, id }: PullView): string[] {
  return [
    `${received} received in ${many(pages, 'page')}: ${stored} stored, ${unchanged} unchanged, ${invalid} invalid, ${deleted} deleted (pull ${id})`,
    ...(note === null ? [] : [note]),
  ];
}
