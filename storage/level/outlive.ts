/** What a start does before it opens a database in this process: the engine may abort the process that reads it. */
import { StoreUnavailable } from '../contract.ts';
import { type DirtyFlag, isSuspect } from './dirty-flag.ts';
import { EngineDied, inspectIsolated } from './inspect-isolated.ts';
import { StoreUnopened } from './unopened.ts';
import type { Opening } from './verify.ts';

/**
 * LIFECYCLE-6: throws when opening the database would end this process. Resolves with whether the last use made an
 * inspection necessary.
 */
export async function outlive(
  directory: string,
  opening: DirtyFlag,
  progress: (opening: Opening) => void,
): Promise<boolean> {
  const unended = await opening.read();
  if (unended === null || !isSuspect(unended)) return false;
  try {
    const step = 'a separate process inspects every record of the store, because its last use ended early';
    await inspectIsolated(directory, (records) => progress({ step, verified: records, events: null }));
    await opening.note({ attempts: 0, damaged: false });
    return true;
  } catch (error) {
    // Nothing was inspected: the start frees its ballast, or fails for the same reason.
    if (error instanceof StoreUnopened) return true;
    if (!(error instanceof EngineDied)) throw error;
    const { since, attempts } = await opening.begin().catch(() => unended);
    throw new StoreUnavailable(
      `${directory} is damaged, the hub does not start on it: ${error.message} ` +
        `(${attempts} attempts to open it since ${since}). Restore a backup: ocpi-hub store restore --help`,
    );
  }
}
