/**
 * The same request in bytes: whole, or with framing that is slow, broken or two-faced.
 */
import type { Random } from '../faults/random.ts';
import type { Draft } from './bent-heads.ts';
import type { Wire } from './wire.ts';

const latin = (text: string) => Buffer.from(text, 'latin1');

/** Request line and fields, without the empty line. */
const headOf = ({ method, target, version, headers }: Draft) =>
  `${method} ${target}${version === '' ? '' : ` ${version}`}\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}`;

const lengthOf = (body: Buffer | null) => (body === null ? '' : `Content-Length: ${body.length}\r\n`);

/** The request as it should be framed. */
export function framed(draft: Draft): Wire {
  const { body, method } = draft;
  return {
    parts: [Buffer.concat([latin(`${headOf(draft)}${lengthOf(body)}\r\n`), body ?? Buffer.alloc(0)])],
    ...{ ending: 'read', methods: [method] },
  };
}

type Frame = (chance: Random, draft: Draft) => Wire;

const read = (methods: readonly string[], ...parts: (Buffer | string)[]): Wire => ({
  parts: parts.map((part) => (typeof part === 'string' ? latin(part) : part)),
  ...{ ending: 'read', methods },
});

const bytesOf = (draft: Draft) => framed(draft).parts[0] ?? Buffer.alloc(0);

const bodyOf = ({ body }: Draft) => body ?? latin('{}');

const chunk = (bytes: Buffer) => Buffer.concat([latin(`${bytes.length.toString(16)}\r\n`), bytes, latin('\r\n')]);

/** A second request hidden in what may be the body of the first. */
const hidden = (draft: Draft) =>
  `DELETE /ocpi/2.2.1/tariffs/NL/CPO/T1 HTTP/1.1\r\nHost: x\r\n${draft.headers
    .filter(([name]) => name === 'Authorization')
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}Connection: close\r\n\r\n`;

const frames: readonly (readonly [name: string, frame: Frame])[] = [
  ['half a request', (chance, draft) => cutAt(draft, chance, 'hold')],
  ['half a request, then gone', (chance, draft) => cutAt(draft, chance, 'cut')],
  ['half a request, then half closed', (chance, draft) => cutAt(draft, chance, 'end')],
  ['gone before the answer', (_, draft) => ({ ...framed(draft), ending: 'cut' })],
  ['half closed before the answer', (_, draft) => ({ ...framed(draft), ending: 'end' })],
  ['in drops', (_, draft) => ({ ...framed(draft), parts: inDrops(bytesOf(draft)) })],
  [
    'length too large',
    (_, draft) => ({
      ...read([draft.method], `${headOf(draft)}Content-Length: ${bodyOf(draft).length + 7}\r\n\r\n`, bodyOf(draft)),
      ending: 'hold',
    }),
  ],
  [
    'length too small',
    (_, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Content-Length: ${Math.max(0, bodyOf(draft).length - 3)}\r\n\r\n`,
        bodyOf(draft),
      ),
  ],
  [
    'length of another kind',
    (chance, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Content-Length: ${chance.pick(['-1', '+2', '0x2', '2, 3', '1e3', '99999999999999999999', ' ', '2 2', '٢', '2\u0000'])}\r\n\r\n`,
        bodyOf(draft),
      ),
  ],
  [
    'two lengths',
    (_, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Content-Length: ${bodyOf(draft).length}\r\nContent-Length: 0\r\n\r\n`,
        bodyOf(draft),
      ),
  ],
  [
    'length and chunks',
    (_, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n`,
        chunk(bodyOf(draft)),
        '0\r\n\r\n',
        hidden(draft),
      ),
  ],
  [
    'chunks and length',
    (_, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n`,
        hidden(draft),
      ),
  ],
  [
    'another encoding',
    (chance, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Transfer-Encoding: ${chance.pick(['xchunked', 'chunked, identity', 'gzip', ' chunked', 'chunked\u000b', 'CHUNKED', '"chunked"', 'identity', 'chunked, chunked'])}\r\n\r\n`,
        chunk(bodyOf(draft)),
        '0\r\n\r\n',
      ),
  ],
  [
    'chunks',
    (_, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Transfer-Encoding: chunked\r\n\r\n`,
        ...inDrops(bodyOf(draft)).slice(0, 200).map(chunk),
        chunk(bodyOf(draft)),
        '0\r\n\r\n',
      ),
  ],
  [
    'garbage chunks',
    (chance, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Transfer-Encoding: chunked\r\n\r\n${chance.pick(['zz\r\n', '-1\r\n', 'ffffffffffffffff1\r\nx', '5\r\nab', '2\r\n{}\r\n0\r\nX: y', '2;a="\r\n{}\r\n0\r\n\r\n', `2;${'x'.repeat(20_000)}\r\n{}\r\n0\r\n\r\n`, '2\n{}\n0\n\n', '0x2\r\n{}\r\n0\r\n\r\n', '2\r\n{}0\r\n\r\n'])}`,
        '\r\n\r\n',
      ),
  ],
  [
    'trailers',
    (_, draft) =>
      read(
        [draft.method],
        `${headOf(draft)}Transfer-Encoding: chunked\r\n\r\n`,
        chunk(bodyOf(draft)),
        `0\r\nAuthorization: Token x\r\nContent-Length: 5\r\n__proto__: y\r\n\r\n`,
      ),
  ],
  [
    'pipelined',
    (_, draft) =>
      read(
        [draft.method, draft.method, draft.method],
        Buffer.concat([bytesOf(open(draft)), bytesOf(open(draft)), bytesOf(draft)]),
      ),
  ],
  ['a body on a request without one', (_, draft) => read([draft.method], `${headOf(draft)}\r\n`, hidden(draft))],
  [
    'bare LF',
    (_, draft) =>
      read(
        [draft.method],
        latin(`${headOf(draft)}${lengthOf(draft.body)}\r\n`.replaceAll('\r\n', '\n')),
        bodyOf(draft),
      ),
  ],
  [
    'bare CR',
    (_, draft) =>
      read([draft.method], latin(`${headOf(draft)}${lengthOf(draft.body)}\r\n`.replaceAll('\r\n', '\r')), '\r\n\r\n'),
  ],
  ['lines before the request', (_, draft) => read([draft.method], '\r\n\r\n\n', bytesOf(draft))],
  [
    'space before the colon',
    (_, draft) =>
      read([draft.method], `${headOf(draft)}Content-Length : ${bodyOf(draft).length}\r\n\r\n`, bodyOf(draft)),
  ],
  [
    'a folded field',
    (_, draft) =>
      read([draft.method], `${headOf(draft)}X-Folded: a\r\n b\r\n\tc\r\n${lengthOf(draft.body)}\r\n`, draft.body ?? ''),
  ],
  ['HTTP/0.9', (_, { target }) => ({ ...read(['GET'], `GET ${target}\r\n`), ending: 'end' })],
  [
    'no host',
    (_, draft) =>
      read([draft.method], bytesOf({ ...draft, headers: draft.headers.filter(([name]) => name !== 'Host') })),
  ],
  [
    'HTTP/2',
    (_, draft) => read([draft.method], 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])),
  ],
  [
    'TLS',
    (_, draft) => read([draft.method], Buffer.from([0x16, 3, 1, 0, 0xa5, 1, 0, 0, 0xa1, 3, 3]), Buffer.alloc(160, 7)),
  ],
  [
    'noise',
    (chance) => ({
      ...read(['GET'], Buffer.from(Array.from({ length: 1 + chance.below(400) }, () => chance.below(256)))),
      ending: 'end',
    }),
  ],
  ['noise inside', (chance, draft) => noisy(chance, draft)],
  [
    'CONNECT',
    (_, draft) =>
      read(
        ['CONNECT'],
        `CONNECT 169.254.169.254:80 HTTP/1.1\r\n${headOf(draft).split('\r\n').slice(1).join('\r\n')}\r\n`,
      ),
  ],
  [
    'an upgrade with a body',
    (_, draft) =>
      read(
        [draft.method],
        bytesOf({
          ...draft,
          headers: [
            ...withoutConnection(draft),
            ['Connection', 'Upgrade'],
            ['Upgrade', 'websocket'],
            ['Sec-WebSocket-Key', 'eA=='],
            ['Sec-WebSocket-Version', '13'],
          ],
        }),
      ),
  ],
  [
    'endless fields',
    (_, draft) =>
      read(
        [draft.method],
        headOf(draft),
        ...Array.from({ length: 40 }, (_unused, n) => `X-${n}: ${'v'.repeat(1_000)}\r\n`),
      ),
  ],
  [
    'a body that is waited for',
    (_, draft) =>
      read([draft.method], `${headOf(draft)}Expect: 100-continue\r\n${lengthOf(bodyOf(draft))}\r\n`, bodyOf(draft)),
  ],
];

/** Puts a draft into a frame that it should not have. */
export function bendFrame(chance: Random, draft: Draft): { name: string; wire: Wire } {
  const [name, frame] = chance.pick(frames);
  return { name, wire: frame(chance, draft) };
}

const withoutConnection = ({ headers }: Draft) => headers.filter(([name]) => name !== 'Connection');

/** The draft on a connection that stays open. */
const open = (draft: Draft): Draft => ({ ...draft, headers: withoutConnection(draft) });

function cutAt(draft: Draft, chance: Random, ending: Wire['ending']): Wire {
  const bytes = bytesOf(draft);
  return { parts: [bytes.subarray(0, chance.below(bytes.length))], ending, methods: [draft.method] };
}

/** At first byte by byte, then the rest. */
function inDrops(bytes: Buffer): Buffer[] {
  const drops = Array.from(bytes.subarray(0, 120), (byte) => Buffer.from([byte]));
  return [...drops, bytes.subarray(120)].filter((drop) => drop.length > 0);
}

function noisy(chance: Random, draft: Draft): Wire {
  const bytes = Buffer.from(bytesOf(draft));
  for (let left = 1 + chance.below(4); left > 0; left--) bytes[chance.below(bytes.length)] = chance.below(256);
  return { parts: [bytes], ending: 'end', methods: [draft.method] };
}
