/**
 * Reads a partner's list page by page, following `Link` with `rel="next"`. [interface, Pagination and Admin pulls]
 *
 * PULL-1  Nothing is thrown: a list that cannot be read to its end ends with a `failed` page that says why.
 * PULL-2  It ends: the number of pages is bounded, and a page that was read is never asked for again.
 * PULL-3  Wherever a link leads, the egress guard of the client decides; it never leads from https down to http.
 */
import { randomUUID } from 'node:crypto';
import type { ListCall, PartnerLists, PartnerPage } from '../hub/ports/ports.ts';
import { parsedUrl } from '../kit/url.ts';
import { envelopeItems } from '../transport/envelope.ts';
import type { Client, Read } from './client.ts';

export interface PartnerListsSettings {
  /** Limit of one page, milliseconds. */
  readonly timeoutMs?: number;
  /** Pages of one list at most. */
  readonly pagesMax?: number;
}

const failed = (reason: string): PartnerPage => ({ kind: 'failed', reason });

export function partnerLists(client: Pick<Client, 'read'>, settings: PartnerListsSettings = {}): PartnerLists {
  const { timeoutMs = 30_000, pagesMax = 10_000 } = settings;

  const readPage = (list: ListCall, url: string): Promise<Read> =>
    client.read({
      ...list,
      ...{ method: 'GET', url, body: null, requestId: randomUUID(), timeoutMs, emptyOk: false, resend: true },
    });

  async function* pages(list: ListCall): AsyncGenerator<PartnerPage, void, undefined> {
    const seen = new Set<string>();
    for (let url: string | null = list.url; url !== null; ) {
      if (seen.has(url))
        return yield failed(`the link of page ${seen.size} leads back to a page that was read already`);
      if (seen.size === pagesMax) return yield failed(`the list has more than ${pagesMax} pages`);
      seen.add(url);
      const { outcome, text, headers } = await readPage(list, url);
      if (outcome.class !== 'delivered') {
        return yield failed(`page ${seen.size}: ${outcome.class}: ${outcome.message}`);
      }
      if (!Array.isArray(outcome.data)) return yield failed(`page ${seen.size}: its data is not a list`);
      yield { kind: 'page', texts: envelopeItems(text), total: totalOf(one(headers['x-total-count'])) };
      const link = nextLink(one(headers.link));
      const next: string | null = link === null ? null : resolved(link, url);
      if (link !== null && next === null) return yield failed(`the link of page ${seen.size} is not usable`);
      url = next;
    }
  }

  return { pages };
}

/** Headers that came more than once count as one, comma-separated. */
const one = (value: string | string[] | undefined): string => (Array.isArray(value) ? value.join(', ') : (value ?? ''));

const totalOf = (text: string): number | null => (/^\d{1,15}$/.test(text.trim()) ? Number(text) : null);

const linkValues = /<([^>]*)>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:"[^"]*"|[^\s;,"]+))?)*)/g;
const relation = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))/i;

/** The target of the link whose relation is `next`; null when there is none. */
export function nextLink(header: string): string | null {
  for (const [, target = '', parameters = ''] of header.matchAll(linkValues)) {
    const [, quoted, bare = ''] = relation.exec(parameters) ?? [];
    const relations = (quoted ?? bare).toLowerCase().split(/\s+/);
    if (relations.includes('next')) return target.trim();
  }
  return null;
}

/**
 * A link may be relative. Partners behind a proxy that speaks TLS for them often link to themselves with http: that is taken
 * for the https that it means. Null for what is no URL, and for a way down to http elsewhere. [PULL-3]
 */
function resolved(link: string, from: string): string | null {
  const [next, before] = [parsedUrl(link, from), new URL(from)];
  if (link === '' || next === null) return null;
  next.hash = '';
  if (before.protocol === 'https:' && next.protocol === 'http:') {
    if (next.host !== before.host) return null;
    next.protocol = 'https:';
  }
  return next.href;
}
