/** The row that every change of partners and routes writes, so that what was decided on them can say as of which. [RECORDER-5] */
import type { Put, RowKey } from '../../../storage/contract.ts';

export const directoryKey: RowKey = { kind: 'directory', owner: '', id: 'last' };
export const directoryPut: Put = { ...directoryKey, shelf: null, upd: '', data: null, body: null };
