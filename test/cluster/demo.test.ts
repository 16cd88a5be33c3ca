/** `npm run demo:cluster` as its users have it: the built command, which brings everything it needs but the server's programs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { eventually } from '../support/plain-partner.ts';
import { postgresHere } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

function demo(t: Test, ...words: string[]) {
  const child = spawn(process.execPath, [resolve('dist/bin/ocpi-hub.js'), 'demo', '--cluster', ...words]);
  t.teardown(() => child.kill());
  const said = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text));
  return { child, said, ended: once(child, 'close').then(([code]) => code as number | null) };
}

t.test(
  'the owner is killed in the middle of a session, the path completes, and both nodes stay up',
  atLength,
  async (t) => {
    const { child, said, ended } = demo(t, '--stay');
    if (postgresHere === null) {
      t.equal(await ended, 1);
      t.match(said.err, 'no PostgreSQL server is installed here');
      return;
    }
    await eventually('it stays up', () => {
      if (child.exitCode !== null) throw new Error(`it ended: ${said.err}`);
      return said.out.includes('to try');
    });
    const { out } = said;
    const [before = '', after = ''] = out.split(/^ +SIGKILL to node A\*, pid /m);
    const [session = '', stays = ''] = after.split('node A is started again');
    t.notMatch(out, /→ hub|hub +→/, 'every line names the node');
    for (const line of [/→ node A\* /, /→ node B /, /node A\* +→ eMSP/, /node A\* +→ CPO/]) t.match(before, line);
    t.notMatch(before, /node B +→ eMSP DE-EMS +PUT/, 'the owner alone delivers');
    t.match(session, /The next push is acknowledged \d+ ms after the kill:\n +CPO NL-CPO +→ node B /);
    t.match(session, /Deliveries go on, after a pause of [\d.]+ s from the kill:\n +node B\* +→ eMSP DE-EMS/);
    t.notMatch(session, /node A\*? +→/, 'the dead node does nothing');
    t.match(
      session,
      /The eMSP pulls session and CDR back: nothing lost, nothing changed\n(.*\n)+.*The kill lost nothing/,
    );

    const pidsOf = (text: string) => Array.from(text.matchAll(/^ {2}node .* pid (\d+)$/gm), ([, pid]) => Number(pid));
    const [first = 0, second = 0] = pidsOf(before);
    const nodes = pidsOf(stays);
    t.equal(Number.parseInt(session, 10), first);
    t.notOk(isThere(first));
    t.strictSame([nodes.length, nodes[1], nodes.every(isThere)], [2, second, true]);
    t.not(nodes[0], first, 'the first node is another process now');
    const urls = Array.from(stays.matchAll(/^ {2}console [AB] +(\S+)$/gm), ([, url = '']) => url);
    t.strictSame(await Promise.all(urls.map(async (url) => (await fetch(url)).status)), [200, 200]);

    const children = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
      .trim()
      .split(' ')
      .map(Number);
    t.equal(children.length, 3, 'two nodes and a database');
    child.kill('SIGTERM');
    // What it left behind would hold its output.
    t.strictSame(await once(child, 'exit'), [0, null], said.err);
    t.notOk(children.some(isThere), 'none of them is left');
  },
);

const isThere = (pid: number): boolean => existsSync(`/proc/${pid}`);

t.test('the demo leaves no directory and no open port behind', async (t) => {
  const { ended, said } = demo(t, '--data-dir', '/tmp/x');
  t.equal(await ended, 2);
  t.match(said.err, '--cluster takes neither');
});
