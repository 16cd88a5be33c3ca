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
