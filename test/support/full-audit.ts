/** A store that takes everything but entries of the audit log, and the log of its hub. */
import { StoreUnavailable } from '../../storage/contract.ts';
import { wrapStore } from './store-with.ts';

export function fullAudit() {
  const lines: string[] = [];
  const wrap = wrapStore((store) => ({
    async append(commit) {
      if (commit.puts?.some(({ kind }) => kind === 'audit')) throw new StoreUnavailable('no entry is taken');
      return store.append(commit);
    },
  }));
  const unwritten = () => lines.filter((line) => line.includes('could not be written into the audit log'));
  return { replaced: { wrap, logTo: { write: (line: string) => void lines.push(line) } }, unwritten };
}
