/**
 * The name of the operator who caused an event, which the log keeps in the event's data. [D80]
 *
 * WHO-1  Only lists of events show it: what is folded or dispatched has no such field, so that rows and memory do not
 *     depend on who acted.
 */
import type { StoredEvent } from '../../../storage/contract.ts';

export const whoField = 'who';

/** The data as the log keeps them. */
export const signed = (data: object, operator: string): object => ({ ...data, [whoField]: operator });

/** [WHO-1] */
export function withoutWho(event: StoredEvent): StoredEvent {
  const recorded = (event.data ?? {}) as Record<string, unknown>;
  if (!(whoField in recorded)) return event;
  const { [whoField]: _, ...data } = recorded;
  return { ...event, data };
}
