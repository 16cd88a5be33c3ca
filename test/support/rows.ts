/** Rows that a hub has written long ago, in numbers that no test could have it make one by one. */
import type { CommandRecord } from '../../src/domain/command.ts';
import { commandRow as rowOf } from '../../src/hub/exchange/command-routing.ts';
import type { Put } from '../../storage/contract.ts';
import type { TestHub } from './hub-in-process.ts';

export const at = (second: number) => new Date(Date.UTC(2026, 0, 2) + second * 1000).toISOString();

/** Row of command number `nth`, which ended; the later, the newer. */
export function commandRow(nth: number, changes: Partial<CommandRecord> = {}): Put {
  const record: CommandRecord = {
    ...{ id: `c${nth}`, command: 'STOP_SESSION', emsp: 'NL-EMS', cpo: 'NL-CPO', state: 'relayed', at: at(nth) },
    ...{
      responseUrl: 'http://emsp.example/result',
      sessionId: null,
      reservationId: null,
      authorizationReference: null,
    },
    ...{ tokenUid: null, result: 'ACCEPTED', reason: null },
    ...changes,
  };
  return rowOf(record);
}

let commits = 0;

/** Writes rows as a hub writes them, a thousand in a commit. */
export async function written({ created }: Pick<TestHub, 'created'>, rows: readonly Put[]): Promise<void> {
  const { store } = created.context;
  const event = { stream: 'rows', type: 'rows.written', at: at(0), party: null, correlationId: null, to: [], data: {} };
  for (let from = 0; from < rows.length; from += 1000) {
    const puts = rows.slice(from, from + 1000);
    await store.append({ fence: store.held(), idem: `rows ${++commits}`, events: [{ ...event, body: null }], puts });
  }
}
