/**
 * `ocpi-hub serve`: the hub itself. Exit 0 after a stop by signal, 1 when it cannot run, 2 when it is configured wrongly.
 *
 * V1  One line on stdout, once requests are accepted; everything else goes to stderr.
 * V2  The first SIGTERM or SIGINT stops in good order, also during the start; a second one stops at once.
 * V3  SIGHUP reads the certificate and its key anew, for a hub that speaks TLS itself.
 */
import { Command, Option } from 'commander';
import { ConfigError, loadConfig } from '../config.ts';
import type { ServingHub } from '../main.ts';
import { flagOfSetting, type SettingName, settingNames, settings } from '../settings.ts';

const notes = `
Each setting is also an environment variable (in brackets); a flag beats it.
Exit codes: 0 stopped by SIGTERM or SIGINT, 1 failed, 2 wrong usage or configuration.`;

export function serveCommand(): Command {
  const command = new Command('serve').description('run the hub').addHelpText('after', notes);
  for (const name of settingNames) command.addOption(optionOf(name));
  return command.action(async (flags: Record<string, string | undefined>) => {
    process.exit(await serve(flags));
  });
}

function optionOf(name: SettingName): Option {
  const { unit, fallback, otherwise, meaning, source, consequence } = settings[name];
  const origin = source === 'requirement' ? 'required by the interface' : 'our choice';
  return new Option(
    `--${flagOfSetting(name)} <${unit}>`,
    `${meaning}; ${consequence} [${name}, default: ${fallback ?? otherwise ?? 'none'}, ${origin}]`,
  );
}

async function serve(flags: Record<string, string | undefined>): Promise<number> {
  try {
    const stopAsked = signalled();
    const config = loadConfig({ env: process.env, flags });
    const { startServing } = await import('../main.ts');
    const hub = await startServing(config);
    if (config.tls) process.on('SIGHUP', () => renew(hub, flags));
    console.log(`ocpi-hub listening on ${hub.url}`);
    await stopAsked;
    await hub.close();
    return 0;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`ocpi-hub: ${message.replaceAll(/\s*\n\s*/g, ' ')}\n`);
    return error instanceof ConfigError ? 2 : 1;
  }
}

/** Reads the certificate anew. With a bad one the hub goes on as it was. [V3] */
function renew(hub: ServingHub, flags: Record<string, string | undefined>): void {
  try {
    const { tls } = loadConfig({ env: process.env, flags });
    if (tls) hub.renewCertificate(tls);
    process.stderr.write('ocpi-hub: the certificate was read anew\n');
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`ocpi-hub: ${message}; the certificate in use stays\n`);
  }
}

/** Resolves at the first signal to stop. */
function signalled(): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    const stop = () => {
      if (asked) process.exit(1);
      asked = true;
      resolve();
    };
    process.on('SIGTERM', stop).on('SIGINT', stop);
  });
}
