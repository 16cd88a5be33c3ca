/** What calls to partners count while they are in flight, and what counting costs each of them. */
import { promiseHooks } from 'node:v8';
import type { PartyId } from '../../src/domain/party.ts';
import { countedPorts } from '../../src/hub/partners/reports.ts';
import type { HubPorts, OutboundCall } from '../../src/hub/ports/ports.ts';
import { t } from '../support/tap.ts';

const about = { partner: 'NL-EMS', module: 'sessions', object: null };

function counting(answer: () => Promise<unknown>) {
  const inFlight = new Map<PartyId, number>();
  const ports = { client: { call: answer } } as unknown as HubPorts;
  const { client } = countedPorts(ports, () => {}, inFlight);
  return { inFlight, call: (of: object) => client.call(of as OutboundCall) };
}

t.test('a call is in flight to its partner until it has ended, however it ends [REPORTS-5]', async (t) => {
  for (const end of ['resolves', 'rejects'] as const) {
    const { inFlight, call } = counting(async () => {
      if (end === 'rejects') throw new Error('the client is broken');
      return {};
    });
    const [one, two] = [call({ about }), call({ about })];
    t.same([...inFlight], [['NL-EMS', 2]]);
    const ended = await Promise.allSettled([one, two, call({})]);
    t.equal(new Set(ended.map(({ status }) => status)).size, 1, end);
    t.equal(inFlight.size, 0, 'a partner without calls has no entry');
  }
});

async function promisesOf(run: () => Promise<unknown>): Promise<number> {
  let count = 0;
  const stop = promiseHooks.onInit(() => {
    count += 1;
  });
  try {
    await run();
  } finally {
    stop();
  }
  return count;
}

t.test('counting a call creates one promise, of its wait', async (t) => {
  const answered = Promise.resolve({});
  const { call } = counting(() => answered);
  // The first count includes promises of the hook itself.
  await promisesOf(() => call({}));
  const [counted, bare] = [await promisesOf(() => call({ about })), await promisesOf(() => call({}))];
  t.ok(counted <= bare + 1, `${counted} promises beside ${bare}`);
});
