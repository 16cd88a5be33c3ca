/** What the answers of simulated partners are made of. */
export interface Reply {
  readonly status: number;
  readonly body: string;
  /** Sent in place of `body`. */
  readonly bytes?: Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

function envelope(statusCode: number, data?: unknown, message?: string): string {
  const timestamp = new Date().toISOString();
  return JSON.stringify({ status_code: statusCode, status_message: message, timestamp, data });
}

export const ok = (data?: unknown, headers: Readonly<Record<string, string>> = {}): Reply => ({
  status: 200,
  body: envelope(1000, data, 'Success'),
  headers,
});

export const refuse = (status: number, statusCode: number, message: string): Reply => ({
  status,
  body: envelope(statusCode, undefined, message),
});

/** `sessions` for `/ocpi/2.2.1/sessions/…`, `versions` for the versions list and the version details. */
export function moduleOf(path: string): string {
  const [, ocpi, version, module] = (path.split('?')[0] ?? '').split('/');
  if (ocpi !== 'ocpi') return '';
  return module ?? (version === undefined ? '' : 'versions');
}

interface Dated {
  readonly last_updated: string;
}

const pageMax = 50;

/** One page of `items`; `url` is the address of the list, for the link to the next page. */
export function page(
  { query }: { readonly query: URLSearchParams },
  url: string,
  items: readonly Dated[],
  needsDateFrom = false,
): Reply {
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
