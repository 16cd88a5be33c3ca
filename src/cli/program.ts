/**
 * The command line program, started by `bin/ocpi-hub.ts`. Each verb has its own file, and only the verb in use is
 * loaded, so that `--help` is fast.
 */
import { Command, CommanderError } from 'commander';
import { version } from '../version.ts';

interface Verb {
  readonly summary: string;
  load(): Promise<Command>;
}

const verbs: Readonly<Record<string, Verb>> = {
  serve: {
    summary: 'run the hub',
    load: async () => (await import('./serve.ts')).serveCommand(),
  },
  demo: {
    summary: 'run a hub with a simulated CPO and eMSP and walk the full session path',
    load: async () => (await import('./demo.ts')).demoCommand(),
  },
  partner: {
    summary: 'run one simulated partner against any hub',
    load: async () => (await import('./partner.ts')).partnerCommand(),
  },
  status: {
    summary: 'show a running hub at a glance',
    load: async () => (await import('./status.ts')).statusCommand(),
  },
  cluster: {
    summary: 'the nodes of a hub on a shared database, and which of them is the owner',
    load: async () => (await import('./cluster.ts')).clusterCommand(),
  },
  parties: {
    summary: 'partners: status, onboarding, endpoints, pulls',
    load: async () => (await import('./parties.ts')).partiesCommand(),
  },
  routes: {
    summary: 'which eMSP and CPO may exchange traffic, and why something is not delivered',
    load: async () => (await import('./routes.ts')).routesCommand(),
  },
  events: {
    summary: 'the log: every fact that the hub recorded',
    load: async () => (await import('./events.ts')).eventsCommand(),
  },
  trace: {
    summary: 'the story of an object or a request',
    load: async () => (await import('./trace.ts')).traceCommand(),
  },
  deliveries: {
    summary: 'what is and was owed to receivers, and every attempt',
    load: async () => (await import('./deliveries.ts')).deliveriesCommand(),
  },
  redrive: {
    summary: 'put dead letters back, one or all that a filter finds',
    load: async () => (await import('./redrive.ts')).redriveCommand(),
  },
  replay: {
    summary: 'owe again what a stretch of the log owed',
    load: async () => (await import('./replay.ts')).replayCommand(),
  },
  jobs: {
    summary: 're-drives, replays and resyncs',
    load: async () => (await import('./jobs.ts')).jobsCommand(),
  },
  commands: {
    summary: 'commands of eMSPs and how far each has come',
    load: async () => (await import('./commands.ts')).commandsCommand(),
  },
  orphans: {
    summary: 'sessions that did not end as they should',
    load: async () => (await import('./orphans.ts')).orphansCommand(),
  },
  store: {
    summary: 'the data directory: verify, back up, restore, copy',
    load: async () => (await import('./store.ts')).storeCommand(),
  },
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
    .showHelpAfterError('(ocpi-hub --help lists the commands, ocpi-hub <command> --help its options)')
    .exitOverride();
  // `ocpi-hub serve --help` and `ocpi-hub help serve` both name the verb within the first two words.
  const named = args.slice(0, 2);
  for (const [name, { summary, load }] of Object.entries(verbs)) {
    const command = named.includes(name) ? await load() : new Command(name);
    program.addCommand(inherit(command.summary(summary), program));
  }
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
  return 1;
}
