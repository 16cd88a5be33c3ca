/** Finds the methods that a path supports, for the `Allow` of a 405. [D2] */

interface Routed {
  readonly method: string;
  /** Path below the door, e.g. `/parties/:id`; a segment that begins with `:` matches any. */
  readonly path: string;
}

/** The methods that a route serves: HEAD wherever GET is, as one route of the router, which costs half of two. [D71] */
export const servedMethods = <Method extends string>(method: Method): (Method | 'HEAD')[] =>
  method === 'GET' ? [method, 'HEAD'] : [method];

/** A method that a route serves. */
interface Served {
  readonly method: string;
  /** Segments of its path. */
  readonly parts: readonly string[];
}

/** Routes as they are served. */
export const withHead = (routes: readonly Routed[]): Served[] =>
  routes.flatMap(({ method, path }) => {
    const parts = path.split('/');
    return servedMethods(method).map((one) => ({ method: one, parts }));
  });

/**
 * Distinct methods in table order. Empty when the path is unknown, or when it supports `method` (then it is no 405).
 */
export function otherMethods(table: readonly Served[], path: string, method: string): string[] {
  const segments = path.split('/');
  const leadsThere = ({ parts }: Served) =>
    parts.length === segments.length && parts.every((part, at) => part.startsWith(':') || part === segments[at]);
  const methods = [...new Set(table.filter(leadsThere).map((route) => route.method))];
  return methods.includes(method) ? [] : methods;
}
