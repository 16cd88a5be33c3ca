/** A store whose commits stand still on their way to the disk, by the type of their first event. */
import { wrapStore } from '../support/store-with.ts';

interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
  /** A commit waits. */
  readonly came: () => void;
}

export class HeldAppends {
  readonly #gates = new Map<string, Gate>();

  /** For `hubFor`. */
  readonly wrap = wrapStore((store) => ({
    append: async (commit) => {
      const gate = this.#gates.get(commit.events[0]?.type ?? '');
      gate?.came();
      await gate?.opened;
      return store.append(commit);
    },
  }));

  /** Commits of this type wait from now on. Resolves when one does. */
  hold(type: string): Promise<void> {
    return new Promise((came) => {
      let open = () => {};
      const opened = new Promise<void>((resolve) => {
        open = resolve;
      });
      this.#gates.set(type, { opened, open, came });
    });
  }

  release(type: string): void {
    this.#gates.get(type)?.open();
    this.#gates.delete(type);
  }
}
