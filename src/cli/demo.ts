/**
 * `ocpi-hub demo`: a hub on a throw-away data directory, a simulated CPO and a simulated eMSP as real HTTP servers, and the full
 * session path between them, told step by step. Exit 0 when it was walked (or stopped by signal), 1 naming the step that failed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { ConfigError, loadConfig } from '../config.ts';
import { withTimeout } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { Narrator } from '../sandbox/narrate.ts';
import { charging, onboarding, openPath, type PathContext, type Step } from '../sandbox/session-path.ts';
import { type StopSignal, stopSignal } from './stop-signal.ts';

interface DemoFlags {
  readonly cluster?: boolean;
  readonly once?: boolean;
  readonly port: string;
  readonly dataDir?: string;
  readonly pause: string;
}

const notes = `
Settings of the hub can be given as environment variables (ocpi-hub serve --help lists them), except addresses, TLS and
the store, which are the demo's own. A variable HUB_... that is no setting is refused, as by serve;
with --cluster none is read. Exit codes: 0 walked or stopped, 1 a step failed, 2 wrong usage or configuration.`;

export function demoCommand(): Command {
  return new Command('demo')
    .description('run a hub with a simulated CPO and eMSP and walk the full session path')
    .option('--once', 'end after one path instead of staying up, session after session')
    .option(
      '--cluster',
      'two nodes on a temporary PostgreSQL server, of which the owner is killed midway; ends after one path',
    )
    .option('--port <port>', 'port of the hub; 0 takes any free one', '0')
    .option('--data-dir <directory>', 'data directory of the hub, kept afterwards; by default a temporary one')
    .option('--pause <seconds>', 'between two sessions', '5')
    .addHelpText('after', notes)
    .action(async (flags: DemoFlags) => {
      process.exit(await demo(flags));
    });
}

async function demo(flags: DemoFlags): Promise<number> {
  const narrator = new Narrator(process.stdout, process.env);
  const stop = stopSignal();
  const temporary = flags.dataDir === undefined ? await mkdtemp(join(tmpdir(), 'ocpi-hub-demo-')) : null;
  const cleanUps: (() => Promise<unknown>)[] = [];
  if (temporary !== null) cleanUps.push(() => rm(temporary, { recursive: true, force: true }));
  try {
    if (flags.cluster) {
      if (flags.dataDir !== undefined || flags.port !== '0') {
        throw new ConfigError('--cluster takes neither --port nor --data-dir: all of it is temporary');
      }
      const { clusterDemo } = await import('./demo-cluster.ts');
      const code = await clusterDemo(narrator, cleanUps, (steps, context) => runSteps(steps, context, narrator, stop));
      return stop.asked ? 0 : code;
    }
    const config = configOf(flags, temporary ?? String(flags.dataDir));
    const { startHub } = await import('../main.ts');
    const hub = await startHub(config);
    cleanUps.unshift(() => hub.close());
    const context = await openPath({
      hubUrl: hub.url,
      adminToken: hub.adminToken,
      ...freshParties(),
      onAdminCall: (call) => narrator.operatorCall(call),
    });
    cleanUps.unshift(() => context.close());
    narrator.line(`ocpi-hub demo: the hub is at ${narrator.paint('cyan', hub.url)}`);
    return await walk(flags, context, narrator, stop);
  } catch (error) {
    process.stderr.write(`ocpi-hub: ${error instanceof Error ? error.message : String(error)}\n`);
    return error instanceof ConfigError ? 2 : 1;
  } finally {
    for (const cleanUp of cleanUps) await cleanUp().catch(() => {});
  }
}

async function walk(flags: DemoFlags, context: PathContext, narrator: Narrator, stop: StopSignal): Promise<number> {
  narrator.follow(context.cpo);
  narrator.follow(context.emsp);
  const startedAt = performance.now();
  if (!(await runSteps([...onboarding, ...charging], context, narrator, stop))) return stop.asked ? 0 : 1;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  narrator.line();
  narrator.line(narrator.paint('green', `The full session path was walked in ${seconds} s.`));
  if (flags.once) return 0;

  const { hubUrl, adminToken } = context;
  narrator.line();
  narrator.line(`The hub stays up, with a session every ${flags.pause} s, until Ctrl-C.`);
  for (const [what, url] of Object.entries({
    console: `${hubUrl}/console/`,
    'admin API': `${hubUrl}/admin/v1/status`,
    'API pages': `${hubUrl}/admin/docs`,
  })) {
    narrator.line(`  ${what.padEnd(11)} ${narrator.paint('cyan', url)}`);
  }
  narrator.line(`  ${'admin token'.padEnd(11)} ${adminToken}`);
  while (!stop.asked) {
    await withTimeout(systemClock, Number(flags.pause) * 1000, stop.promise);
    if (!stop.asked && !(await runSteps(charging, context, narrator, stop))) return stop.asked ? 0 : 1;
  }
  return 0;
}

/** Whether all were walked; a step that fails is named. */
async function runSteps(
  steps: readonly Step[],
  context: PathContext,
  narrator: Narrator,
  stop: StopSignal,
): Promise<boolean> {
  for (const step of steps) {
    if (stop.asked) return false;
    narrator.step(step.name);
    try {
      await Promise.race([step.run(context), stop.promise]);
    } catch (error) {
      narrator.line();
      narrator.line(narrator.paint('red', `Failed: ${step.name}`));
      process.stderr.write(`ocpi-hub: the step "${step.name}" failed: ${(error as Error).message}\n`);
      return false;
    }
  }
  return !stop.asked;
}

function configOf({ port, dataDir, pause }: DemoFlags, directory: string) {
  if (!/^\d+(\.\d+)?$/.test(pause)) throw new ConfigError(`--pause is "${pause}": expected seconds`);
  // A temporary hub has keys of its own, and is seen by nobody but this machine.
  const own = dataDir === undefined ? { host: '127.0.0.1' } : {};
  const env: Record<string, string | undefined> = { HUB_LOG_LEVEL: 'error', ...process.env };
  for (const name of notForTheDemo) delete env[name];
  return loadConfig({ env, flags: { ...own, port, dataDir: directory } });
}

/** Settings that would lead the simulated partners away from the demo's own hub, or the demo into a real one's data. */
const notForTheDemo = ['HUB_PUBLIC_URL', 'HUB_STORE', 'HUB_EGRESS_ALLOW', 'HUB_TLS_CERT', 'HUB_TLS_KEY'];

/** Other parties in each run, so that a kept data directory can be used again. */
function freshParties() {
  const letters = () => String.fromCharCode(65 + Math.floor(Math.random() * 26), 65 + Math.floor(Math.random() * 26));
  const suffix = letters();
  return {
    cpo: { country_code: 'NL', party_id: `C${suffix}` },
    emsp: { country_code: 'DE', party_id: `E${suffix}` },
  };
}
