/**
 * A backup as operators see it, and the verbs that start one and read its progress.
 */
import type { Trace } from '../../domain/trace.ts';

export interface BackupView {
  readonly id: string;
  /** Absolute path on the hub's machine. */
  readonly directory: string;
  readonly state: 'RUNNING' | 'DONE' | 'FAILED' | 'INTERRUPTED';
  /** Present step; null when the backup has ended. */
  readonly step: 'copying' | 'verifying' | null;
  /** Records copied so far; while verifying, records verified so far. */
  readonly records: number;
  /** Size of the finished backup; null before it is done. */
  readonly bytes: number | null;
  /** Sequence of the last event in the finished backup; null before it is done. */
  readonly sequence: number | null;
  readonly started_at: string;
  readonly ended_at: string | null;
  readonly error: string | null;
}

export interface BackupVerbs {
  /**
   * Resolves once the backup runs. Throws `invalid` where no backup can be made, and `conflict` while another one runs.
   */
  startBackup(directory: string, trace: Trace): Promise<BackupView>;
  backup(id: string): Promise<BackupView>;
}
