/**
 * Has a running hub write a backup through its admin API, and watches it until it ends. The directory is on the hub's
 * machine.
 */
import type { BackupKey } from '../../storage/level/backup-keys.ts';
import type { BackupView } from '../api/hub.ts';
import { Failure } from './client.ts';
import { watched } from './job.ts';
import { backupLines } from './store-lines.ts';
import type { Context } from './verb.ts';

/** `sealing`: the key for which the backup must be sealed; null when it does not matter. */
export async function backupRunning(
  { hub, screen }: Context,
  directory: string,
  sealing: Pick<BackupKey, 'fingerprint'> | null,
): Promise<void> {
  const started = await hub.send<BackupView>('POST', '/backup', { directory });
  const look = () => hub.get<BackupView>(`/backups/${encodeURIComponent(started.id)}`);
  const words = ({ step, records }: BackupView) => `${step ?? ''}: ${records} records`;
  const backup = await watched(screen, started, look, words);
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
