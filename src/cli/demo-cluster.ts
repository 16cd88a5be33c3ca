/**
 * `ocpi-hub demo --cluster`: runs two nodes on a temporary PostgreSQL server, one as owner and one as standby, walks
 * the session path through both, and kills the owner in the middle of it.
 *
 * DEMO-CLUSTER-1  The demo observes which node did what and infers nothing: the balancer reports the node that takes a
 *     request, and each node puts its name on the requests that it sends.
 * DEMO-CLUSTER-2  The owner is the node that sent the last request other than an authorization or a command, which any
 *     node sends.
 */
import { randomBytes } from 'node:crypto';
import { ConfigError } from '../config/config.ts';
import { startBalancer } from '../sandbox/balancer.ts';
import { freePort } from '../sandbox/free-port.ts';
import type { Narrator } from '../sandbox/narrate.ts';
import { startTemporaryPostgres } from '../sandbox/postgres.ts';
import { openPath, type Step, sessionPath } from '../sandbox/session-path.ts';
import { DemoNodes } from './demo-nodes.ts';
import type { CleanUps, DemoFlags, Stage } from './demo-stage.ts';

/**
 * How many steps before the end of the path the owner is killed: the session is then active and its meter not yet read.
 * Another number moves the kill to another step.
 */
const stepsAfter = 6;

export async function openCluster(flags: DemoFlags, narrator: Narrator, cleanUps: CleanUps): Promise<Stage> {
  if (flags.dataDir !== undefined || flags.port !== '0') {
    throw new ConfigError('--cluster takes neither --port nor --data-dir: the nodes and their data are temporary');
  }
  const database = await startTemporaryPostgres();
  cleanUps.unshift(() => database.close());
  const ports = [await freePort(), await freePort()];
  const adminToken = randomBytes(24).toString('hex');
  const nodes = new DemoNodes(ports, adminToken, narrator);
  const balancer = await startBalancer(ports, nodes.took);
  cleanUps.unshift(async () => balancer.close());
  cleanUps.unshift(() => nodes.close());
  await nodes.start(settingsOf(balancer.url, database.port, adminToken));
  const context = await openPath({
    hubUrl: balancer.url,
    adminToken,
    retryUntilAnswered: true,
    onAdminCall: (call) => narrator.operatorCall(call, nodes.hubOf(call.headers)),
  });
  cleanUps.unshift(() => context.close());
  // Registered before the narrator, so that `nodes` knows the owner when the narrator prints a line.
  for (const partner of [context.cpo, context.emsp]) partner.transcript.follow(nodes.sees);
  const kill: Step = { name: 'The owner is killed in the middle of the session', run: () => nodes.killOwner() };
  return {
    context,
    path: [...sessionPath.slice(0, -stepsAfter), kill, ...sessionPath.slice(-stepsAfter)],
    opening: [
      'ocpi-hub demo: two nodes on a temporary PostgreSQL server, asked by turns',
      ...nodes.lines().map((line) => `  ${line}`),
      '  * is the owner, which alone sends deliveries. Each answers pushes, reads,',
      '  authorizations and commands, and passes the rest on to the owner.',
    ],
    hubOf: nodes.hubOf,
    moral: ' The kill lost nothing.',
    restore: nodes.restore,
    consoles: nodes.consoles,
    toTry: () => [...nodes.lines(), ...nodes.toTry()],
  };
}

function settingsOf(publicUrl: string, databasePort: number, adminToken: string): Record<string, string> {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith('HUB_'));
  return {
    ...Object.fromEntries(own.map(([name, value]) => [name, value ?? ''])),
    HUB_STORE: `postgres://hub@127.0.0.1:${databasePort}/postgres?single=1`,
    HUB_PUBLIC_URL: publicUrl,
    HUB_HOST: '127.0.0.1',
    HUB_LOG_LEVEL: 'silent',
    HUB_ADMIN_TOKEN: adminToken,
    HUB_CLUSTER_SECRET: randomBytes(24).toString('hex'),
    HUB_SECRET_KEY: randomBytes(32).toString('hex'),
  };
}
