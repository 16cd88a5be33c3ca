/** `npm run demo:cluster` as its users have it: the built command, which brings everything it needs but the server's programs. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { postgresHere } from '../support/postgres.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

async function demo(...words: string[]) {
  const child = spawn(process.execPath, [resolve('dist/bin/ocpi-hub.js'), 'demo', '--cluster', ...words]);
  const said = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, ...said };
}

t.test('the owner dies in the middle of a charging session, and the path is walked to its end', atLength, async (t) => {
  const { code, out, err } = await demo();
  if (postgresHere === null) {
    t.equal(code, 1);
    t.match(err, 'no PostgreSQL server is installed here');
    return;
  }
  t.equal(code, 0, err);
  const [, owner = '', standby = ''] = /^ {2}(http:\S+) is the owner\n {2}(http:\S+) stands by/m.exec(out) ?? [];
  t.not(owner, standby);
  t.match(out, `${owner}, the owner, is killed`);
  t.match(
    out,
    /The eMSP pulls session and CDR back: nothing lost, nothing changed\n(.*\n)+.*The full session path was walked/,
  );
  t.match(out, /the death of the owner lost nothing/);
  t.match(out, new RegExp(`${standby} was the owner [\\d.]+ s later; the log holds \\d+ events`));
});

t.test('it has no directory and no port of its own', async (t) => {
  const { code, err } = await demo('--data-dir', '/tmp/x');
  t.equal(code, 2);
  t.match(err, '--cluster takes neither');
});
