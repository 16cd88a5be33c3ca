/** The rows by which a later step finds a command follow from its events alone, also once it has ended. */

import type { CommandEvent } from '../../src/domain/events.ts';
import { foundAgainBy } from '../../src/hub/exchange/command-routing.ts';
import { foldCommand } from '../../src/hub/maintain/row-rebuild.ts';
import type { StoredEvent } from '../../storage/contract.ts';
import { t } from '../support/tap.ts';

const requested: CommandEvent = {
  type: 'command.requested',
  data: {
    ...{ id: 'c', command: 'RESERVE_NOW', emsp: 'NL-EMS', cpo: 'NL-CPO', responseUrl: 'https://emsp/r' },
    ...{ sessionId: null, reservationId: 'R1', authorizationReference: null, tokenUid: null },
  },
};
const failed: CommandEvent = { type: 'command.failed', data: { reason: 'The partner answered HTTP 500' } };
const answered: CommandEvent = { type: 'command.answered', data: { result: 'ACCEPTED', timeoutS: 30 } };
const relayed: CommandEvent = { type: 'command.relayed', data: { result: 'ACCEPTED' } };
const result = (accepts?: true): CommandEvent => {
  return { type: 'command.resultReceived', data: { result: 'ACCEPTED', ...(accepts && { accepts }) } };
};

/** Index of the events that write rows, told from the command as it ended. */
function writers(events: readonly CommandEvent[]): number[] {
  const at = '2026-01-02T03:04:05Z';
  const stored = events.map((event, index) => ({ ...event, seq: index + 1, at }) as StoredEvent & CommandEvent);
  const record = foldCommand(stored);
  return record === null ? [] : stored.flatMap((event, n) => (foundAgainBy(record, event, at).length > 0 ? [n] : []));
}

t.test('an accepting answer starts a reservation, and a later result does not start it again', async (t) => {
  t.same(writers([requested, answered, result(), relayed]), [1]);
});

t.test('a result starts a reservation whose forward had failed, also once it was relayed [D66]', async (t) => {
  t.same(writers([requested, failed, result(true), relayed]), [2]);
  t.same(writers([requested, failed, result(true), relayed, result(), relayed]), [2], 'and once only');
});

t.test('a failed forward alone starts no reservation', async (t) => t.same(writers([requested, failed]), []));
