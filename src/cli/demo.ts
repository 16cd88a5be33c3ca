/**
 * `ocpi-hub demo`: runs a hub on a temporary data directory, or two nodes (`demo-cluster.ts`), with a simulated CPO and
 * a simulated eMSP as real HTTP servers, and narrates the full session path between them step by step. Exit 0 when the
 * path was walked (or a signal stopped the demo), 1 with the name of the step that failed.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { ConfigError, loadConfig } from '../config/config.ts';
import { withTimeout } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { Narrator } from '../sandbox/narrate.ts';
import { charging, openPath, type PathContext, type Step, sessionPath } from '../sandbox/session-path.ts';
import type { CleanUps, DemoFlags, Stage } from './demo-stage.ts';
import { type StopSignal, stopSignal } from './stop-signal.ts';

const notes = `
Settings of the hub can be given as environment variables (ocpi-hub serve --help lists them), except addresses, TLS and
the store, which are the demo's own. A variable HUB_... that is no setting is refused, as by serve;
with --cluster none is read. Exit codes: 0 walked or stopped, 1 a step failed, 2 wrong usage or configuration.`;

export function command(): Command {
  return new Command('demo')
    .description('run a hub with a simulated CPO and eMSP and walk the full session path')
    .option('--once', 'end after one path instead of staying up, session after session')
    .option(
      '--cluster',
      'two nodes on a temporary PostgreSQL server, of which the owner is killed midway; ends after one path',
    )
    .addOption(new Option('--stay', 'with --cluster: stay up all the same, with both nodes').conflicts('once'))
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
  const cleanUps: CleanUps = [];
  try {
    if (!/^\d+(\.\d+)?$/.test(flags.pause)) throw new ConfigError(`--pause is "${flags.pause}": expected seconds`);
    const open = flags.cluster ? (await import('./demo-cluster.ts')).openCluster : openHub;
    return await walk(flags, await open(flags, narrator, cleanUps), narrator, stop);
  } catch (error) {
    process.stderr.write(`ocpi-hub: ${error instanceof Error ? error.message : String(error)}\n`);
    return error instanceof ConfigError ? 2 : 1;
  } finally {
    for (const cleanUp of cleanUps) await cleanUp().catch(() => {});
  }
}

async function openHub(flags: DemoFlags, narrator: Narrator, cleanUps: CleanUps): Promise<Stage> {
  const temporary = flags.dataDir === undefined ? await mkdtemp(join(tmpdir(), 'ocpi-hub-demo-')) : null;
  if (temporary !== null) cleanUps.push(() => rm(temporary, { recursive: true, force: true }));
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
  return {
    context,
    path: sessionPath,
    opening: [`ocpi-hub demo: the hub is at ${narrator.paint('cyan', hub.url)}`],
    moral: '',
    restore: async () => {},
    consoles: () => ({ console: hub.url }),
    toTry: () => [],
  };
}

async function walk(flags: DemoFlags, stage: Stage, narrator: Narrator, stop: StopSignal): Promise<number> {
  const { context, opening, path, hubOf, moral, restore } = stage;
  for (const line of opening) narrator.line(line);
  for (const partner of [context.cpo, context.emsp]) narrator.follow(partner, hubOf);
  const startedAt = performance.now();
  if (!(await runSteps(path, context, narrator, stop))) return stop.asked ? 0 : 1;
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  narrator.line();
  narrator.line(narrator.paint('green', `The full session path was walked in ${seconds} s.${moral}`));
  if (flags.cluster ? !flags.stay : flags.once) return 0;

  narrator.line();
  await restore();
  narrator.line(`The hub stays up, with a session every ${flags.pause} s, until Ctrl-C.`);
  for (const line of whereNext(stage, narrator)) narrator.line(`  ${line}`);
  while (!stop.asked) {
    await withTimeout(systemClock, Number(flags.pause) * 1000, stop.promise);
    if (stop.asked) break;
    await restore();
    // A killed owner fails the command in flight; the cluster demo goes on with a new session.
    if (!(await runSteps(charging, context, narrator, stop)) && !flags.cluster) return stop.asked ? 0 : 1;
  }
  return 0;
}

function whereNext({ context: { hubUrl, adminToken }, consoles, toTry }: Stage, narrator: Narrator): string[] {
  const pages = {
    ...Object.fromEntries(Object.entries(consoles()).map(([title, url]) => [title, `${url}/console/`])),
    'admin API': `${hubUrl}/admin/v1/status`,
    'API pages': `${hubUrl}/admin/docs`,
  };
  const lines = Object.entries(pages).map(([what, url]) => `${what.padEnd(11)} ${narrator.paint('cyan', url)}`);
  return [...lines, `${'admin token'.padEnd(11)} ${adminToken}`, ...toTry()];
}

/** Runs the steps and returns whether all succeeded; prints the name of a step that fails. */
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

function configOf({ port, dataDir }: DemoFlags, directory: string) {
  // A temporary hub generates its keys in its own data directory and listens on the loopback interface only.
  const own = dataDir === undefined ? { host: '127.0.0.1' } : {};
  const env: Record<string, string | undefined> = { HUB_LOG_LEVEL: 'error', ...process.env };
  for (const name of notForTheDemo) delete env[name];
  return loadConfig({ env, flags: { ...own, port, dataDir: directory } });
}

/** Settings that would point the simulated partners at another hub, or the demo at the data of a real one. */
const notForTheDemo = [
  'HUB_PUBLIC_URL',
  'HUB_STORE',
  'HUB_EGRESS_ALLOW',
  'HUB_TLS_CERT',
  'HUB_TLS_KEY',
  'HUB_ADMIN_HOST',
  'HUB_ADMIN_PORT',
];

/** New party ids in each run, so that a kept data directory can be used again. */
function freshParties() {
  const letters = () => String.fromCharCode(65 + Math.floor(Math.random() * 26), 65 + Math.floor(Math.random() * 26));
  const suffix = letters();
  return {
    cpo: { country_code: 'NL', party_id: `C${suffix}` },
    emsp: { country_code: 'DE', party_id: `E${suffix}` },
  };
}
