/**
 * Has a running hub write a backup through its admin API, and watches it until it ends. The directory is on the hub's
 * machine.
 */
import type { BackupKey } from '../../storage/level/backup-keys.ts';
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { Failure } from './client.ts';
import { backupLines } from './store-lines.ts';
import type { Context } from './verb.ts';

interface Backup {
  readonly id: string;
  readonly directory: string;
  readonly state: 'RUNNING' | 'DONE' | 'FAILED' | 'INTERRUPTED';
  readonly step: string | null;
  readonly records: number;
  readonly bytes: number | null;
  readonly sequence: number | null;
  readonly sealed_for: string | null;
  readonly error: string | null;
}

const lookEveryMs = 300;

/** `sealing`: the key for which the backup must be sealed; null when it does not matter. */
export async function backupRunning(
  { hub, screen }: Context,
  directory: string,
  sealing: Pick<BackupKey, 'fingerprint'> | null,
): Promise<void> {
  let backup = await hub.send<Backup>('POST', '/backup', { directory });
  const progress = screen.progress();
  try {
    while (backup.state === 'RUNNING') {
      progress.show(0, 0, `${backup.step ?? ''}: ${backup.records} records`);
      await sleep(systemClock, lookEveryMs);
      backup = await hub.get<Backup>(`/backups/${encodeURIComponent(backup.id)}`);
    }
  } finally {
    progress.end();
  }
  screen.answer(backup, ({ state, sequence: head, ...made }) =>
    state === 'DONE' ? backupLines(directory, { head, ...made }, "the running hub's store") : [],
  );
  if (backup.state !== 'DONE')
    throw new Failure(`the backup ended ${backup.state}: ${backup.error ?? 'it left no files'}`);
  if (sealing !== null && backup.sealed_for !== sealing.fingerprint) {
    const whose = backup.sealed_for === null ? 'it is not sealed' : `it is sealed for ${backup.sealed_for}`;
    throw new Failure(`${whose}: remove it; the hub needs HUB_BACKUP_PUBLIC_KEY with the key ${sealing.fingerprint}`);
  }
}
