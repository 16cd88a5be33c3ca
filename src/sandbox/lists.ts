/** Lists of a simulated sender: filtered by date and paginated, with the OCPI pagination headers. */
import { ok, type Reply, refuse } from './reply.ts';
import type { Request } from './server.ts';

interface Dated {
  readonly last_updated: string;
}

const pageMax = 50;

/** One page of `items`; `url` is the address of the list, for the link to the next page. */
export function page(request: Request, url: string, items: readonly Dated[], needsDateFrom = false): Reply {
  const { query } = request;
  const from = query.get('date_from');
  const to = query.get('date_to');
  if (needsDateFrom && from === null) return refuse(200, 2001, 'date_from is required');
  const at = (text: string | null, otherwise: number) => (text === null ? otherwise : Date.parse(text));
  const [lower, upper] = [at(from, Number.NEGATIVE_INFINITY), at(to, Number.POSITIVE_INFINITY)];
  const matching = items
    .filter(({ last_updated }) => Date.parse(last_updated) >= lower && Date.parse(last_updated) < upper)
    .sort((a, b) => Date.parse(a.last_updated) - Date.parse(b.last_updated));
  const offset = Number(query.get('offset') ?? 0);
  const limit = Math.min(Number(query.get('limit') ?? pageMax), pageMax);
  const headers: Record<string, string> = { 'x-total-count': String(matching.length), 'x-limit': String(pageMax) };
  if (offset + limit < matching.length) {
    const next = new URLSearchParams(query);
    next.set('offset', String(offset + limit));
    next.set('limit', String(limit));
    headers.link = `<${url}?${next}>; rel="next"`;
  }
  return ok(matching.slice(offset, offset + limit), headers);
}
