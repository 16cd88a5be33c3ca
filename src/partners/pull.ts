/**
 * Reads a partner's list page by page, following `Link` headers with `rel="next"`. [interface, Pagination and Admin
 * pulls]
 *
 * PULL-1  Nothing is thrown: a list that cannot be read completely ends with a `failed` page that states the reason.
 * PULL-2  Reading terminates: the number of pages is bounded, and no page is requested twice.
 * PULL-3  The client's egress guard checks every link, and no link is followed from https to http.
 */
import { randomUUID } from 'node:crypto';
import type { ListCall, PartnerLists, PartnerPage } from '../hub/ports/ports.ts';
import { parsedUrl } from '../kit/url.ts';
import { envelopeItems } from '../transport/envelope.ts';
import type { Client, Read } from './client.ts';

export interface PartnerListsSettings {
  /** Timeout per page, ms. */
  readonly timeoutMs?: number;
  /** Pages per list at most. */
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
      const { quirks = [] } = outcome;
      yield { kind: 'page', texts: envelopeItems(text), total: totalOf(one(headers['x-total-count'])), quirks };
      const link = nextLink(one(headers.link));
      const next: string | null = link === null ? null : resolved(link, url);
      if (link !== null && next === null) return yield failed(`the link of page ${seen.size} is not usable`);
      url = next;
    }
  }

  return { pages };
}

/** A header value as one text; repeated headers are joined by commas. */
const one = (value: string | string[] | undefined): string => (Array.isArray(value) ? value.join(', ') : (value ?? ''));

const totalOf = (text: string): number | null => (/^\d{1,15}$/.test(text.trim()) ? Number(text) : null);

const linkValues = /<([^>]*)>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:"[^"]*"|[^\s;,"]+))?)*)/g;
const relation = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s;,"]+))/i;

/** The target of the link with relation `next`; null when there is none. */
export function nextLink(header: string): string | null {
  for (const [, target = '', parameters = ''] of header.matchAll(linkValues)) {
    const [, quoted, bare = ''] = relation.exec(parameters) ?? [];
    const relations = (quoted ?? bare).toLowerCase().split(/\s+/);
    if (relations.includes('next')) return target.trim();
  }
  return null;
}

/**
 * Resolves a link, which may be relative. Partners behind a TLS-terminating proxy often link to themselves with http,
 * so a link from https to http on the same host is read as https. Null when it is no URL, or leads from https to http
 * on another host. [PULL-3]
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
