/** Texts that partners give for URLs. */
import { parsedUrl, resolvedLink, secured } from '../../src/kit/url.ts';
import { t } from '../support/tap.ts';

/** Different characters: each costs a parser all that stand before it. */
const letters = (many: number) => Array.from({ length: many }, (_, n) => String.fromCodePoint(0x4e00 + n)).join('');

t.test('a URL with a host of more than the maximum length is invalid, however the host begins', async (t) => {
  const host = letters(600);
  for (const before of ['http://', 'https:/\\', '\thttp:\n//', 'ws:////', 'http:', 'ftp://user@', 'http://[']) {
    t.equal(parsedUrl(`${before}${host}/path`), null, before);
  }
  for (const before of ['//', '\\/', ' //'])
    t.equal(resolvedLink(`${before}${host}`, 'https://partner.example/list'), null, before);
  t.equal(parsedUrl(`http://${letters(121)}.example/`), null, 'and shorter with letters beyond ASCII');
  t.equal(parsedUrl(`http://${'a'.repeat(61)}.`.concat(`${'b'.repeat(61)}.`.repeat(3), 'example/'))?.pathname, '/');
  t.match(parsedUrl(`http://${letters(20)}.example/`)?.hostname, /^xn--[a-z0-9]+\.example$/);
});

t.test('the part after the host may be long', async (t) => {
  const path = 'x'.repeat(100_000);
  for (const url of [
    `http://partner.example/${path}`,
    `http://partner.example?${path}`,
    `http://partner.example#${path}`,
  ])
    t.equal(parsedUrl(url)?.hostname, 'partner.example');
  t.equal(
    resolvedLink(`?offset=${path}`, 'https://partner.example/list'),
    `https://partner.example/list?offset=${path}`,
  );
  t.equal(parsedUrl(`data:image/png;base64,${'A/'.repeat(5_000)}`)?.protocol, 'data:');
});

t.test(
  'http on the host of a URL with https counts as https, and any other difference as another URL [PARTNERS-VERSIONS-2]',
  async (t) => {
    const rows = [
      ['http://cpo.example/ocpi/2.2.1', 'https://cpo.example/versions', 'https://cpo.example/ocpi/2.2.1'],
      ['HTTP://CPO.example:80/a', 'https://cpo.example/versions', 'https://cpo.example/a'],
      ['http://cpo.example:8443/a?b=c', 'https://cpo.example:8443/versions', 'https://cpo.example:8443/a?b=c'],
      ['http://cpo.example/a', 'https://cpo.example:8443/versions', null],
      ['http://cpo.example:8080/a', 'https://cpo.example/versions', null],
      ['http://other.example/a', 'https://cpo.example/versions', null],
      ['https://cpo.example/a', 'https://cpo.example/versions', null],
      ['http://cpo.example/a', 'http://cpo.example/versions', null],
      ['/a', 'https://cpo.example/versions', null],
    ] as const;
    for (const [url, from, expected] of rows) t.equal(secured(url, from), expected, url);
  },
);
