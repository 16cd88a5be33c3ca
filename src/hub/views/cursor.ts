/** Parses the number in a cursor that a client returns. Refuses text that no list of the hub issues. */
import { HubError } from '../../domain/errors.ts';

export function cursorNumber(text: string): number {
  if (!/^\d{1,16}$/.test(text)) throw new HubError('invalid', { message: 'cursor: not one of ours' });
  return Number(text);
}
