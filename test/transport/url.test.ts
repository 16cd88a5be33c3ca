/** Texts that partners give for URLs. */
import { parsedUrl, resolvedLink } from '../../src/kit/url.ts';
import { t } from '../support/tap.ts';

/** Different characters: each costs a parser all that stand before it. */
const letters = (many: number) => Array.from({ length: many }, (_, n) => String.fromCodePoint(0x4e00 + n)).join('');

t.test('a URL with a host longer than any is none, however the host begins', async (t) => {
  const host = letters(600);
  for (const before of ['http://', 'https:/\\', '\thttp:\n//', 'ws:////', 'http:', 'ftp://user@', 'http://[']) {
    t.equal(parsedUrl(`${before}${host}/path`), null, before);
  }
  for (const before of ['//', '\\/', ' //'])
    t.equal(resolvedLink(`${before}${host}`, 'https://partner.example/list'), null, before);
  t.match(parsedUrl(`http://${letters(20)}.example/`)?.hostname, /^xn--[a-z0-9]+\.example$/);
});

t.test('all that follows the host may be long', async (t) => {
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
