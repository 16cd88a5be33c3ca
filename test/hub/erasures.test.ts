/** What the deliveries in memory keep of erasures. */
import { type Replacer, replacerOf } from '../../src/domain/person.ts';
import { Erasures } from '../../src/hub/delivery/erasures.ts';
import { t } from '../support/tap.ts';

t.test('[ERASURES-2] an erasure is forgotten when nothing older than it is owed', async (t) => {
  let horizon = 0;
  const erasures = new Erasures(() => horizon);
  const asked: string[] = [];
  const replacer = (name: string): Replacer => {
    const found = replacerOf([name], () => `no-${name}`);
    const inName = (text: string) => {
      asked.push(name);
      return found.inName(text);
    };
    return { ...found, inName };
  };
  const text = (seq: number) => {
    asked.splice(0);
    return [erasures.text(seq, 'alice-cathy'), ...asked];
  };
  erasures.begin(replacer('alice'))(10);
  const end = erasures.begin(replacer('cathy'));
  t.ok(erasures.mayDiffer(100), 'while one runs');
  t.strictSame(text(100), ['alice-no-cathy', 'cathy']);
  end(20);
  t.strictSame(
    [10, 20, 21].map((seq) => erasures.mayDiffer(seq)),
    [true, true, false],
  );
  t.strictSame(text(10), ['no-alice-no-cathy', 'alice', 'cathy']);
  t.strictSame(text(11), ['alice-no-cathy', 'cathy']);
  t.strictSame(text(21), ['alice-cathy']);
  horizon = 10;
  erasures.begin(replacer('bob-by'))(30);
  t.strictSame(text(10), ['alice-no-cathy', 'cathy', 'bob-by'], 'the first one is forgotten');
  t.strictSame(text(25), ['alice-cathy', 'bob-by']);
  t.notOk(erasures.mayDiffer(31));
});
