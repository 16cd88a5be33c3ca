/**
 * A hub in a process of its own, so that its memory can be watched alone: told to, it lets up to a thousand state changes a second happen
 * to real actors and looks at its heap as they go.
 */
import { once } from 'node:events';
import { commandMachine } from '../../machines/command.ts';
import { loadConfig } from '../../src/config/config.ts';
import { startHub } from '../../src/main.ts';

const [dataDir = '', every] = process.argv.slice(2);
const partners = 200;
/** Changes between two looks at the heap. */
const sampledEvery = Number(every);
const warmUp = 4 * sampledEvery;
const samples = 12;
const stepMs = 20;
/** So many and no more, however late a step comes: readers are told of what happens one by one, not of a burst. */
const changesPerStep = 20;

const env = { HUB_PORT: '0', HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'silent' };
const hub = await startHub(loadConfig({ env, flags: {} }));
const { operations } = hub.created.hub;
const { supervisor, ports } = hub.created.context;

/** Two letters and a digit for each partner. */
const idOf = (n: number) => `A${String.fromCharCode(65 + Math.floor(n / 10))}${n % 10}`;
for (let n = 0; n < partners; n++) {
  const role = { role: 'EMSP' as const, country_code: 'NL', party_id: idOf(n), business_details: { name: idOf(n) } };
  await operations.addParty([role], {}, { requestId: '', correlationId: '' });
}

/** One state change of one of them; the tenth is a command that comes and goes. */
function change(n: number): void {
  const at = ports.clock.now();
  const party = `NL-${idOf(n % partners)}`;
  if (n % 10 === 9) {
    const id = `command:${n}`;
    const spec = {
      kind: 'command',
      machine: commandMachine,
      input: undefined,
      parties: [party],
      history: async () => [],
    };
    supervisor.start({ id, ...spec });
    supervisor.send(id, { type: 'command.answered', at, data: { result: 'ACCEPTED', timeoutS: 30 } });
    supervisor.send(id, { type: 'command.resultReceived', at, data: { result: 'ACCEPTED' } });
    supervisor.stop(id);
  } else if (n % 2 === 0) {
    supervisor.send(`courier:${party}`, { type: Math.floor(n / partners) % 2 === 0 ? 'pause' : 'resume' });
  } else supervisor.send(`partner:${party}`, { type: 'sync.reached', at });
}

function heapBytes(): number {
  global.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function run(): Promise<number[]> {
  const heap: number[] = [];
  for (let done = 0; heap.length < samples; ) {
    await new Promise((resolve) => setTimeout(resolve, stepMs));
    for (let step = 0; step < changesPerStep; step++, done++) {
      change(done);
      if (done > warmUp && done % sampledEvery === 0) heap.push(heapBytes());
    }
  }
  return heap;
}

process.send?.({ url: hub.url, adminToken: hub.adminToken });
await once(process, 'message');
const heap = await run();
process.send?.({ heap, actors: [...operations.actors()].map(({ id, snapshot }) => [id, snapshot]) });
await once(process, 'message');
await hub.close();
process.disconnect();
