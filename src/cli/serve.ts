/**
 * `ocpi-hub serve`: runs the hub. Exit 0 after a stop by signal, 1 on failure, 2 on wrong usage or configuration.
 *
 * SERVE-1  Stdout gets one line once the hub accepts requests, and on a terminal the console's address, the admin
 *     token's place and a warning of a Node that has ended; everything else goes to stderr.
 * SERVE-2  SIGTERM or SIGINT stops the hub gracefully, also while it starts; a second one, more than 2 s later, ends
 *     the process at once (`stop-signal.ts`).
 * SERVE-3  SIGHUP reloads the operators file, and the certificate and its key when the hub terminates TLS itself; with
 *     neither it does nothing, or on a terminal, which was closed, what SIGTERM does. One that comes during the start is
 *     heeded once the hub serves. What cannot be used is reported, and what was in use stays.
 * SERVE-4  The exit needs nothing of stderr: an orderly one gives the log's lines 1 s, a second signal none.
 */
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { type Config, ConfigError, loadConfig } from '../config/config.ts';
import { flagOfSetting, type SettingName, settingNames, settings } from '../config/settings.ts';
import type { Clock } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import type { ServingHub } from '../main.ts';
import { outOfDate } from '../metrics/upkeep-metrics.ts';
import { endOfNode } from '../node-release.ts';
import { stderrLines } from '../stderr-lines.ts';
import { stopSignal } from './stop-signal.ts';

const notes = `
Each setting is also an environment variable (in brackets); a flag beats it. A variable HUB_... that is none of them is refused.
UV_THREADPOOL_SIZE: threads for files and the store (64 unless set).
SIGTERM or SIGINT stops the hub in good order; a second one, when it comes more than 2 s after the first, stops it at once.
Exit codes: 0 stopped by SIGTERM or SIGINT, 1 failed, 2 wrong usage or configuration.`;

export function command(): Command {
  const command = new Command('serve').description('run the hub').addHelpText('after', notes);
  for (const name of settingNames) command.addOption(optionOf(name));
  return command.action(async (flags: Record<string, string | undefined>) => {
    const code = await serve(flags);
    await stderrLines.written();
    process.exit(code);
  });
}

function optionOf(name: SettingName): Option {
  const { unit, fallback, otherwise, meaning, source, consequence } = settings[name];
  const origin = source === 'requirement' ? ', as the interface says' : '';
  return new Option(
    `--${flagOfSetting(name)} <${unit}>`,
    `${meaning}; ${consequence} [${name}, default: ${fallback ?? otherwise ?? 'none'}${origin}]`,
  );
}

async function serve(flags: Record<string, string | undefined>): Promise<number> {
  const stop = stopSignal();
  try {
    const config = loadConfig({ env: process.env, flags });
    let asked = false;
    let reload = () => {
      asked = true;
    };
    process.on('SIGHUP', () => reload());
    const { startServing } = await import('../main.ts');
    const ending = new AbortController();
    void stop.promise.then(() => ending.abort());
    const hub = await startServing(config, {}, ending.signal);
    reload = () => reloadOf(hub, config, flags);
    if (asked) reload();
    console.log(`ocpi-hub listening on ${hub.url}`);
    if (process.stdout.isTTY) console.log(whereNext(hub.adminUrl, config, process.versions.node, systemClock));
    await stop.promise;
    await hub.close();
    return 0;
  } catch (error) {
    if (error instanceof Error && error.name === 'StartStopped') return 0;
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`ocpi-hub: ${message.replaceAll(/\s*\n\s*/g, ' ')}\n`);
    return error instanceof ConfigError ? 2 : 1;
  }
}

/** What a person at a terminal needs next. `node`: the version that runs. [SERVE-1] */
export function whereNext(
  url: string,
  { publicUrl, operators, adminToken, dataDir }: Pick<Config, 'publicUrl' | 'operators' | 'adminToken' | 'dataDir'>,
  node: string,
  clock: Pick<Clock, 'wall'>,
): string {
  const token = adminToken === null ? `in ${join(dataDir, 'admin-token')}` : 'the one in HUB_ADMIN_TOKEN';
  const base = operators === null ? publicUrl : null;
  const ended = endOfNode(node, clock);
  const lines = [`  console      ${base ?? browsable(url)}/console/`, `  admin token  ${token}`];
  return [...lines, ...(ended === null ? [] : [`  warning      ${ended}`])].join('\n');
}

/** Replaces an address that means "all interfaces" by loopback, which browsers can open. */
function browsable(url: string): string {
  return url.replace('://0.0.0.0:', '://127.0.0.1:').replace('://[::]:', '://[::1]:');
}

/** [SERVE-3] */
function reloadOf(hub: ServingHub, { tls, operatorsFile }: Config, flags: Record<string, string | undefined>): void {
  if (tls) renew(hub, flags);
  if (operatorsFile !== null) reloadOperators(hub);
  if (tls || operatorsFile !== null) return;
  if (process.stdout.isTTY) process.kill(process.pid, 'SIGTERM');
  else process.stderr.write('ocpi-hub: SIGHUP: there is neither a certificate nor an operators file to re-read\n');
}

const operators = (count: number) => (count === 1 ? '1 operator' : `${count} operators`);

function reloadOperators(hub: ServingHub): void {
  try {
    process.stderr.write(`ocpi-hub: operators file re-read: ${operators(hub.reloadOperators())}\n`);
  } catch (error) {
    process.stderr.write(`ocpi-hub: ${(error as Error).message}; the operators in use stay\n`);
  }
}

/** Reloads the certificate. With an invalid one the hub keeps the certificate in use. [SERVE-3] */
function renew(hub: ServingHub, flags: Record<string, string | undefined>): void {
  try {
    const { tls } = loadConfig({ env: process.env, flags });
    if (tls) hub.renewCertificate(tls);
    const unfit = tls && outOfDate(tls.cert, systemClock);
    process.stderr.write(`ocpi-hub: certificate re-read${unfit ? `: ${unfit}` : ''}\n`);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`ocpi-hub: ${message}; the certificate in use stays\n`);
  }
}
