/** Envelopes as they are sent, and as partners' answers are read. */
import {
  dataText,
  doneText,
  envelopeItems,
  listText,
  readEnvelope,
  readRaw,
  refusalText,
} from '../../src/transport/envelope.ts';
import { t } from '../support/tap.ts';

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

t.test('every envelope has a status and a timestamp [D2]', async (t) => {
  t.match(JSON.parse(doneText()), { status_code: 1000, status_message: 'Success', timestamp });
  t.notOk('data' in JSON.parse(doneText()));
  t.match(JSON.parse(refusalText({ ocpi: 2001, message: 'a "b"' })), {
    status_code: 2001,
    status_message: 'a "b"',
    timestamp,
  });
  t.same(JSON.parse(refusalText({ ocpi: 4002, message: 'm', data: { allowed: 'UNKNOWN' } })).data, {
    allowed: 'UNKNOWN',
  });
});

t.test('stored text is put into an envelope byte for byte [D17]', async (t) => {
  const text = '{"kwh": 1.500, "name":"\\u00e9"}';
  t.ok(String(dataText(text)).includes(text));
  const list = listText([text, '{}']);
  t.type(list, 'string');
  t.ok(String(list).startsWith(`{"data":[${text},{}],`));
  t.same(JSON.parse(String(listText([]))).data, []);
});

t.test('a large list is written in pieces that make one envelope', async (t) => {
  const texts = Array.from({ length: 300 }, (_, at) => JSON.stringify({ at, fill: 'x'.repeat(4000) }));
  const pieces = listText(texts);
  t.not(typeof pieces, 'string');
  const all = [...pieces];
  t.ok(all.length > 1);
  t.ok(
    all.every((piece) => piece.length < 300 * 1024),
    'no piece holds the whole list',
  );
  t.same(
    JSON.parse(all.join('')).data,
    texts.map((text) => JSON.parse(text)),
  );
});

t.test('a large object is written in pieces that make one envelope, with their length in bytes', async (t) => {
  const text = JSON.stringify({ fill: `x${'\u{1f50c}'.repeat(100_000)}` });
  const made = dataText(text);
  if (typeof made === 'string') throw new Error('in one piece');
  const all = [...made.pieces];
  t.ok(all.every((piece) => piece.length <= 64 * 1024));
  const bytes = Buffer.concat(all.map((piece) => Buffer.from(piece)));
  t.equal(bytes.length, made.bytes, 'no character is cut in two');
  t.ok(bytes.toString().startsWith(`{"data":${text},"status_code":1000,`));
});

t.test('a partner’s answer is parsed, or refused with the reason', async (t) => {
  t.same(readEnvelope('{"status_code":1000,"status_message":null,"data":[1],"extra":1}'), {
    ok: true,
    envelope: { statusCode: 1000, statusMessage: null, data: [1] },
  });
  t.same(readEnvelope('{"status_code":2004,"status_message":"Unknown"}'), {
    ok: true,
    envelope: { statusCode: 2004, statusMessage: 'Unknown', data: undefined },
  });
  t.same(readEnvelope('{"status_code":" 2001 "}'), {
    ok: true,
    envelope: { statusCode: 2001, statusMessage: null, data: undefined, isTextCode: true },
  });
  const rows: [text: string, reason: string][] = [
    ['', 'answer is empty'],
    ['<html>', 'answer is not JSON'],
    ['[]', 'answer is not an envelope'],
    ['null', 'answer is not an envelope'],
    ['"1000"', 'answer is not an envelope'],
    ['{}', 'answer has no status_code'],
    ['{"status_code":"done"}', 'answer has no status_code'],
    ['{"status_code":"01000"}', 'answer has no status_code'],
    ['{"status_code":1000.5}', 'answer has no status_code'],
    [`{"data":${'['.repeat(100)}${']'.repeat(100)}}`, 'answer is nested more than 64 levels deep'],
  ];
  for (const [text, reason] of rows) t.same(readEnvelope(text), { ok: false, reason }, text.slice(0, 30));
});

t.test('an answer without an envelope is recognized by its required member', async (t) => {
  t.same(readRaw('{"result":"ACCEPTED"}', 'result'), { result: 'ACCEPTED' });
  const others = [
    ...['', '<html>', '[{"result":"ACCEPTED"}]', '{"result":"no such path"}', '{"result":7}', '{"allowed":"ALLOWED"}'],
    ...['{"status_code":"done","result":"ACCEPTED"}', '{"status_code":1000,"result":"ACCEPTED"}'],
  ];
  for (const text of others) t.equal(readRaw(text, 'result'), null, text);
});

t.test('items of a pulled list keep their own text [D17]', async (t) => {
  t.same(envelopeItems('{"status_code":1000,"data":[ {"price": 0.250}, {"a":"]"} ]}'), [
    '{"price": 0.250}',
    '{"a":"]"}',
  ]);
  t.same(envelopeItems('{"status_code":1000,"data":{}}'), []);
  t.same(envelopeItems('{"status_code":1000}'), []);
});
