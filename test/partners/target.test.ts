/**
 * A URL that is taken apart without a parser leads where the parser says.
 */

import { targetOf } from '../../src/partners/client.ts';
import { fc } from '../support/property.ts';
import { isAtLength } from '../support/share.ts';
import { t } from '../support/tap.ts';

function parsed(text: string): URL | null {
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

function same(text: string): boolean {
  const url = parsed(text);
  const [first, again] = [targetOf(text), targetOf(text)];
  if (url === null) return first === null && again === null;
  return [first, again].every(
    (target) =>
      target?.url.origin === url.origin &&
      target.origin === url.origin &&
      target.hostname === url.hostname.replace(/^\[|\]$/g, '') &&
      target.path === url.pathname + url.search,
  );
}

const piece = fc.oneof(
  fc.constantFrom(
    '/',
    '//',
    '/.',
    '/..',
    '/./',
    '/%2e',
    '/%2E%2e/',
    '?',
    '#',
    '@',
    ':',
    '\\',
    ' ',
    '%',
    '%zz',
    "'",
    '"',
    '|',
    '^',
    '`',
    '{',
    '}',
  ),
  fc.constantFrom(
    'ocpi',
    '2.2.1',
    'sessions',
    'NL',
    'a.b',
    '.well-known',
    '?type=RFID',
    '&x=1',
    'é',
    '\t',
    '\n',
    '<',
    '>',
    '[',
    ']',
    '~',
    '$',
    '!',
  ),
  fc.string({ maxLength: 4 }),
);
const origin = fc.constantFrom(
  ...['http://127.0.0.1:8080', 'https://ems.example', 'http://ems.example:80', 'https://[::1]:9', 'http://EMS.example'],
  ...[
    'http://user:pass@ems.example',
    'ftp://ems.example',
    'http:/ems.example',
    'https://ems.example.',
    'http://1.2.3',
    '',
  ],
);

t.test('any text after the origin', async () => {
  fc.assert(
    fc.property(origin, fc.array(piece, { maxLength: 8 }), (from, pieces) => same(from + pieces.join(''))),
    { numRuns: isAtLength ? 20_000 : 2_000 },
  );
});

t.test('a host with letters beyond ASCII leads to the same place, however often it was parsed', async (t) => {
  const text = 'https://b\u00fccher.example/ocpi';
  const refused = Array.from({ length: 20_000 }, () => targetOf(text)?.url.host).filter(
    (host) => host !== 'xn--bcher-kva.example',
  );
  t.equal(refused.length, 0);
});

t.test('a path that climbs, a password and another scheme reach the guard as they are', async (t) => {
  for (const text of [
    'http://a.example/x/../y',
    'http://a.example/%2e%2e/y',
    'http://u:p@a.example/',
    'ftp://a.example/x',
  ])
    t.equal(targetOf(text)?.url.href, new URL(text).href, text);
  t.equal(targetOf('a.example/x'), null);
});
