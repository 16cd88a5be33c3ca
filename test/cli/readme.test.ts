/**
 * The README's walk, as it stands there: two simulated partners come in, a session is charged and traced. Only the address of the hub is
 * another one, and a wait stands in for the reader who looks at the log. And its line for the campaign is one that the campaign takes.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { eventually } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

const readme = readFileSync('README.md', 'utf8');

/** What is to be typed in a chapter. */
function typed(chapter: string): string {
  const text = readme.split(/^## /m).find((one) => one.startsWith(`${chapter}\n`)) ?? '';
  return [...text.matchAll(/^```sh\n(.*?)^```/gms)].map(([, lines]) => lines).join('');
}

t.test('the walk of the README ends with the trace of a session that reached its eMSP', async (t) => {
  const directory = directoryFor(t);
  symlinkSync(resolve('dist'), join(directory, 'dist'));
  const hub = await startChildHub({ dataDir: join(directory, 'data'), port: 0 });
  t.teardown(() => hub.stop());
  const commands = (text: string) =>
    `set -e\n${text.replaceAll('http://127.0.0.1:8080', hub.url).replaceAll(/^tail .*\n/gm, '')}`;
  const env = { PATH: process.env.PATH, HUB_URL: hub.url };

  const onboarding = typed('Onboarding a partner');
  const walk = spawn('sh', ['-c', `${commands(onboarding)}wait`], { cwd: directory, env, detached: true });
  const walkOver = once(walk, 'close');
  t.teardown(() => walk.exitCode ?? process.kill(-(walk.pid ?? 0), 'SIGKILL'));
  let said = '';
  for (const stream of [walk.stdout, walk.stderr]) stream.setEncoding('utf8').on('data', (text) => (said += text));
  const log = () => {
    if (walk.exitCode !== null) throw new Error(`the walk ended: ${said}`);
    const path = join(directory, 'emsp.log');
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  };
  await eventually('the eMSP charges', () => log().includes(' charges in session '));

  const name = /^alias .*\n/m.exec(onboarding)?.[0] ?? '';
  const afterwards = commands(name + typed('When something went wrong'));
  const { status, stdout, stderr } = spawnSync('sh', ['-c', afterwards], { cwd: directory, env, encoding: 'utf8' });
  t.equal(status, 0, stderr);
  t.match(stdout, /^NL-EMS +CONNECTED/m, 'parties');
  t.match(stdout, /NL-TNM\/SES-\S+: \d+ steps?, oldest first/, 'trace');
  t.match(stdout, /NL-TNM sent PUT sessions .*owed to NL-EMS/, 'and to whom it went');
  t.match(stdout, /^0 matched/m, 'redrive');
  t.match(stdout, /sessions of NL-TNM to NL-EMS are delivered/, 'explain');

  process.kill(-(walk.pid ?? 0), 'SIGTERM');
  await walkOver;
});

t.test(
  'the campaign accepts the command of the README, and lists its parts for an unknown name',
  atLength,
  async (t) => {
    const [, options = ''] = /^npm run campaign -- (.*?) +#/m.exec(readme) ?? [];
    t.match(options, '--only');
    const report = join(directoryFor(t), 'report.md');
    const campaign = (words: string) => {
      const args = ['dist/test/campaign/campaign.js', ...words.split(' '), '--report', report];
      return spawnSync(process.execPath, args, { env: { PATH: process.env.PATH }, encoding: 'utf8' });
    };
    const none = campaign(options.replace(/--kills \d+/, '--kills 0'));
    t.equal(none.status, 0, none.stderr);
    t.match(readFileSync(report, 'utf8'), /^# Campaign\n\nCommit .*\n.*\n\nNothing was found\.\n/);
    const unknown = campaign('--only nothing');
    t.not(unknown.status, 0);
    t.match(unknown.stderr, /expected one of: tests, kills at random, kills after a send, /);
  },
);
