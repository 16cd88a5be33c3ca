/** Does all pieces of work that a generator does in pieces. */
export function atOnce<T>(work: Generator<void, T>): T {
  for (;;) {
    const piece = work.next();
    if (piece.done) return piece.value;
  }
}
