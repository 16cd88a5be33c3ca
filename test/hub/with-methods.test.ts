/** An object with some methods replaced: the others run on the object, its private fields and its superclass included. */
import { withMethods } from '../../src/kit/with-methods.ts';
import { t } from '../support/tap.ts';

class Counter {
  #count = 0;
  add(): number {
    this.#count += 1;
    return this.#count;
  }
  name(): string {
    return 'counter';
  }
}

class Twice extends Counter {
  twice(): number {
    this.add();
    return this.add();
  }
}

t.test('[WITH-METHODS-1] the other methods run on the object, also through two views', async (t) => {
  const counter = new Twice();
  const view = withMethods(counter, { name: () => 'view' });
  const outer = withMethods(view, { add: () => -1 });
  t.strictSame([view.add(), view.twice(), counter.add()], [1, 3, 4]);
  t.strictSame([view.name(), counter.name()], ['view', 'counter']);
  t.strictSame([outer.add(), outer.name(), outer.twice()], [-1, 'view', 6]);
  const { twice } = view;
  t.equal(twice(), 8, 'bound');
});
