/** Work on many things that do not wait for each other. */

/** Does it for each item, `most` of them at a time, begun in their order. Rejects with the first failure, and begins no more then. */
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
