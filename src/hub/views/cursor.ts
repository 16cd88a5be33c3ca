/** Cursors of operators' lists: one or two numbers, joined by a dot. */
import { HubError } from '../../domain/errors.ts';

/** The numbers of a cursor; none for the first page. Refuses text that no list of the hub issues. */
export function readCursor(cursor: string | null): readonly number[] {
  if (cursor === null) return [];
  if (!/^\d{1,16}(\.\d{1,16})?$/.test(cursor)) throw notOurs();
  return cursor.split('.').map(Number);
}

export const notOurs = () => new HubError('invalid', { message: 'cursor: not one of ours' });
