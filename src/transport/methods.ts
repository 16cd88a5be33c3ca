/** Which methods a path has instead of one that it does not have: what a 405 names in `Allow`. [D2] */

interface Routed {
  readonly method: string;
  /** Below the door, e.g. `/parties/:id`: a segment that begins with `:` stands for any. */
  readonly path: string;
}

/** In order of the table, each once; none when the path is not there, or has `method` and was refused for something else. */
export function otherMethods(table: readonly Routed[], path: string, method: string): string[] {
  const segments = path.split('/');
  const leadsThere = ({ path: own }: Routed) => {
    const parts = own.split('/');
    return parts.length === segments.length && parts.every((part, at) => part.startsWith(':') || part === segments[at]);
  };
  const methods = [...new Set(table.filter(leadsThere).map((route) => route.method))];
  return methods.includes(method) ? [] : methods;
}
