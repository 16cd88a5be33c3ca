/**
 * Indents JSON for reading without changing a value: numbers, escapes and the order of fields stay as received.
 */
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
