/**
 * `ocpi-hub demo --cluster`: two nodes on a PostgreSQL server to throw away, one the owner and one standing by, the session path
 * through both, and the death of the owner in the middle of it.
 *
 * DEMO-CLUSTER-1  Who did it is seen and not concluded: the balancer tells which node takes a request, and a node puts its name on what it sends.
 * DEMO-CLUSTER-2  The owner is the node that sent the last request other than an authorization, which any node sends.
 */
import { randomBytes } from 'node:crypto';
import { ConfigError } from '../config.ts';
import { startBalancer } from '../sandbox/balancer.ts';
import { freePort } from '../sandbox/free-port.ts';
import type { Narrator } from '../sandbox/narrate.ts';
import { startTemporaryPostgres } from '../sandbox/postgres.ts';
import { openPath, type Step, sessionPath } from '../sandbox/session-path.ts';
import { DemoNodes } from './demo-nodes.ts';
import type { CleanUps, DemoFlags, Stage } from './demo-stage.ts';

/** Before this many steps are left, the owner dies: the session is active, and its meter is not read yet. */
const stepsAfter = 6;

export async function openCluster(flags: DemoFlags, narrator: Narrator, cleanUps: CleanUps): Promise<Stage> {
  if (flags.dataDir !== undefined || flags.port !== '0') {
    throw new ConfigError('--cluster takes neither --port nor --data-dir: all of it is temporary');
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
    ...{ hubUrl: balancer.url, adminToken, retryUntilAnswered: true },
    onAdminCall: (call) => narrator.operatorCall(call, nodes.hubOf(call.headers)),
  });
  cleanUps.unshift(() => context.close());
  // Before their lines are told.
  for (const partner of [context.cpo, context.emsp]) partner.transcript.follow(nodes.sees);
  const kill: Step = { name: 'The owner is killed in the middle of the session', run: () => nodes.killOwner() };
  return {
    ...{ context, path: [...sessionPath.slice(0, -stepsAfter), kill, ...sessionPath.slice(-stepsAfter)] },
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
    ...{ HUB_STORE: `postgres://hub@127.0.0.1:${databasePort}/postgres?single=1`, HUB_PUBLIC_URL: publicUrl },
    ...{ HUB_HOST: '127.0.0.1', HUB_LOG_LEVEL: 'silent', HUB_ADMIN_TOKEN: adminToken },
    ...{ HUB_CLUSTER_SECRET: randomBytes(24).toString('hex'), HUB_SECRET_KEY: randomBytes(32).toString('hex') },
  };
}
