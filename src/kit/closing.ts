/** Something that must be closed: a file, a database, a snapshot, an iterator. */
interface Closable {
  close(): unknown;
}

/** Does the work with what was opened, and closes it whatever comes of the work. */
export async function closing<Opened extends Closable, T>(
  opened: Opened,
  work: (opened: Opened) => Promise<T>,
): Promise<T> {
  try {
    return await work(opened);
  } finally {
    await opened.close();
  }
}
