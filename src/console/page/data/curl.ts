/**
 * Formats a request as a shell command.
 */
import type { DeliveryDetailView } from '../../../api/deliveries.ts';

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** For a POSIX shell. Null without a URL. The token is the placeholder that the headers contain, never the real one. */
export function curlOf({ method, url, headers, body }: DeliveryDetailView['request']): string | null {
  if (url === null) return null;
  const fields = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  const content = body === null ? [] : [`-H ${quoted('Content-Type: application/json')}`, `--data-raw ${quoted(body)}`];
  return [`curl -X ${method} ${quoted(url)}`, ...fields, ...content].join(' \\\n  ');
}
