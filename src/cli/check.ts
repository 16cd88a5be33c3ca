/**
 * `ocpi-hub check`: has the hub try out a partner's endpoints, and prints what will break, where OCPI says so, and the
 * setting that heals it. Exit 0 clean, 1 with findings.
 */
import type { Command } from 'commander';
import type { CheckView, FindingView } from '../api/checks.ts';
import { checkSummary, findingParts } from '../domain/findings.ts';
import { Failure } from './client.ts';
import { partyPath } from './complete.ts';
import { watched } from './job.ts';
import { many, type Page, plain } from './table.ts';
import { verb } from './verb.ts';

export function command(): Command {
  return verb<{ write?: boolean }>({
    usage: 'check <id>',
    summary: "try out a partner's endpoints before traffic flows, and say what will break and what heals it",
    options: [['--write', 'also send test objects, a test CDR and a command for an unknown location']],
    examples: ['check NL-CPO', 'check NL-EMS --write', 'check NL-CPO --json'],
    run: async ({ hub, screen }, [given = ''], { write = false }) => {
      const started = await hub.send<{ id: string }>('POST', `${await partyPath(hub, given)}/check`, { write });
      const look = () => hub.get<CheckView>(`/checks/${encodeURIComponent(started.id)}`);
      const check = await watched(screen, await look(), look, wordsOf);
      screen.answer(check, checkLines);
      if (check.state === 'FAILED') throw new Failure(`the check failed: ${check.error ?? 'the hub gives no reason'}`);
      process.exitCode = exitCodeOf(check);
    },
  });
}

function wordsOf({ steps, calls, findings }: CheckView): string {
  const now = steps.find(({ state }) => state === 'running')?.name ?? 'it begins';
  return `${now}: ${many(calls, 'call')}, ${many(findings.length, 'finding')}`;
}

const colours = { error: 'red', warning: 'yellow', note: 'dim' } as const;

/** 0 when nothing was found. */
export const exitCodeOf = ({ findings }: Pick<CheckView, 'findings'>): 0 | 1 => (findings.length === 0 ? 0 : 1);

export function checkLines(check: CheckView, page: Page): string[] {
  return [checkSummary(check), ...check.findings.flatMap((finding) => ['', ...lines(finding, page)])];
}

function lines(finding: FindingView, page: Page): string[] {
  const { name, severity, module } = finding;
  return [
    `${page.paint(colours[severity], severity)} ${page.paint('bold', name)} (${module})`,
    ...findingParts(finding).map(([label, text]) => `  ${label.padEnd(9)} ${plain(text)}`),
  ];
}
