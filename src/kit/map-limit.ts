/** Bounded concurrency for independent work on many items. */

/**
 * Starts the work on the items in order, at most `most` at a time. Rejects with the first failure, and then starts no
 * more work.
 */
export async function mapLimit<T>(
  items: Iterable<T>,
  most: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  let hasFailed = false;
  const worker = async () => {
    for (let next = rest.next(); !next.done && !hasFailed; next = rest.next()) {
      await work(next.value).catch((error: unknown) => {
        hasFailed = true;
        throw error;
      });
    }
  };
  await Promise.all(Array.from({ length: most }, worker));
}
