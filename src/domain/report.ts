/**
 * What the hub keeps of a partner's own mistakes and habits, so that support can say what is wrong: refused pushes,
 * and counts of warnings and quirks. [D69, D70, D86]
 */
import type { ErrorCode } from './errors.ts';
import type { ObjectModule } from './modules.ts';
import type { PartyId } from './party.ts';

/** A push that was refused, or a request that no route takes. Two refusals are the same when method, path and reason are. */
export interface RefusedPush {
  /** The partner whose token came with it. */
  readonly partner: PartyId;
  /** Null when the path of the request names none. */
  readonly module: ObjectModule | null;
  readonly method: string;
  /** Path and query, as requested; without the query where no route takes the request. */
  readonly path: string;
  /** `{cc}-{pid}/{id}`; null when the request does not name it. */
  readonly object: string | null;
  readonly code: ErrorCode;
  /** The message of the answer. */
  readonly reason: string;
}

/** By which the kind of a refusal is known. */
export type OfKind = Pick<RefusedPush, 'module' | 'path'> & { readonly code: string };

const unrouted: ReadonlySet<string> = new Set<ErrorCode>(['pathNotFound', 'methodNotAllowed']);

/** The module of a refused push. What has none is a command, an exchange of credentials, or no route takes it. */
export function refusalKind({ module, code, path }: OfKind): ObjectModule | 'commands' | 'exchanges' | 'unrouted' {
  if (module !== null) return module;
  if (unrouted.has(code)) return 'unrouted';
  return path.endsWith('/credentials') ? 'exchanges' : 'commands';
}

/** A refused push as it is stored, repeats included; the row and each event also have the body of the last one. */
export interface RefusedRecord extends RefusedPush {
  readonly count: number;
  /** RFC 3339. */
  readonly firstAt: string;
  readonly lastAt: string;
}

/** How often something was seen. */
export interface Tally {
  readonly count: number;
  /** RFC 3339. */
  readonly firstAt: string;
  readonly lastAt: string;
  /** The last one: what was seen, and of which object if any. */
  readonly example: string;
  readonly object: string | null;
}

export type TallyKind = 'warnings' | 'quirks';

/** Tallies of a partner, by module and field or by module and quirk: `locations evses[].status`. */
export type Tallies = Readonly<Record<TallyKind, Readonly<Record<string, Tally>>>>;

export const noTallies: Tallies = { warnings: {}, quirks: {} };

/** Tallies of a kind that are kept at most; further ones are not begun. */
const talliesMax = 100;

/** Adds up two tallies of the same thing; `later` was seen last. */
export function sumOf(earlier: Tally | undefined, later: Tally): Tally {
  return earlier ? { ...later, count: earlier.count + later.count, firstAt: earlier.firstAt } : later;
}

export function addTallies(before: Tallies, more: Tallies): Tallies {
  return { warnings: added(before.warnings, more.warnings), quirks: added(before.quirks, more.quirks) };
}

function added(before: Tallies[TallyKind], more: Tallies[TallyKind]): Tallies[TallyKind] {
  const all = { ...before };
  for (const [key, tally] of Object.entries(more)) {
    if (Object.hasOwn(all, key) || Object.keys(all).length < talliesMax) all[key] = sumOf(all[key], tally);
  }
  return all;
}

/** The field that a warning is about, without indexes: `evses[0].status: value unknown` → `evses[].status`. */
export function fieldOf(warning: string): string {
  const [field = ''] = warning.split(/[: ]/, 1);
  return field.replace(/\[\d+\]/g, '[]').slice(0, 120);
}
