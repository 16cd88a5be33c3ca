/**
 * `ocpi-hub check`: has the hub try out a partner's endpoints, and prints what will break, where OCPI says so, and the
 * setting that heals it. Exit 0 clean, 1 with findings.
 */
import type { Command } from 'commander';
import type { CheckView, FindingView } from '../api/checks.ts';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { Failure } from './client.ts';
import { complete, kinds } from './complete.ts';
import { type Page, plain } from './table.ts';
import { verb } from './verb.ts';

const lookEveryMs = 300;

export function command(): Command {
  return verb<{ write?: boolean }>({
    usage: 'check <id>',
    summary: "try out a partner's endpoints before traffic flows, and say what will break and what heals it",
    options: [['--write', 'also send test objects, a test CDR and a command for an unknown location']],
    examples: ['check NL-CPO', 'check NL-EMS --write', 'check NL-CPO --json'],
    run: async ({ hub, screen }, [given = ''], { write = false }) => {
      const id = await complete(hub, kinds.party, given);
      const started = await hub.send<{ id: string }>('POST', `/parties/${encodeURIComponent(id)}/check`, { write });
      const progress = screen.progress();
      const look = () => hub.get<CheckView>(`/checks/${encodeURIComponent(started.id)}`);
      let check = await look();
      for (; check.state === 'RUNNING'; check = await look()) {
        progress.show(0, 0, `${check.calls} calls, ${check.findings.length} findings`);
        await sleep(systemClock, lookEveryMs);
      }
      progress.end();
      screen.answer(check, told);
      if (check.state === 'FAILED') throw new Failure(`the check failed: ${check.error ?? 'the hub gives no reason'}`);
      if (check.findings.length > 0) process.exitCode = 1;
    },
  });
}

const colours = { error: 'red', warning: 'yellow', note: 'dim' } as const;

function told({ party, calls, findings }: CheckView, page: Page): string[] {
  if (findings.length === 0) return [`${party} answers as OCPI 2.2.1 says: nothing found in ${calls} calls.`];
  return [
    `${party}: ${findings.length === 1 ? '1 finding' : `${findings.length} findings`} in ${calls} calls`,
    ...findings.flatMap((finding) => ['', ...lines(finding, page)]),
  ];
}

function lines({ name, severity, module, seen, expected, source, heals }: FindingView, page: Page): string[] {
  return [
    `${page.paint(colours[severity], severity)} ${page.paint('bold', name)} (${module})`,
    `  seen      ${plain(seen)}`,
    `  expected  ${plain(expected)} [${source}]`,
    `  heals it  ${heals ?? (severity === 'warning' ? 'nothing is needed: the hub makes up for it' : 'the partner has to')}`,
  ];
}
