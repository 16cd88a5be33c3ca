/**
 * A backup as operators see it.
 */
import type { Trace } from '../../domain/trace.ts';

export interface BackupView {
  readonly id: string;
  /** Absolute, on the hub's machine. */
  readonly directory: string;
  readonly state: 'RUNNING' | 'DONE' | 'FAILED' | 'INTERRUPTED';
  /** What it is at; null when it has ended. */
  readonly step: 'copying' | 'verifying' | null;
  /** Records that were copied, then those that were verified. */
  readonly records: number;
  /** What it holds, once it is done. */
  readonly bytes: number | null;
  /** Last event that it holds, once it is done. */
  readonly sequence: number | null;
  readonly started_at: string;
  readonly ended_at: string | null;
  readonly error: string | null;
}

export interface BackupVerbs {
  /** Resolves once it is under way. Refuses with `invalid` where none can be made, and with `conflict` while one is. */
  startBackup(directory: string, trace: Trace): Promise<BackupView>;
  backup(id: string): Promise<BackupView>;
}
