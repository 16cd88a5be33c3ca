/** The number in a cursor, as operators give it back. Refuses what none of our lists gave out. */
import { HubError } from '../../domain/errors.ts';

export function cursorNumber(text: string): number {
  if (!/^\d{1,16}$/.test(text)) throw new HubError('invalid', { message: 'cursor: not one of ours' });
  return Number(text);
}
