/**
 * How far the receivers of a shard have come, as it is written now and then: nothing of the time before the shard was
 * away.
 */
import { join } from 'node:path';
import { Places } from '../../src/hub/places.ts';
import { openLevelStore } from '../../storage/level-store.ts';
import { directoryFor } from '../support/directory.ts';
import { type Test, t } from '../support/tap.ts';

const home = 0;
const homes: ReadonlySet<number> = new Set([home]);
const at = (seq: number) => new Map([[home, seq]]);

async function scene(t: Test) {
  const store = await openLevelStore({ directory: join(directoryFor(t), 'store'), node: 'test' });
  t.teardown(() => store.close());
  const places = await Places.read(store, homes);
  return {
    ...{ store, places },
    /** Where a recovery would begin that reads the store now. */
    stored: async () => (await Places.read(store, homes)).of(home, home),
    async isAwayAndBack() {
      places.remove(homes);
      places.add(homes, await Places.read(store, homes));
    },
  };
}

t.test('what is reached is written, and never less than before', async (t) => {
  const { store, places, stored } = await scene(t);
  await places.write(store, places.known(homes), new Map([[home, at(5)]]), at(9));
  t.equal(await stored(), 5);
  await places.write(store, places.known(homes), new Map([[home, at(3)]]), at(9));
  t.equal(await stored(), 5);
  await places.write(store, places.known(homes), new Map(), at(9));
  t.equal(await stored(), 9, 'where nothing is owed it is all that there is');
  t.equal(places.lowest(home), 9);
});

t.test('of a shard that was away since it was found out how far it is, nothing is written', async (t) => {
  const { store, places, stored, isAwayAndBack } = await scene(t);
  const known = places.known(homes);
  await isAwayAndBack();
  await places.write(store, known, new Map([[home, at(5)]]), at(9));
  t.equal(await stored(), 0);
  await places.write(store, places.known(homes), new Map([[home, at(2)]]), at(9));
  t.equal(await stored(), 2, 'what was found out since it is back is');
});

t.test('nor of one that comes, before it is read where it begins', async (t) => {
  const { store, places, stored } = await scene(t);
  const known = places.known(homes);
  places.remove(homes);
  await places.write(store, known, new Map([[home, at(5)]]), at(9));
  t.equal(await stored(), 0);
  t.equal(places.known(homes).size, 0);
});

t.test('what was written while a shard went and came is not what is known of it', async (t) => {
  const { store, places, isAwayAndBack } = await scene(t);
  const settle = store.settle.bind(store);
  store.settle = async (...ends) => {
    await isAwayAndBack();
    await settle(...ends);
  };
  await places.write(store, places.known(homes), new Map([[home, at(5)]]), at(9));
  t.equal(places.of(home, home), 0, 'it is what was read when it came');
});
