/**
 * Child process of `inspect-isolated.ts`: inspects the given store and reports to the parent, so that an abort of
 * LevelDB ends only this process.
 */
import { StoreUnavailable } from '../contract.ts';
import { inspectStore } from './inspect.ts';
import type { Report } from './inspect-isolated.ts';
import { StoreUnopened } from './unopened.ts';

const [store = ''] = process.argv.slice(2);
const tell = (report: Report): void => void process.send?.(report);
const die = (): void => void process.kill(process.pid, 'SIGKILL');

// INSPECT-ISOLATED-1: kills at once, even while the engine is working.
process.on('disconnect', die);
if (!process.connected) die();

const report: Report = await inspectStore(store, (records) => tell({ records })).then(
  (look) => ({ look }),
  (error: unknown) => {
    if (error instanceof StoreUnopened) return { unopened: error.message };
    if (!(error instanceof StoreUnavailable)) throw error;
    return { unavailable: error.message };
  },
);
process.send?.(report, () => process.exit(0));
