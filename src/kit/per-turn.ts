/**
 * Spreads work over turns of the event loop, so that each turn is short.
 *
 * Lets at most `most` callers go on in one turn of the event loop, first in, first out, as long as the last of them says
 * that it matters; the others go on at once.
 */
export function perTurn(most: number, turn: () => Promise<void>): (matters: boolean) => Promise<void> | null {
  const waiting: (() => void)[] = [];
  let begun = 0;
  let isCounting = false;
  const count = async () => {
    isCounting = true;
    while (begun > 0 || waiting.length > 0) {
      await turn();
      begun = 0;
      for (const go of waiting.splice(0, most)) {
        begun += 1;
        go();
      }
    }
    isCounting = false;
  };
  return (matters) => {
    if (!matters && waiting.length === 0) return null;
    begun += 1;
    if (!isCounting) void count();
    if (begun <= most) return null;
    return new Promise((go) => waiting.push(go));
  };
}
