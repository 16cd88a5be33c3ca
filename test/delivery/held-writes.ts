/** A store whose writes stand still on their way to the disk: commits by the type of their first event, settles by the state of a row, trims. */
import { wrapStore } from '../support/store-with.ts';

interface Gate {
  readonly opened: Promise<void>;
  readonly open: () => void;
  /** A write waits. */
  readonly came: () => void;
}

export class HeldWrites {
  readonly #gates = new Map<string, Gate>();

  /** For `hubFor`. */
  readonly wrap = wrapStore((store) => ({
    append: async (commit) => {
      await this.#pass(commit.events[0]?.type);
      return store.append(commit);
    },
    settle: async (fence, rows, floors) => {
      await this.#pass(rows.find(({ state }) => this.#gates.has(state))?.state);
      return store.settle(fence, rows, floors);
    },
    trim: async (trim) => {
      await this.#pass('trim');
      return store.trim(trim);
    },
  }));

  async #pass(what = ''): Promise<void> {
    const gate = this.#gates.get(what);
    gate?.came();
    await gate?.opened;
  }

  /** Commits of this type, settles of a row in this state, or trims (`trim`) wait from now on. Resolves when one does. */
  hold(what: string): Promise<void> {
    return new Promise((came) => {
      let open = () => {};
      const opened = new Promise<void>((resolve) => {
        open = resolve;
      });
      this.#gates.set(what, { opened, open, came });
    });
  }

  release(what: string): void {
    this.#gates.get(what)?.open();
    this.#gates.delete(what);
  }
}
