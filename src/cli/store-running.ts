/**
 * Has a running hub write a backup through its admin API, and watches it until it ends. The directory is on the hub's
 * machine.
 */
import { sleep } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';
import { Failure } from './client.ts';
import type { Context } from './verb.ts';

interface Backup {
  readonly id: string;
  readonly directory: string;
  readonly state: 'RUNNING' | 'DONE' | 'FAILED' | 'INTERRUPTED';
  readonly step: string | null;
  readonly records: number;
  readonly bytes: number | null;
  readonly sequence: number | null;
  readonly error: string | null;
}

const lookEveryMs = 300;

export async function backupRunning({ hub, screen }: Context, directory: string): Promise<void> {
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
  screen.answer(backup, ({ state, records, bytes, sequence }) =>
    state === 'DONE'
      ? [
          `${directory} holds the running hub's store up to event ${sequence}: ${records} records, ${bytes} bytes, verified`,
        ]
      : [],
  );
  if (backup.state !== 'DONE')
    throw new Failure(`the backup ended ${backup.state}: ${backup.error ?? 'it left no files'}`);
}
