/**
 * `ocpi-hub store`: verifies, backs up and restores a data directory, and copies it into PostgreSQL. The verbs work on
 * the files of a store that no hub uses; `backup` asks a hub that uses it, or that `--url` names, to write it.
 *
 * CLI-STORE-1  Root opens no store of another user: the engine writes when it opens one, and the hub, which runs as
 *     that user, could not open what root has written.
 */
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Command } from 'commander';
import type { BackupManifest } from '../../storage/contract.ts';
import type { BackupKey } from '../../storage/level/backup-keys.ts';
import { isInUse } from '../../storage/level/leveldb.ts';
import { backupStore, isBackup, restoreBackup, type VerifiedStore, verifyStore } from '../../storage/level/restore.ts';
import { type Copied, copyToPostgres } from '../../storage/migrate.ts';
import type { BackupView } from '../api/hub.ts';
import { privateKeyOf, sealingOf } from '../backup-keys.ts';
import { otherThanRoot } from '../data-directory.ts';
import type { Paint } from '../kit/paint.ts';
import { Failure, HubClient, keptToken } from './client.ts';
import { watched } from './job.ts';
import { type Context, localJson, noun, type Option, verb } from './verb.ts';

interface StoreFlags {
  readonly dataDir?: string;
  readonly url?: string;
  readonly replace?: boolean;
  readonly to?: string;
  readonly backupPublicKey?: string;
  readonly privateKey?: string;
}

const showEveryMs = 500;

const dataDirAs = (meaning: string): Option => ['--data-dir <directory>', `${meaning} [HUB_DATA_DIR, default: ./data]`];

const privateKeyOption = ['--private-key <file>', 'private key of a sealed backup, PEM'] as const;

export function command(): Command {
  const verbs: [Command, ...Command[]] = [
    verb<StoreFlags>({
      usage: 'verify [directory]',
      summary: 'look at every record of a data directory, or of a backup, that no hub uses; changes nothing',
      isLocal: true,
      options: [dataDirAs('data directory that is verified when none is named'), privateKeyOption],
      examples: ['store verify --data-dir ./data', 'store verify /backups/2026-01-31'],
      run: (context, [given], flags) => verify(context, given ?? null, flags),
    }),
    verb<StoreFlags>({
      usage: 'backup <directory>',
      summary:
        'write a verified backup into a new directory; of the running hub when one uses the data directory, or HUB_URL names it and --data-dir no store',
      options: [
        dataDirAs(
          'data directory of the store, and where admin-token is; without --url a hub that uses it must take that token',
        ),
        ['--backup-public-key <file>', 'X25519 public key, PEM, for which it must be sealed [HUB_BACKUP_PUBLIC_KEY]'],
      ],
      examples: ['store backup /backups/2026-01-31', 'store backup /backups/2026-01-31 --url http://127.0.0.1:8080'],
      run: (context, [given = ''], flags) => backup(context, resolve(given), flags),
    }),
    verb<StoreFlags>({
      usage: 'restore <backup>',
      summary: 'make the store of a data directory from a backup; a store that is there is moved aside, if you say so',
      isLocal: true,
      options: [
        dataDirAs('data directory that gets the store'),
        ['--replace', 'move a store that is there aside'],
        privateKeyOption,
      ],
      examples: ['store restore /backups/2026-01-31 --data-dir ./data --replace'],
      run: (context, [given = ''], flags) => restore(context, resolve(given), flags),
    }),
    verb<StoreFlags>({
      usage: 'copy',
      summary:
        'copy the store of a data directory that no hub uses into an empty PostgreSQL schema, and verify it there',
      isLocal: true,
      options: [
        dataDirAs('data directory that is copied'),
        ['--to <address>', 'postgres://user@host:port/database?schema=name; PGPASSWORD has the password'],
      ],
      examples: ["store copy --to 'postgres://hub@db1,db2/ocpi?schema=ocpi_hub' --data-dir ./data"],
      run: (context, _, flags) => copy(context, flags),
    }),
  ];
  const options = [dataDirAs('data directory of the store'), localJson];
  return noun('store', 'the data directory: verify, back up, restore, copy', verbs, options);
}

const dataDirOf = ({ dataDir }: StoreFlags): string => resolve(dataDir ?? (process.env.HUB_DATA_DIR || './data'));

const keyOf = ({ privateKey }: StoreFlags) => (privateKey === undefined ? null : privateKeyOf(privateKey));

/** Throws when root would write into a directory of another user. [CLI-STORE-1] */
function mustBeOwn(store: string): void {
  const owner = otherThanRoot(present(store));
  if (owner === null) return;
  throw new Failure(`${owner.why}: sudo -u '#${owner.uid}' ocpi-hub store … runs it as that user`, { exitCode: 2 });
}

/** The path or, where nothing is there, the nearest directory above it. */
const present = (path: string): string => (existsSync(path) ? path : present(dirname(path)));

/** Runs `work` and prints, at most every 500 ms, how many records its current step has processed. */
async function shown<T>(
  { screen }: Context,
  work: (show: (step: string, records: number) => void) => Promise<T>,
): Promise<T> {
  const progress = screen.progress();
  let last = Date.now();
  try {
    return await work((step, records) => {
      if (Date.now() - last < showEveryMs) return;
      last = Date.now();
      progress.show(0, 0, `${step}: ${records} records`);
    });
  } finally {
    progress.end();
  }
}

async function verify(context: Context, given: string | null, flags: StoreFlags): Promise<void> {
  const directory = given === null ? dataDirOf(flags) : resolve(given);
  if (given !== null && existsSync(join(directory, 'store')) && !(await isBackup(directory)))
    context.screen.say(`${directory} has no manifest.json: a data directory, which store restore takes for no backup`);
  const key = keyOf(flags);
  // What is sealed is opened as a copy.
  if (key === null) mustBeOwn(join(directory, 'store'));
  const report = await shown(context, (show) => verifyStore(directory, (records) => show('verifying', records), key));
  context.screen.answer({ directory, ...report }, (_, { paint }) => reportLines(directory, report, paint));
  if (report.faults.length > 0) throw new Failure(`${directory} is damaged: only a backup has what it lost`);
  if (report.repairs.length > 0) throw new Failure(`${directory} is damaged, and is repaired when the hub starts`);
  if (report.unread.length > 0)
    throw new Failure(`every record of ${directory} is sound, and not every mark beside it could be read`);
}

async function backup(context: Context, directory: string, flags: StoreFlags): Promise<void> {
  const store = join(dataDirOf(flags), 'store');
  const backupPublicKey = flags.backupPublicKey ?? (process.env.HUB_BACKUP_PUBLIC_KEY || null);
  const sealing = sealingOf({ backupPublicKey, dataDir: dataDirOf(flags) });
  // With a store of its own, `--data-dir` beats `HUB_URL`; without one it names the place of the admin token.
  const isNamed = flags.dataDir !== undefined && existsSync(store);
  const isAsked = flags.url !== undefined || (process.env.HUB_URL && !isNamed);
  if (!isAsked) mustBeOwn(store);
  if (isAsked || (await isInUse(join(store, 'db')))) {
    if (flags.url === undefined && isNamed) await mustBeOn(dataDirOf(flags), context.hub);
    await backupRunning(context, directory, sealing);
    return;
  }
  if (!existsSync(store)) {
    throw new Failure(`${dataDirOf(flags)} has no store: --data-dir names one, --url a running hub`);
  }
  const manifest = await shown(context, (progress) => backupStore(store, directory, { progress, sealing }));
  context.screen.answer(manifest, () => backupLines(directory, manifest));
}

/**
 * Has a running hub write a backup through its admin API, and watches it until it ends. The directory is on the hub's
 * machine. `sealing`: the key for which the backup must be sealed; null when it does not matter.
 */
async function backupRunning(
  { hub, screen }: Context,
  directory: string,
  sealing: Pick<BackupKey, 'fingerprint'> | null,
): Promise<void> {
  const started = await hub.send<BackupView>('POST', '/backup', { directory });
  const look = () => hub.get<BackupView>(`/backups/${encodeURIComponent(started.id)}`);
  const words = ({ step, records }: BackupView) => `${step ?? ''}: ${records} records`;
  const made = await watched(screen, started, look, words);
  screen.answer(made, ({ state, sequence: head, ...rest }) =>
    state === 'DONE' ? backupLines(directory, { head, ...rest }, "the running hub's store") : [],
  );
  if (made.state !== 'DONE') throw new Failure(`the backup ended ${made.state}: ${made.error ?? 'it left no files'}`);
  if (sealing !== null && made.sealed_for !== sealing.fingerprint) {
    const whose = made.sealed_for === null ? 'it is not sealed' : `it is sealed for ${made.sealed_for}`;
    throw new Failure(`${whose}: remove it; the hub needs HUB_BACKUP_PUBLIC_KEY with the key ${sealing.fingerprint}`);
  }
}

/** Rejects unless a hub is known to be the one that uses the data directory: that one takes the token that is kept there. */
async function mustBeOn(dataDir: string, { url }: HubClient): Promise<void> {
  const token = keptToken(dataDir);
  const isIts =
    token !== null &&
    (await new HubClient({ url, token }, {}).has('/status').catch((error: unknown) => {
      if (error instanceof Failure && error.status === 401) return false;
      throw error;
    }));
  if (isIts) return;
  const why =
    token === null
      ? `no admin-token there tells whether the one at ${url} does`
      : `the one at ${url} does not take the admin-token there`;
  throw new Failure(`a hub uses ${dataDir}, and ${why}: --url names the hub that is backed up`, { exitCode: 2 });
}

async function restore(context: Context, from: string, flags: StoreFlags): Promise<void> {
  const dataDir = dataDirOf(flags);
  const store = join(dataDir, 'store');
  const replace = flags.replace === true;
  mustBeOwn(store);
  if (existsSync(store) && !replace) throw new Failure(`${store} is not empty: --replace moves it aside`);
  const key = keyOf(flags);
  const { manifest, aside } = await shown(context, (progress) =>
    restoreBackup(from, store, { replace, now: new Date(), progress, key }),
  );
  const hasKey = existsSync(join(dataDir, 'secret-key'));
  context.screen.answer({ manifest, aside, directory: dataDir }, () =>
    restoredLines(dataDir, manifest, { aside, hasKey }),
  );
}

async function copy(context: Context, flags: StoreFlags): Promise<void> {
  const dataDir = dataDirOf(flags);
  const store = join(dataDir, 'store');
  const { to } = flags;
  if (to === undefined)
    throw new Failure('--to names the database: postgres://user@host:port/database', { exitCode: 2 });
  if (!existsSync(store)) throw new Failure(`${dataDir} has no store: --data-dir names one`);
  mustBeOwn(store);
  const copied = await shown(context, (show) => copyToPostgres(store, to, show));
  context.screen.answer(copied, () => copiedLines(dataDir, copied));
}

function reportLines(directory: string, report: VerifiedStore, paint: Paint): string[] {
  const { head, horizon, events, rows, openDeliveries, delivered, timers, faults, repairs, unread, warning, manifest } =
    report;
  const trimmed = horizon === 0 ? '' : `; trimmed up to ${horizon}, of which ${events - (head - horizon)} are kept`;
  const isSound = faults.length + repairs.length + unread.length === 0;
  return [
    `${manifest === null ? 'data directory' : `backup of ${manifest.made_at}`}: ${directory}`,
    ...(manifest?.sealed_for ? [`sealed       for the key ${manifest.sealed_for}`] : []),
    `events       ${events} read, the last is ${head}${trimmed}`,
    `rows         ${rows}`,
    `deliveries   ${openDeliveries} open, ${delivered} delivered and remembered`,
    `timers       ${timers}`,
    ...(warning === null ? [] : [paint('yellow', `warning      ${warning}`)]),
    ...faults.map((fault) => paint('red', `lost         ${fault}`)),
    ...(faults.length > 0
      ? [
          '             a hub on it serves operators alone, or does not start: restore a backup (ocpi-hub store restore --help)',
        ]
      : []),
    ...repairs.map((repair) => paint('yellow', `to repair    ${repair}`)),
    ...unread.map((mark) => paint('yellow', `not read     ${mark}`)),
    ...(unread.length > 0
      ? [
          '             let this user read it, and verify again; a hub that cannot read it verifies every record and writes it again',
        ]
      : []),
    ...(isSound ? [paint('green', 'sound        every record passes its checksum, and none is missing')] : []),
  ];
}

/** What both a manifest and the admin API say of a backup. */
interface Made {
  readonly head: number | null;
  readonly records: number;
  readonly bytes: number | null;
  readonly sealed_for?: string | null;
}

function backupLines(directory: string, made: Made, whose = 'the store'): string[] {
  const { head, records, bytes, sealed_for = null } = made;
  return [
    `${directory} holds ${whose} up to event ${head}: ${records} records, ${bytes} bytes, verified`,
    ...(sealed_for === null ? [] : [`sealed for the key ${sealed_for}`]),
  ];
}

function restoredLines(
  dataDir: string,
  { head, made_at, records }: BackupManifest,
  { aside, hasKey }: { readonly aside: string | null; readonly hasKey: boolean },
): string[] {
  return [
    `${dataDir} has the store of ${made_at} again, up to event ${head}: ${records} records, verified`,
    ...(aside === null ? [] : [`what was there is now ${aside}`]),
    ...(hasKey
      ? []
      : [
          `${dataDir} has no secret-key: put the one of the hub that was backed up there, or set HUB_SECRET_KEY, before the hub`,
          'starts; without it no partner can be called, and all have to register again',
        ]),
  ];
}

function copiedLines(dataDir: string, { to, head, events, rows, deliveries, timers, digest }: Copied): string[] {
  return [
    `${to} holds the store of ${dataDir} up to event ${head}, read back and the same:`,
    `${events} events, ${rows} rows, ${deliveries} deliveries, ${timers} timers; SHA-256 ${digest}`,
    `${dataDir} is as it was: a hub started on it again would go its own way`,
  ];
}
