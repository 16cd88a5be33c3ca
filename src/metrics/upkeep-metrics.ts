/**
 * Gauges of what an operator has to renew in time: the certificate, room on the disk, a backup. Each is 0 where there is
 * none of it.
 */
import { X509Certificate } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import type { Clock } from '../kit/clock.ts';

export interface UpkeepMeter {
  /** PEM of the certificate that is served from now on; null without TLS. */
  certificate(pem: string | null): void;
  /** Directory on the file system that is measured. */
  dataDir(path: string): void;
}

export interface Upkeep {
  readonly meter: UpkeepMeter;
  /** `backupAt`: end of the last whole backup, RFC 3339, or null; undefined while unknown. */
  read(backupAt: string | null | undefined): Promise<void>;
}

/** Room on the file system of a directory, bytes; null where there is none: a node on a database needs no data directory. */
export async function diskOf(directory: string): Promise<{ readonly free: number; readonly size: number } | null> {
  try {
    const { bavail, blocks, bsize } = await statfs(directory);
    return { free: bavail * bsize, size: blocks * bsize };
  } catch {
    return null;
  }
}

/** Why callers refuse a certificate for its dates; null while they do not. */
export function outOfDate(pem: string, clock: Pick<Clock, 'wall'>): string | null {
  const { validFrom, validTo } = new X509Certificate(pem);
  const now = clock.wall();
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
  if (from <= now && now <= to) return null;
  const when = now > to ? `ended on ${dayOf(to)}` : `begins on ${dayOf(from)}`;
  return `the certificate of HUB_TLS_CERT ${when}: callers refuse the connection until it is renewed`;
}

const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

type Settable = { set(value: number): void };

export function upkeep(gauge: (name: string, help: string) => Settable): Upkeep {
  const expires = gauge(
    'certificate_expires_timestamp_seconds',
    'When the certificate of HUB_TLS_CERT ends, Unix time; 0 without TLS',
  );
  const free = gauge('data_free_bytes', 'Room that is left to the hub where its data directory is');
  const size = gauge('data_size_bytes', 'Size of the file system where its data directory is');
  const backup = gauge(
    'backup_timestamp_seconds',
    'When the last backup by the hub ended well, Unix time; 0 when none did',
  );
  let directory: string | null = null;
  return {
    meter: {
      certificate(pem) {
        expires.set(pem === null ? 0 : Date.parse(new X509Certificate(pem).validTo) / 1000);
      },
      dataDir(path) {
        directory = path;
      },
    },
    async read(backupAt) {
      if (backupAt !== undefined) backup.set(backupAt === null ? 0 : Date.parse(backupAt) / 1000);
      const disk = directory === null ? null : await diskOf(directory);
      free.set(disk?.free ?? 0);
      size.set(disk?.size ?? 0);
    },
  };
}
