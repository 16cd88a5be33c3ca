/**
 * The command line program, started by `bin/ocpi-hub.ts`. Each verb has its own file, and only the verb in use is
 * loaded, so that `--help` is fast; for completion all are.
 */
import { Command, CommanderError } from 'commander';
import { version } from '../version.ts';

/** Each file exports `command`, which makes its verb. */
const verbs: Readonly<Record<string, readonly [summary: string, load: () => Promise<{ command(): Command }>]>> = {
  serve: ['run the hub', () => import('./serve.ts')],
  demo: ['run a hub with a simulated CPO and eMSP and walk the full session path', () => import('./demo.ts')],
  partner: ['run one simulated partner against any hub', () => import('./partner.ts')],
  status: ['show a running hub at a glance', () => import('./status.ts')],
  cluster: ['the nodes of a hub on a shared database, and which of them is the owner', () => import('./cluster.ts')],
  check: ["try out a partner's endpoints before traffic flows", () => import('./check.ts')],
  parties: ['partners: status, onboarding, endpoints, pulls', () => import('./parties.ts')],
  routes: ['which eMSP and CPO may exchange traffic, and why something is not delivered', () => import('./routes.ts')],
  events: ['the log: every fact that the hub recorded', () => import('./events.ts')],
  trace: ['the history of an object or a request', () => import('./trace.ts')],
  deliveries: ['what is and was owed to receivers, and every attempt', () => import('./deliveries.ts')],
  discard: ['give dead letters up, one or all that a filter finds', () => import('./discard.ts')],
  redrive: ['put dead letters back, one or all that a filter finds', () => import('./redrive.ts')],
  replay: ['owe again what a stretch of the log owed', () => import('./replay.ts')],
  jobs: ['re-drives, replays, resyncs and discards', () => import('./jobs.ts')],
  commands: ['commands of eMSPs and how far each has come', () => import('./commands.ts')],
  orphans: ['sessions that did not end as they should', () => import('./orphans.ts')],
  reconcile: ['compare sessions with the CDRs that bill them', () => import('./reconcile.ts')],
  webhooks: ['who is notified of what needs operators, by webhook and by mail', () => import('./webhooks.ts')],
  views: ['addresses of the console that operators keep under a name', () => import('./views.ts')],
  subject: ['everything that is stored of a person', () => import('./subject.ts')],
  erase: ['replace what names a person with digests', () => import('./erase.ts')],
  audit: ['who acted on the hub, why, and from where', () => import('./audit.ts')],
  operators: ['the operators with names of their own', () => import('./operators.ts')],
  store: ['the data directory: verify, back up, restore, copy', () => import('./store.ts')],
};

// The reader of the output may close the pipe (`| head`); that is no failure.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

// Files that the command creates are accessible to their user only, databases and backups included.
process.umask(0o077);

try {
  const program = await programFor(process.argv.slice(2));
  await program.parseAsync();
} catch (error) {
  process.exitCode = exitCodeOf(error);
}

async function programFor(args: readonly string[]): Promise<Command> {
  const program = new Command('ocpi-hub')
    .description('An open roaming hub for electric-vehicle charging, OCPI 2.2.1')
    .version(version)
    // Else a value of a verb's option counts as one of these when it begins with `-V`, as one token in 4,096 does.
    .enablePositionalOptions()
    .showHelpAfterError('(ocpi-hub --help lists the commands, ocpi-hub <command> --help its options)')
    .exitOverride();
  // `ocpi-hub serve --help` and `ocpi-hub help serve` both name the verb within the first two words.
  const named = args.slice(0, 2);
  const isCompletion = named.includes('completion') || args[0] === 'complete';
  for (const [name, [summary, load]] of Object.entries(verbs)) {
    const verb = isCompletion || named.includes(name) ? (await load()).command() : new Command(name);
    program.addCommand(inherit(verb.summary(summary), program));
  }
  // The script asks the hidden command `complete`, which it adds, for verbs, options and words.
  if (isCompletion) (await import('@bomb.sh/tab/commander')).default(program, { completionCommandName: 'completion' });
  else program.command('completion').summary('print the completion script of a shell');
  return program;
}

/** Gives every nested command the same exit code and hint for wrong usage. */
function inherit(command: Command, parent: Command): Command {
  command.copyInheritedSettings(parent);
  for (const child of command.commands) inherit(child, command);
  return command;
}

/** 2 for wrong usage, 1 for anything else that a verb throws. */
function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  process.stderr.write(`ocpi-hub: ${error instanceof Error ? error.message : String(error)}\n`);
  return (error as { readonly exitCode?: number }).exitCode ?? 1;
}
