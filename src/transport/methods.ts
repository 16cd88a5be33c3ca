/** Which methods a path has, for a door's answer to one that it does not have: 405 with `Allow`. [D2] */

interface Routed {
  readonly method: string;
  /** Below the door, e.g. `/parties/:id`: a segment that begins with `:` stands for any. */
  readonly path: string;
}

/** Each once, in order of the table; none when the path is not there. */
export function methodsOf(table: readonly Routed[], path: string): string[] {
  const segments = path.split('/');
  const leadsThere = ({ path: own }: Routed) => {
    const parts = own.split('/');
    return parts.length === segments.length && parts.every((part, at) => part.startsWith(':') || part === segments[at]);
  };
  return [...new Set(table.filter(leadsThere).map(({ method }) => method))];
}
