/** Formats the reports of `ocpi-hub store` as lines for people. */
import type { BackupManifest } from '../../storage/contract.ts';
import type { VerifiedStore } from '../../storage/level/restore.ts';
import type { Copied } from '../../storage/migrate.ts';
import type { Paint } from '../kit/paint.ts';

export function reportLines(directory: string, report: VerifiedStore, paint: Paint): string[] {
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

export function backupLines(directory: string, made: Made, whose = 'the store'): string[] {
  const { head, records, bytes, sealed_for = null } = made;
  return [
    `${directory} holds ${whose} up to event ${head}: ${records} records, ${bytes} bytes, verified`,
    ...(sealed_for === null ? [] : [`sealed for the key ${sealed_for}`]),
  ];
}

export function restoredLines(
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

export function copiedLines(dataDir: string, { to, head, events, rows, deliveries, timers, digest }: Copied): string[] {
  return [
    `${to} holds the store of ${dataDir} up to event ${head}, read back and the same:`,
    `${events} events, ${rows} rows, ${deliveries} deliveries, ${timers} timers; SHA-256 ${digest}`,
    `${dataDir} is as it was: a hub started on it again would go its own way`,
  ];
}
