/**
 * `ocpi-hub operators` changes a file that the user of the hub must be able to read.
 */
import { chownSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { operatorsFile } from '../support/operators.ts';
import { runCommand } from '../support/resident-command.ts';
import { t } from '../support/tap.ts';

const isRoot = process.getuid?.() === 0;

t.test(
  '[CLI-OPERATORS-1] root leaves the operators file to its owner',
  { skip: !isRoot && 'only for root' },
  async (t) => {
    const file = operatorsFile(join(t.testdir({}), 'operators.json'), [{ name: 'anna', role: 'support' }]);
    chownSync(file, 1234, 4321);
    const { code, out } = await runCommand(['operators', 'revoke', 'anna', '--file', file]);
    t.match({ code, out }, { code: 0, out: /^anna is removed/ });
    const { uid, gid, mode } = statSync(file);
    t.strictSame({ uid, gid, mode: mode & 0o777 }, { uid: 1234, gid: 4321, mode: 0o600 });
    t.same(JSON.parse(readFileSync(file, 'utf8')), { operators: [] });
  },
);
