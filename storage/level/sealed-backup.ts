/**
 * Backups that are sealed for a public key.
 *
 *     {backup}/manifest.json    when it was made, the fingerprint of the key, the wrapped data key
 *     {backup}/sealed/          every file of a backup, its manifest included, each sealed
 *
 * SEALED-BACKUP-1  A backup is made and verified in the staging directory, then sealed into its place: no file there
 *     ever holds readable content. Each sealed file is read back and compared before the backup gets its name.
 * SEALED-BACKUP-2  A backup to which a file was added, or from which one was taken away, does not open.
 * SEALED-BACKUP-3  Nobody opens it without the private key; it does not authenticate who made it: anyone with the
 *     public key can make another one.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { type BackupKey, newDataKey, unwrappedKey, type WrappedKey } from './backup-keys.ts';
import { filesBelow, NotOpened, openedFile, openTree, sealFile } from './sealed-files.ts';

export const SEALED_FORMAT = 3;
/** Directory of the sealed files. */
export const SEALED = 'sealed';

export interface SealedManifest extends WrappedKey {
  readonly format: typeof SEALED_FORMAT;
  readonly made_at: string;
  /** Fingerprint of the key that opens it. */
  readonly sealed_for: string;
}

interface Means {
  readonly signal?: AbortSignal | undefined;
  readonly rest: () => Promise<void>;
}

/** Seals every file of `plain` into `backup`. Resolves with the manifest. [SEALED-BACKUP-1] */
export async function sealBackup(
  plain: string,
  backup: string,
  key: BackupKey,
  { madeAt, signal, rest }: Means & { readonly madeAt: string },
): Promise<SealedManifest> {
  const said = { format: SEALED_FORMAT, made_at: madeAt, sealed_for: key.fingerprint } as const;
  const names = await filesBelow(plain);
  const { dataKey, wrapped } = newDataKey(key, boundTo(said, names));
  for (const name of names) {
    signal?.throwIfAborted();
    const path = join(backup, SEALED, name);
    const before = await sealFile(join(plain, name), path, { name, dataKey, rest });
    const digest = createHash('sha256');
    for await (const content of openedFile(path, name, dataKey)) {
      digest.update(content);
      signal?.throwIfAborted();
      await rest();
    }
    if (digest.digest('hex') !== before) throw new Error(`${path} does not hold what was sealed`);
  }
  return { ...said, ...wrapped };
}

/** What the wrap of the data key authenticates. [SEALED-BACKUP-2, BACKUP-KEYS-2] */
const boundTo = ({ format, made_at, sealed_for }: Omit<SealedManifest, keyof WrappedKey>, names: readonly string[]) =>
  JSON.stringify([format, made_at, sealed_for, names]);

/** A sealed backup with its private key. */
export class OpenedBackup {
  readonly #directory: string;
  readonly #dataKey: Buffer;

  private constructor(backup: string, dataKey: Buffer) {
    this.#directory = join(backup, SEALED);
    this.#dataKey = dataKey;
  }

  /** Rejects when the backup was not sealed for the key, or when its manifest or files are others than they were. */
  static async open(backup: string, manifest: SealedManifest, key: BackupKey | null): Promise<OpenedBackup> {
    const { sealed_for } = manifest;
    if (key === null) {
      throw new Error(`${backup} is sealed for the key ${sealed_for}: --private-key names a file with its private key`);
    }
    if (key.fingerprint !== sealed_for) {
      throw new Error(`${backup} is sealed for the key ${sealed_for}, and the private key given is ${key.fingerprint}`);
    }
    const names = await filesBelow(join(backup, SEALED));
    const dataKey = unwrappedKey(key, manifest, boundTo(manifest, names));
    if (dataKey === null) {
      throw new NotOpened(`${backup} is damaged: its manifest was changed, or a file was added or taken away`);
    }
    return new OpenedBackup(backup, dataKey);
  }

  async text(name: string): Promise<string> {
    const chunks: Buffer[] = [];
    for await (const content of openedFile(join(this.#directory, name), name, this.#dataKey)) chunks.push(content);
    return Buffer.concat(chunks).toString('utf8');
  }

  /** Writes the files below `prefix` (with its `/`; empty: all of them) into a directory. */
  write(prefix: string, target: string): Promise<void> {
    return openTree(this.#directory, prefix, target, this.#dataKey);
  }
}
