/** Work on one object at a time, in order of arrival; different objects do not wait for each other, but at most `most` run at once. */

export function inOrder<Work>(most: number, run: (work: Work) => Promise<void>) {
  const behind = new Map<string, Work[]>();
  const ready: { readonly object: string; readonly work: Work }[] = [];
  let running = 0;

  async function runOne(object: string, work: Work): Promise<void> {
    running++;
    await run(work);
    running--;
    const more = behind.get(object)?.shift();
    if (more === undefined) behind.delete(object);
    else ready.push({ object, work: more });
    startNext();
  }

  function startNext(): void {
    while (running < most) {
      const next = ready.shift();
      if (!next) return;
      void runOne(next.object, next.work);
    }
  }

  return (object: string, work: Work): void => {
    const waiting = behind.get(object);
    if (waiting) {
      waiting.push(work);
      return;
    }
    behind.set(object, []);
    ready.push({ object, work });
    startNext();
  };
}
