/**
 * An eMSP's copies of the CPOs' objects: every push in order of arrival, and the state that results. Idempotent, as
 * receivers have to be: a repeated PATCH changes nothing.
 */

export interface Arrival {
  readonly at: string;
  readonly method: string;
  /** Ids below the object: an EVSE, a connector. */
  readonly within: readonly string[];
  readonly body: string;
  /** Whether the same PATCH arrived before, with no PUT since. */
  readonly repeated: boolean;
}

type Fields = Record<string, unknown>;

export interface Copy {
  readonly module: string;
  /** `NL-TNM`, in capitals. */
  readonly owner: string;
  readonly id: string;
  readonly arrivals: readonly Arrival[];
  /** Null after a DELETE. */
  readonly state: Fields | null;
  /** Text of the last PUT or POST, byte for byte. */
  readonly text: string;
}

interface Held extends Copy {
  arrivals: Arrival[];
  state: Fields | null;
  text: string;
}

export interface Push {
  readonly module: string;
  readonly owner: string;
  readonly id: string;
  readonly within?: readonly string[];
  readonly method: string;
  readonly body: string;
  readonly at: string;
}

export class Copies {
  readonly #held = new Map<string, Held>();

  get(module: string, owner: string, id: string): Copy | undefined {
    return this.#held.get(keyOf(module, owner, id));
  }

  /** Copies of a module's objects, in order of first arrival. */
  of(module: string): Copy[] {
    return [...this.#held.values()].filter((copy) => copy.module === module);
  }

  /**
   * Applies a push and returns whether that was possible: a PATCH needs the object, an EVSE its location, a connector
   * its EVSE.
   */
  apply(push: Push): boolean {
    const { module, owner, id, within = [], method, body, at } = push;
    const key = keyOf(module, owner, id);
    const held = this.#held.get(key);
    const needsObject = method === 'PATCH' || method === 'DELETE' || within.length > 0;
    if (needsObject && !held?.state) return false;
    const copy: Held = held ?? { module, owner: owner.toUpperCase(), id, arrivals: [], state: null, text: '' };
    const repeated = method === 'PATCH' && isRepeated(copy.arrivals, within, body);
    if (!repeated && !changeState(copy, method, within, body)) return false;
    copy.arrivals.push({ at, method, within, body, repeated });
    this.#held.set(key, copy);
    return true;
  }
}

const keyOf = (module: string, owner: string, id: string) => `${module}/${owner}/${id}`.toLowerCase();

function isRepeated(arrivals: readonly Arrival[], within: readonly string[], body: string): boolean {
  const lastWhole = arrivals.findLastIndex(({ method }) => method !== 'PATCH');
  return arrivals.slice(lastWhole + 1).some((one) => one.body === body && one.within.join('/') === within.join('/'));
}

function changeState(copy: Held, method: string, within: readonly string[], body: string): boolean {
  if (method === 'DELETE') {
    copy.state = null;
    return true;
  }
  const sent = JSON.parse(body) as Fields;
  if (within.length > 0) return copy.state !== null && changeWithin(copy.state, method, within, sent);
  if (method === 'PATCH') patch(copy.state ?? {}, sent);
  else {
    copy.state = sent;
    copy.text = body;
  }
  return true;
}

/** Replaces fields and appends charging periods. [OCPI mod_sessions] */
function patch(state: Fields, sent: Fields): void {
  for (const [field, value] of Object.entries(sent)) {
    const before = state[field];
    const appends = field === 'charging_periods' && Array.isArray(before) && Array.isArray(value);
    state[field] = appends ? [...before, ...value] : value;
  }
}

const steps = [
  { field: 'evses', idField: 'uid' },
  { field: 'connectors', idField: 'id' },
] as const;

function changeWithin(location: Fields, method: string, within: readonly string[], sent: Fields): boolean {
  const parents = [location];
  let parent = location;
  for (const [depth, id] of within.entries()) {
    const step = steps[depth];
    if (!step) return false;
    parent[step.field] ??= [];
    const list = parent[step.field] as Fields[];
    const index = list.findIndex((item) => String(item[step.idField]).toLowerCase() === id.toLowerCase());
    const item = list[index];
    if (depth < within.length - 1) {
      if (!item) return false;
      parents.push(item);
      parent = item;
    } else if (method === 'PATCH') {
      if (!item) return false;
      patch(item, sent);
    } else if (item) list[index] = sent;
    else list.push(sent);
  }
  for (const one of parents) one.last_updated = sent.last_updated;
  return true;
}
