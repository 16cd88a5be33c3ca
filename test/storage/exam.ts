/** One promise of an exam of stores, in words that name no engine. */
import { mkdirSync } from 'node:fs';
import type { Store } from '../../storage/contract.ts';
import { directoryFor } from '../support/directory.ts';
import type { Test } from '../support/tap.ts';

/** Opens the store at a place that is empty at first; a second call, after `close`, finds what the first one left. */
export type Opener = (place: string) => Promise<Store>;
/** Ends the use of a store, open or closed. */
export type Done = (store: Store) => Promise<void>;

/** Gets a store that is open and empty, how to leave it and come back, and a directory beside it. */
type Exam = (t: Test, store: Store, again: () => Promise<Store>, elsewhere: string) => Promise<void>;

export const promises =
  (t: Test, open: Opener, done: Done = (store) => store.close()) =>
  (name: string, exam: Exam): void => {
    t.test(name, async (t) => {
      const elsewhere = directoryFor(t);
      const place = `${elsewhere}/data`;
      mkdirSync(place);
      let store = await open(place);
      t.teardown(() => done(store));
      const again = async (): Promise<Store> => {
        await store.close();
        store = await open(place);
        return store;
      };
      await exam(t, store, again, elsewhere);
    });
  };
