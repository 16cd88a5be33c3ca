/**
 * Turns a state machine's definition into graphs for the layout, one per region: no transition crosses regions, so one
 * graph of all would cost more and show no more.
 *
 * A transition from a compound state to one of its own states can start in any of them; it is drawn from a small mark
 * `any`. Two kinds are left out: transitions without a target, which only count, and those of events that only restore
 * a machine's state after a start (`wasOpened`).
 */

/** A state of a region. */
export interface ChartState {
  /** `halfOpen.ready`, as `activePaths` returns it. */
  readonly path: string;
  readonly name: string;
  readonly kind: 'state' | 'start' | 'any';
  readonly states: readonly ChartState[];
}

export interface ChartEdge {
  readonly from: string;
  readonly to: string;
  /** One line for each event that causes the transition. */
  readonly labels: readonly string[];
}

export interface ChartRegion {
  /** '' for a machine without regions. */
  readonly name: string;
  readonly states: readonly ChartState[];
  readonly edges: readonly ChartEdge[];
}

interface Config {
  readonly type?: string;
  readonly initial?: string;
  readonly states?: Readonly<Record<string, Config>>;
  readonly on?: Readonly<Record<string, Target | readonly Target[]>>;
}

type Target = string | { readonly target?: string | readonly string[]; readonly guard?: unknown };

const startOf = (path: string) => `${path}#start`;
const anyOf = (path: string) => `${path}#any`;

/** `definition`: the argument of `createMachine`, as JSON. */
export function regionsOf(definition: unknown): ChartRegion[] {
  const root = definition as Config;
  if (root.type === 'parallel') return Object.entries(root.states ?? {}).map(([name, of]) => regionOf(name, of));
  return [regionOf('', root)];
}

function regionOf(name: string, config: Config): ChartRegion {
  const edges = new Map<string, { from: string; to: string; labels: string[] }>();
  const add = (from: string, to: string, label: string | null) => {
    const edge = edges.get(`${from} ${to}`) ?? { from, to, labels: [] };
    edges.set(`${from} ${to}`, edge);
    if (label !== null && !edge.labels.includes(label)) edge.labels.push(label);
  };
  const states = statesOf(name, name, config, add);
  return { name, states, edges: [...edges.values()] };
}

type Add = (from: string, to: string, label: string | null) => void;

function statesOf(region: string, path: string, config: Config, add: Add): ChartState[] {
  const below = (name: string) => (path === '' ? name : `${path}.${name}`);
  const inside = Object.entries(config.states ?? {}).map(([name, of]): ChartState => {
    for (const { event, target } of leaving(of)) {
      const isInner = target.startsWith('.');
      if (!isInner) add(below(name), below(target), eventName(region, event));
    }
    return { path: below(name), name, kind: 'state', states: statesOf(region, below(name), of, add) };
  });
  if (inside.length === 0) return [];
  const fromAny = leaving(config).filter(({ target }) => target.startsWith('.'));
  for (const { event, target } of fromAny) add(anyOf(path), below(target.slice(1)), eventName(region, event));
  if (config.initial !== undefined) add(startOf(path), below(config.initial), null);
  const mark = (kind: 'start' | 'any', at: string): ChartState => ({ path: at, name: kind, kind, states: [] });
  return [
    ...(config.initial === undefined ? [] : [mark('start', startOf(path))]),
    ...inside,
    ...(fromAny.length === 0 ? [] : [mark('any', anyOf(path))]),
  ];
}

function leaving({ on = {} }: Config): { event: string; target: string }[] {
  const told = Object.entries(on).filter(([event]) => !/\.was[A-Z]/.test(event));
  return told.flatMap(([event, given]) =>
    [given].flat().flatMap((one: Target) => {
      const targets = [typeof one === 'string' ? one : (one.target ?? [])].flat();
      return targets.map((target) => ({ event, target }));
    }),
  );
}

/** The event's name without the leading region or machine, which the chart shows already. */
function eventName(region: string, event: string): string {
  const [first, ...rest] = event.split('.');
  return first === region || first === 'partner' || first === 'circuit' ? rest.join('.') : event;
}
