/**
 * `ocpi-hub demo --cluster`: two nodes that share the parties on a PostgreSQL server to throw away, the session path through both, and the
 * death of one of them in the middle of it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { startBalancer } from '../sandbox/balancer.ts';
import { freePort } from '../sandbox/free-port.ts';
import type { Narrator } from '../sandbox/narrate.ts';
import { ended, startTemporaryPostgres } from '../sandbox/postgres.ts';
import { charging, onboarding, openPath, type PathContext, type Step } from '../sandbox/session-path.ts';
import type { Cluster } from './answers.ts';

/** Before this many steps are left, a node dies: the session is active, and its meter is not read yet. */
const stepsAfter = 6;
const patienceMs = 60_000;

interface Node {
  readonly url: string;
  readonly child: ChildProcess;
}

type RunSteps = (steps: readonly Step[], context: PathContext) => Promise<boolean>;

/** Exit code. */
export async function clusterDemo(
  narrator: Narrator,
  cleanUps: (() => Promise<unknown>)[],
  runSteps: RunSteps,
): Promise<number> {
  const database = await startTemporaryPostgres();
  cleanUps.unshift(() => database.close());
  const ports = [await freePort(), await freePort()];
  const balancer = await startBalancer(ports);
  cleanUps.unshift(async () => balancer.close());
  const adminToken = randomBytes(24).toString('hex');
  const env = settingsOf(balancer.url, database.port, adminToken);
  const nodes: Node[] = [];
  cleanUps.unshift(() => Promise.all(nodes.map(({ child }) => ended(child, 'SIGTERM'))));
  for (const port of ports) nodes.push(await startNode(port, env));
  const own = async ({ url }: Node) => ownOf(await clusterAt(url, adminToken));
  for (const node of nodes) await until('the nodes share the parties', async () => hasItsShare(await own(node)));

  const onAdminCall = narrator.operatorCall.bind(narrator);
  const context = await openPath({ hubUrl: balancer.url, adminToken, retryUntilAnswered: true, onAdminCall });
  cleanUps.unshift(() => context.close());
  narrator.line('ocpi-hub demo: two nodes on a temporary PostgreSQL server, and each request goes to the other one');
  for (const node of nodes) {
    narrator.line(`  ${narrator.paint('cyan', node.url)} has ${(await own(node)).shards} of 256 shards of the parties`);
  }
  narrator.follow(context.cpo);
  narrator.follow(context.emsp);
  const steps = [...onboarding, ...charging];
  if (!(await runSteps(steps.slice(0, -stepsAfter), context))) return 1;

  const [first, other] = nodes;
  if (first === undefined || other === undefined) throw new Error('two nodes were started');
  narrator.line();
  narrator.line(
    narrator.paint(
      'red',
      `${first.url} is killed. What comes for its parties meanwhile is answered 503 and sent again.`,
    ),
  );
  await ended(first.child, 'SIGKILL');
  const died = performance.now();
  const taken = until('the other node has all', async () => (await own(other)).shards === 256).then(
    () => performance.now() - died,
  );
  // It is waited for below, also when a step fails before.
  taken.catch(() => {});
  if (!(await runSteps(steps.slice(-stepsAfter), context))) return 1;
  const seconds = ((await taken) / 1000).toFixed(1);
  const { head } = await clusterAt(other.url, adminToken);
  narrator.line();
  narrator.line(narrator.paint('green', 'The full session path was walked, and the death of a node lost nothing.'));
  narrator.line(`  ${other.url} had all 256 shards ${seconds} s later; the log holds ${head} events`);
  return 0;
}

function settingsOf(publicUrl: string, databasePort: number, adminToken: string): Record<string, string> {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('HUB_'));
  return {
    ...Object.fromEntries(own.map(([name, value]) => [name, value ?? ''])),
    ...{ HUB_STORE: `postgres://hub@127.0.0.1:${databasePort}/postgres?single=1`, HUB_PUBLIC_URL: publicUrl },
    ...{ HUB_HOST: '127.0.0.1', HUB_LOG_LEVEL: 'silent', HUB_ADMIN_TOKEN: adminToken },
    ...{ HUB_CLUSTER_SECRET: randomBytes(24).toString('hex'), HUB_SECRET_KEY: randomBytes(32).toString('hex') },
  };
}

/** Resolves when it listens. */
async function startNode(port: number, env: Record<string, string>): Promise<Node> {
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(process.execPath, [process.argv[1] ?? '', 'serve', '--port', `${port}`], {
    env: { ...env, HUB_NODE_URL: url },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  for await (const line of createInterface(child.stdout)) {
    if (!line.startsWith('ocpi-hub listening')) continue;
    child.stdout.resume();
    return { url, child };
  }
  throw new Error('a node ended before it listened');
}

async function clusterAt(url: string, adminToken: string): Promise<Cluster> {
  const answer = await fetch(`${url}/admin/v1/cluster`, { headers: { authorization: `Bearer ${adminToken}` } });
  if (!answer.ok) throw new Error(`GET ${url}/admin/v1/cluster was answered HTTP ${answer.status}`);
  return (await answer.json()) as Cluster;
}

/** What a node says of itself. */
function ownOf({ role, nodes }: Cluster): { role: string; shards: number; share: number } {
  const { shards = 0, share = 0 } = nodes.find(({ answering }) => answering) ?? {};
  return { role, shards, share };
}

const hasItsShare = ({ role, shards, share }: { role: string; shards: number; share: number }) =>
  role === 'owner' && share < 256 && shards === share;

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = systemClock.monotonic() + patienceMs;
  while (!(await holds())) {
    if (systemClock.monotonic() > end) throw new Error(`it never came to: ${what}`);
    await sleep(systemClock, 50);
  }
}
