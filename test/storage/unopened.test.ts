/** Which errors are failures of the file system, and which may be damage. */
import { opening, refusalOf } from '../../storage/level/unopened.ts';
import { t } from '../support/tap.ts';

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
