/**
 * A CPO's own lists, as its sender interface serves them: filtered by date, in pages, with the headers of pagination. Written from
 * the specification, so that it cannot share a mistake with the hub.
 */
import type { Received, Reply } from './plain-partner.ts';

export interface Lists {
  /** Texts of the objects of each module, in order; change them at will. */
  readonly texts: Record<string, string[]>;
  /** Objects a page, whatever `limit` says. */
  pageSize: number;
  /** What a page is answered with instead, when it gives something. */
  instead: (received: Received) => Reply | Promise<Reply> | undefined;
  /** For `plainPartner`; anything but a list is answered with success. */
  readonly answer: (received: Received) => Reply | Promise<Reply>;
}

export function lists(): Lists {
  const served: Lists = {
    texts: {},
    pageSize: 2,
    instead: () => undefined,
    answer: (received) => served.instead(received) ?? page(served, received),
  };
  return served;
}

function page({ texts, pageSize }: Lists, { method, path, headers }: Received): Reply {
  const url = new URL(path, `http://${headers.host}`);
  const all = texts[url.pathname.split('/').at(-1) ?? ''];
  if (method !== 'GET' || !all) return {};
  const bound = (name: string, otherwise: number) => Date.parse(url.searchParams.get(name) ?? '') || otherwise;
  const matching = all.filter((text) => {
    const at = Date.parse((JSON.parse(text) as { last_updated?: string }).last_updated ?? '') || 0;
    return at >= bound('date_from', 0) && at < bound('date_to', Number.POSITIVE_INFINITY);
  });
  const offset = Number(url.searchParams.get('offset') ?? 0);
  const end = offset + pageSize;
  url.searchParams.set('offset', String(end));
  return {
    text: `{"status_code":1000,"timestamp":"2026-01-01T00:00:00Z","data":[${matching.slice(offset, end).join(',')}]}`,
    headers: {
      'X-Total-Count': String(matching.length),
      'X-Limit': String(pageSize),
      ...(end < matching.length && { Link: `<${url.href}>; rel="next"` }),
    },
  };
}

/** Queries of the pages that were asked for, oldest first. */
export function pagesAsked(received: readonly Received[], module: string): URLSearchParams[] {
  const urls = received.filter(({ method }) => method === 'GET').map(({ path }) => new URL(path, 'http://partner'));
  return urls.filter(({ pathname }) => pathname === `/ocpi/2.2.1/${module}`).map(({ searchParams }) => searchParams);
}
