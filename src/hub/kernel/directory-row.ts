/**
 * Version row of the directory: every change of partners or routes writes it, so that a decision can state which
 * version it read. [RECORDER-5]
 */
import type { Put, RowKey } from '../../../storage/contract.ts';

export const directoryKey: RowKey = { kind: 'directory', owner: '', id: 'last' };
export const directoryPut: Put = { ...directoryKey, shelf: null, upd: '', data: null, body: null };
