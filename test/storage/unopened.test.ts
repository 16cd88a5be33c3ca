/** Which errors are failures of the file system, and which may be damage. */
import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, cpSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { openLevelStore } from '../../storage/level/store.ts';
import { opening, refusalOf } from '../../storage/level/unopened.ts';
import { command } from '../support/command.ts';
import { directoryFor } from '../support/directory.ts';
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { append } from './support.ts';

const withCode = (code: string) => Object.assign(new Error(`${code}: why`), { code });
const ofEngine = (text: string) =>
  new Error('/data/store/db cannot be opened', {
    cause: Object.assign(new Error('Database failed to open', { cause: new Error(text) }), {
      code: 'LEVEL_DATABASE_NOT_OPEN',
    }),
  });

t.test('a failure of the file system says nothing about the soundness of a store [UNOPENED-1]', async (t) => {
  for (const code of ['ENOSPC', 'EROFS', 'EACCES', 'EPERM', 'EMFILE', 'EIO']) {
    const name = {
      name: 'StoreUnopened',
      message: `/s could not be opened: ${code}: why; nothing is known about its soundness`,
    };
    await t.rejects(opening('/s', Promise.reject(withCode(code))), name);
  }
  for (const text of ['No space left on device', 'Read-only file system', 'Permission denied', 'Too many open files']) {
    t.equal(refusalOf(ofEngine(`IO error: /s/db/LOCK: ${text}`)), `IO error: /s/db/LOCK: ${text}`);
  }
  for (const text of [
    'IO error: /s/db/000005.ldb: No such file or directory',
    'Corruption: 1 missing files; e.g.: /s',
  ]) {
    t.equal(refusalOf(ofEngine(text)), null, text);
  }
  t.equal(refusalOf(withCode('ENOENT')), null);
  await t.rejects(opening('/s', Promise.reject(new Error('it is damaged'))), {
    name: 'Error',
    message: 'it is damaged',
  });
});

t.test('a table or a mark that this user may not read is called unread, not lost [UNOPENED-2]', atLength, async (t) => {
  const [nobody, child] = [65_534, join(import.meta.dirname, 'child.js')];
  if (process.getuid?.() !== 0) return void t.plan(0, 'only root can give files to another user');
  const place = directoryFor(t);
  const [sound, data] = [join(place, 'sound'), join(place, 'data')];
  // The second opening makes a table of the log of the first.
  for (let i = 0; i < 2; i += 1) {
    const store = await openLevelStore({ directory: join(sound, 'store'), node: 'test', ballastBytes: 0 });
    await append(store);
    await store.close();
  }
  cpSync(sound, data, { recursive: true });
  for (const path of ['..', '.', ...readdirSync(data, { recursive: true, encoding: 'utf8' })])
    chownSync(join(data, path), nobody, nobody);
  const bar = (path: string, owner: number) => {
    chownSync(path, owner, owner);
    chmodSync(path, 0o600);
  };
  const run = (...words: string[]) => spawnSync(process.execPath, words, { uid: nobody, encoding: 'utf8' });
  const verify = () => run(command, 'store', 'verify', '--data-dir', data);

  const database = join(data, 'store', 'db');
  const table = join(database, readdirSync(database).find((name) => name.endsWith('.ldb')) ?? '');
  bar(table, 0);
  const refused = verify();
  t.match(refused, {
    status: 1,
    stdout: '',
    stderr: /could not be opened: .*\.ldb: Permission denied; nothing is known/,
  });
  const start = run(child, 'health', join(data, 'store'));
  t.match(start.stderr, /StoreUnopened: .*\.ldb: Permission denied; nothing is known/, 'a hub does not start on it');
  bar(table, nobody);

  const mark = join(data, 'store', 'mark');
  bar(mark, 0);
  const told = verify();
  t.match(told.stdout, /\nnot read {5}mark cannot be read \(EACCES\)\n +let this user read it/);
  t.notMatch(told.stdout, /to repair|lost|sound/);
  t.match(told, { status: 1, stderr: /is sound, and not every mark beside it could be read/ });
  bar(mark, nobody);
  t.match(verify(), { status: 0, stdout: /\nsound/ });
  t.match(run(child, 'health', join(data, 'store')).stdout, '"state":"open","reason":null');
});
