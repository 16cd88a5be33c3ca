/**
 * Tells a store that the system does not let this process open from one that is damaged.
 *
 * UNOPENED-1  A failure of the file system (full, read-only, no permission, no file descriptor left, I/O error) proves
 *     no damage: it is reported as such, and no backup is asked for.
 * UNOPENED-2  A table that the system does not let this process open has lost nothing, and the store is not read without it.
 *     An I/O error of a block is damage: nobody can say what it held.
 */

/** Nothing is known about the soundness of the store. */
export class StoreUnopened extends Error {
  override readonly name = 'StoreUnopened';
}

const codes: ReadonlySet<unknown> = new Set('ENOSPC EDQUOT EROFS EACCES EPERM EMFILE ENFILE EIO'.split(' '));
/** The engine has no codes: its message ends in the text of the C library, glibc or musl. */
const engineTexts =
  /IO error: .*(No space left on device|quota exceeded|Read-only file system|Permission denied|Operation not permitted|Too many open files|No file descriptors available|Input\/output error|I\/O error)/i;

const barred =
  /IO error: .*(Permission denied|Operation not permitted|Too many open files|No file descriptors available)/i;

/** Whether a read failed because the file could not be opened. [UNOPENED-2] */
export const isBarred = (error: unknown): boolean => error instanceof Error && barred.test(error.message);

/** The message of the failure of the file system that an error, or one of its causes, is; else null. */
export function refusalOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null;
  const isRefusal = ('code' in error && codes.has(error.code)) || (!error.cause && engineTexts.test(error.message));
  return isRefusal ? error.message : refusalOf(error.cause);
}

const full = /ENOSPC|EDQUOT|No space left on device|quota exceeded/i;

/** Whether it failed because the file system is full. */
export const isFull = (error: unknown): boolean => full.test(refusalOf(error) ?? '');

/** Rejects with `StoreUnopened` where `work` fails because of the file system. [UNOPENED-1] */
export function opening<T>(store: string, work: Promise<T>): Promise<T> {
  return work.catch((error: unknown) => {
    const reason = refusalOf(error);
    if (reason === null) throw error;
    const says = `${store} could not be opened: ${reason}; nothing is known about its soundness`;
    throw new StoreUnopened(says, { cause: error });
  });
}
