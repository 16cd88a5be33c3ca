/** Whether work on a text takes time by the text's length, or by its square. */

/** Characters of the long text, which has as many as `pieces` short ones. */
const length = 16_384;
const pieces = 32;
/** The least of several runs: of the others the machine took something for itself. */
const runs = 15;

/**
 * How many times as long `work` takes on one long text as on short ones of the same length together: about once where each
 * character costs the same, `pieces` times where each costs all those before it. `textOf` makes a text of about so many characters.
 */
export function growthOf(textOf: (length: number) => string, work: (text: string) => unknown): number {
  const [long, short] = [textOf(length), textOf(length / pieces)];
  const least = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (let run = 0; run < runs; run++) {
    for (const [at, [text, times]] of (
      [
        [long, 1],
        [short, pieces],
      ] as const
    ).entries()) {
      const begun = performance.now();
      for (let time = 0; time < times; time++) work(text);
      least[at] = Math.min(least[at] ?? 0, performance.now() - begun);
    }
  }
  return (least[0] ?? 0) / (least[1] || 1);
}

/** Far from both. */
export const growthMax = pieces / 3;
