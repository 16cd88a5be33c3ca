/**
 * The texts of a request: JSON indented for reading without changing a value (numbers, escapes and the order of fields stay as
 * received), and the request as a shell command.
 */
import type { DeliveryDetailView } from '../../../api/deliveries.ts';

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Two spaces per level, one field per line. Text that is not JSON comes out broken into lines, but complete. */
export function laidOut(text: string): string {
  const found = text.match(tokens) ?? [];
  let out = '';
  let depth = 0;
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [index, token] of found.entries()) {
    const next = found[index + 1];
    if (token === '{' || token === '[') {
      depth++;
      out += next === '}' || next === ']' ? token : token + line();
    } else if (token === '}' || token === ']') {
      depth = Math.max(0, depth - 1);
      const before = found[index - 1];
      out += before === '{' || before === '[' ? token : line() + token;
    } else if (token === ',') out += token + line();
    else out += token === ':' ? ': ' : token;
  }
  return out;
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** For a POSIX shell. Null without a URL. The token is the placeholder that the headers contain, never the real one. */
export function curlOf({ method, url, headers, body }: DeliveryDetailView['request']): string | null {
  if (url === null) return null;
  const fields = Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  const content = body === null ? [] : [`-H ${quoted('Content-Type: application/json')}`, `--data-raw ${quoted(body)}`];
  return [`curl -X ${method} ${quoted(url)}`, ...fields, ...content].join(' \\\n  ');
}
