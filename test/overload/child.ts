/**
 * A hub in a process of its own that can be asked what it holds: after collections of garbage, so that only what is in use counts.
 */
import { loadConfig } from '../../src/config/config.ts';
import { startHub } from '../../src/main.ts';

/** What a process and its hub hold at rest. */
export interface Held {
  readonly heapBytes: number;
  /** Handles and requests of the event loop, by kind. */
  readonly resources: Readonly<Record<string, number>>;
  /** Waits that are armed. */
  readonly deadlines: number;
  readonly actors: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Deliveries that wait. */
  readonly backlog: number;
  /** Events in the log. */
  readonly events: number;
}

const hub = await startHub(loadConfig({ env: process.env, flags: {} }));

async function held(): Promise<Held> {
  // A second sweep takes what finalizers of the first let go.
  for (let sweep = 0; sweep < 3; sweep++) {
    globalThis.gc?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { operations } = hub.created.hub;
  const { actors, backlog, sequence } = operations.status();
  const resources: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) resources[kind] = (resources[kind] ?? 0) + 1;
  return {
    heapBytes: process.memoryUsage().heapUsed,
    ...{ resources, deadlines: operations.vitals().deadlines, actors, backlog: backlog.depth, events: sequence },
  };
}

process.on('message', async (message) => {
  if (message === 'held') process.send?.(await held());
  else {
    await hub.close();
    // Whatever it still holds is in its report, and must not keep it.
    process.exit();
  }
});
process.send?.({ url: hub.url, adminToken: hub.adminToken });
