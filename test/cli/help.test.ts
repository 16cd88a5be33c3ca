/** The help of the commands of support: each shows how it is used. Texts are those that a process prints, of which one is run. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Command } from 'commander';
import { runProcess } from '../support/command.ts';
import { runCommand } from '../support/resident-command.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

interface Verb {
  command(): Command;
}

/** The whole help of a verb, or of a verb of a noun. */
async function helpOf(line: string): Promise<string> {
  const [name = '', verb] = line.split(' ');
  const { command } = (await import(new URL(`../../src/cli/${name}.js`, import.meta.url).href)) as Verb;
  const noun = command();
  const asked = verb === undefined ? noun : noun.commands.find((one) => one.name() === verb);
  let text = '';
  asked?.configureOutput({
    writeOut: (more) => {
      text += more;
    },
  });
  asked?.outputHelp();
  return text;
}

t.test('the help of every command has examples', async (t) => {
  const words = 'status parties routes events trace deliveries discard redrive replay jobs commands orphans'.split(' ');
  const examples = (line: string) => new RegExp(`Examples:\\n  \\$ ocpi-hub ${line}`);
  for (const line of [...words, 'parties add', 'parties endpoints', 'routes explain', 'orphans resolve'])
    t.match(await helpOf(line), examples(line), line);
  for (const line of ['status', 'parties add']) {
    const { code, out } = await runProcess([...line.split(' '), '--help']);
    t.equal(code, 0, line);
    t.match(out, examples(line), line);
  }
});

t.test('completion offers commands, subcommands and options, with their descriptions', atLength, async (t) => {
  const { code, out } = await runProcess(['completion', 'bash']);
  t.equal(code, 0);
  await promisify(execFile)('bash', ['-n', '-c', out]);
  const asked = /requestComp="ocpi-hub (complete -- )/.exec(out)?.[1]?.trim().split(' ') ?? [];
  const told = async (...words: string[]) =>
    (await runCommand([...asked, ...words])).out.split('\n').map((line) => line.replace('\t', ': '));
  t.strictSame((await told('part')).slice(0, 2), [
    'partner: run one simulated partner against any hub',
    'parties: partners: status, onboarding, endpoints, pulls',
  ]);
  t.match(await told('parties', 'set', '--re'), ['--reason: why, for the audit log']);
  t.match(await told('deliveries', ''), [/^list: /]);
  t.equal((await runCommand(['completion', 'nushell'])).code, 2);
});
