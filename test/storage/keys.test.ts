/** Keys never collide, sort as what they name, and give it back; records are whole or are refused. */

import { Damaged } from '../../storage/contract.ts';
import * as keys from '../../storage/keys.ts';
import { indexKeys, indexKeysOf } from '../../storage/level/event-log.ts';
import { decode, encode, encodeBytes, headOf, inspect } from '../../storage/records.ts';
import { fc } from '../support/property.ts';
import { t } from '../support/tap.ts';

const name = fc.string({ unit: 'binary' }).filter((text) => !text.includes('\0'));
const seq = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER - 1 });
const bytes = (a: string, b: string): number => Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b)));

t.test('a row key is decoded to its name, and sorts by kind, owner and id', async () => {
  const key = fc.record({ kind: name, owner: name, id: name });
  fc.assert(
    fc.property(key, key, (a, b) => {
      const back = keys.rowKeyOf(keys.rowKey(a));
      const order = bytes(a.kind, b.kind) || bytes(a.owner, b.owner) || bytes(a.id, b.id);
      return JSON.stringify(back) === JSON.stringify(a) && bytes(keys.rowKey(a), keys.rowKey(b)) === order;
    }),
  );
});

t.test('delivery, floor, timer and event keys are decoded to their names', async () => {
  fc.assert(
    fc.property(name, seq, (dest, n) => {
      const key = keys.openKey(dest, n);
      return (
        keys.destOf(key) === dest &&
        keys.seqOf(key) === n &&
        keys.floorOf(keys.floorKey(dest)) === dest &&
        keys.dueNameOf(keys.dueKey(dest)) === dest &&
        keys.seqOf(keys.eventKey(n)) === n
      );
    }),
  );
});

t.test('the index keys of an event are read from its record, whatever its names hold', async () => {
  // Half of the names have what JSON escapes.
  const named = fc.oneof(name, fc.string({ unit: fc.constantFrom('"', '\\', '\n', ',', '[', 'n', '\u2028', 'ü') }));
  const head = fc.tuple(named, named, named, fc.option(named), fc.option(named), fc.array(named));
  fc.assert(
    fc.property(head, seq, (fields, n) => {
      const key = keys.eventKey(n);
      const value = encode(key, JSON.stringify([...fields, 'idem', 1, []]), '{}', '["a","b","c",null,"d"]');
      const [stream, , , , correlationId] = fields;
      return indexKeysOf(key, value).join() === indexKeys(stream, correlationId, n).join();
    }),
  );
});

t.test('keys are those of existing data directories', async (t) => {
  const made = [keys.eventKey(0x2a), keys.streamKey('s', 1), keys.correlationKey('c', 1)];
  t.strictSame(made, ['e/000000000000002a', 's/s\x000000000000000001', 'c/c\x000000000000000001']);
  t.strictSame(
    [keys.openKey('A', 1), keys.deliveredKey('A', 1)],
    ['p/A\x000000000000000001', 'd/A\x000000000000000001'],
  );
  t.strictSame([keys.floorKey('A'), keys.dueKey('k')], ['f/A\x0000', 't/00k']);
});

t.test('a range has all of its keys after the position, in order, and none of another name', async () => {
  const within = ({ gte, lt }: keys.Range, key: string): boolean => bytes(key, gte) >= 0 && bytes(key, lt) < 0;
  fc.assert(
    fc.property(name, name, seq, seq, (a, b, n, after) => {
      const range = keys.indexFrom('s', a, after);
      return (
        within(range, keys.streamKey(a, n)) === n > after &&
        (a === b || !within(range, keys.streamKey(b, n))) &&
        (a === b || keys.streamKey(a, n) !== keys.streamKey(b, n)) &&
        within(keys.rowsOf(a), keys.rowKey({ kind: b, owner: a, id: b })) === (a === b) &&
        Math.sign(n - after) === bytes(keys.eventKey(n), keys.eventKey(after))
      );
    }),
  );
});

t.test('a name that could collide is refused', async (t) => {
  for (const bad of ['\0', 'a\0b', '\ud800', 'x\udfffy']) t.throws(() => keys.checkName('it', bad), TypeError);
  t.doesNotThrow(() => keys.checkName('it', '\u{1f600}'));
  t.doesNotThrow(() => keys.checkText('it', 'a\0b'));
});

t.test('a record comes back as it was, its body untouched', async () => {
  const text = fc.string({ unit: 'binary' });
  fc.assert(
    fc.property(text, fc.json(), fc.json(), fc.option(text), (key, head, data, body) => {
      const found = decode(key, encode(key, JSON.stringify(JSON.parse(head)), JSON.stringify(JSON.parse(data)), body));
      return (
        found.body === body &&
        JSON.stringify(found.head) === JSON.stringify(JSON.parse(head)) &&
        JSON.stringify(found.data) === JSON.stringify(JSON.parse(data))
      );
    }),
  );
});

t.test('any changed character of a record is found, and so is a record under another key', async (t) => {
  const value = encode('key', '[1,"a"]', '{"b":2}', 'body');
  for (let i = 0; i < value.length; i += 1) {
    const changed = value.slice(0, i) + String.fromCharCode(value.charCodeAt(i) ^ 1) + value.slice(i + 1);
    // The checksum of the key alone is only asked once the other has failed.
    t.equal(inspect('key', changed), i >= 1 && i < 9 ? 'sound' : 'content', `character ${i}`);
  }
  t.equal(inspect('other', value), 'key');
  for (const cut of ['', '1', value.slice(0, 20), value.slice(0, -1)]) t.not(inspect('key', cut), 'sound');
  t.throws(() => decode('other', value), Damaged);
  t.strictSame(headOf(value), [1, 'a']);
});

t.test('the checksum of a long text is that of its bytes, wherever it is divided [STORAGE-RECORDS-1]', async (t) => {
  for (const unit of ['x', 'é', '充', '😀', 'x😀', '\ud83d', '\ude00'])
    for (const before of ['', 'x', 'xx']) {
      const body = (before + unit.repeat(140_000)).slice(0, 200_001);
      t.equal(inspect('k', encode('k', '[]', '{}', body)), 'sound', `${before}${unit}`);
    }
});

t.test('a record in bytes equals the record in text, whatever was encoded before in the same buffer', async (t) => {
  const text = fc.string({ unit: 'binary' });
  const known = Buffer.from(encodeBytes('k', '[]', '{}', 'é'));
  fc.assert(
    fc.property(text, text, text, text, (key, head, data, body) => {
      const made = Buffer.from(encodeBytes(key, head, data, body));
      return made.equals(Buffer.from(encode(key, head, data, body)));
    }),
  );
  const long = '😀'.repeat(100_000);
  t.ok(
    Buffer.from(encodeBytes('k', '[]', '{}', long)).equals(Buffer.from(encode('k', '[]', '{}', long))),
    'a long one',
  );
  t.equal(
    encodeBytes('k', '[]', '{}', 'x'.repeat(300_000)).buffer,
    encodeBytes('k', '[]', '{}', 'x'.repeat(20)).buffer,
    'in the same memory',
  );
  t.not(
    encodeBytes('k', '[]', '{}', 'x'.repeat(6_000_000)).buffer,
    encodeBytes('k', '[]', '{}', 'x'.repeat(20)).buffer,
    'but for one that is longer than any of an object',
  );
  t.ok(known.equals(Buffer.from(encode('k', '[]', '{}', 'é'))));
});
