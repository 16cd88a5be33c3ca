/**
 * `ocpi-hub demo --cluster`: two nodes on a PostgreSQL server to throw away, one the owner and one standing by, the session path
 * through both, and the death of the owner in the middle of it.
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

/** Before this many steps are left, the owner dies: the session is active, and its meter is not read yet. */
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
  const viewOf = ({ url }: Node) => clusterAt(url, adminToken);
  const isOwner = async (node: Node) => (await viewOf(node)).role === 'owner';
  const [owner, standby] = nodes;
  if (owner === undefined || standby === undefined) throw new Error('two nodes were started');
  await until('the first node is the owner', () => isOwner(owner));

  const onAdminCall = narrator.operatorCall.bind(narrator);
  const context = await openPath({ hubUrl: balancer.url, adminToken, retryUntilAnswered: true, onAdminCall });
  cleanUps.unshift(() => context.close());
  narrator.line('ocpi-hub demo: two nodes on a temporary PostgreSQL server, and each request goes to the other one');
  narrator.line(`  ${narrator.paint('cyan', owner.url)} is the owner`);
  narrator.line(
    `  ${narrator.paint('cyan', standby.url)} answers pushes and authorizations, too, and passes on the rest`,
  );
  narrator.follow(context.cpo);
  narrator.follow(context.emsp);
  const steps = [...onboarding, ...charging];
  if (!(await runSteps(steps.slice(0, -stepsAfter), context))) return 1;

  narrator.line();
  narrator.line(
    narrator.paint(
      'red',
      `${owner.url}, the owner, is killed. The other goes on answering; deliveries and commands wait for it to take over.`,
    ),
  );
  await ended(owner.child, 'SIGKILL');
  const died = performance.now();
  const taken = until('the other node is the owner', () => isOwner(standby)).then(() => performance.now() - died);
  // It is waited for below, also when a step fails before.
  taken.catch(() => {});
  if (!(await runSteps(steps.slice(-stepsAfter), context))) return 1;
  const seconds = ((await taken) / 1000).toFixed(1);
  const { head } = await viewOf(standby);
  narrator.line();
  narrator.line(narrator.paint('green', 'The full session path was walked, and the death of the owner lost nothing.'));
  narrator.line(`  ${standby.url} was the owner ${seconds} s later; the log holds ${head} events`);
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

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const end = systemClock.monotonic() + patienceMs;
  while (!(await holds())) {
    if (systemClock.monotonic() > end) throw new Error(`it never came to: ${what}`);
    await sleep(systemClock, 50);
  }
}
