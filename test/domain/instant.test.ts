/** An instant is written as `Date` writes it. */
import { instantOf, instantText } from '../../src/domain/instant.ts';
import { t } from '../support/tap.ts';

t.test('every instant reads as Date reads it, whatever was read before', async (t) => {
  const day = 86_400_000;
  const around = [0, 999, 1000, 59_999, day - 1, day, 951_782_399_999, 1_709_164_800_000, 4_102_444_799_999];
  const rare = [-1, -1000, -62_167_219_200_001, 253_402_300_800_000, 8.64e15, 1_700_000_000_123.9, -1.5];
  const instants = [...around, ...rare, ...around.map((at) => at + 1), ...rare];
  for (const at of instants) t.equal(instantText(at), new Date(at).toISOString(), String(at));
});

t.test('an invalid instant is refused, also after a valid one', async (t) => {
  instantText(0);
  for (const at of [Number.NaN, Number.POSITIVE_INFINITY, 9e15]) t.throws(() => instantText(at), RangeError);
  t.equal(instantText(0), '1970-01-01T00:00:00.000Z');
});

t.test('a text reads as Date reads it, whatever was read before', async (t) => {
  for (const at of [0, 1_709_164_800_123, 0, 1_709_164_800_123]) t.equal(instantOf(new Date(at).toISOString()), at);
  t.ok(Number.isNaN(instantOf('never')));
  t.ok(Number.isNaN(instantOf('')));
});
