/**
 * Computes the positions of a region's states and the routes of its transitions with ELK, which is loaded when the
 * first chart is drawn.
 */
import type { ElkExtendedEdge, ElkNode } from 'elkjs/lib/elk-api.js';
import type { ChartRegion, ChartState } from './chart-graph.ts';

interface Placed {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface PlacedState extends Placed {
  readonly state: ChartState;
}

export interface PlacedEdge {
  readonly from: string;
  readonly to: string;
  /** Corners of the line, from start to end. */
  readonly points: readonly { readonly x: number; readonly y: number }[];
  readonly labels: readonly (Placed & { readonly text: string })[];
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  /** Outer states before inner ones. */
  readonly states: readonly PlacedState[];
  readonly edges: readonly PlacedEdge[];
}

const charPx = 7.2;
const labelCharPx = 6.2;
const lineHeight = 14;
const options = {
  'elk.algorithm': 'layered',
  'elk.direction': 'DOWN',
  'elk.edgeRouting': 'ORTHOGONAL',
  'elk.hierarchyHandling': 'INCLUDE_CHILDREN',
  'elk.json.edgeCoords': 'ROOT',
  'elk.json.shapeCoords': 'ROOT',
  'elk.spacing.nodeNode': '26',
  'elk.spacing.edgeNode': '16',
  'elk.spacing.edgeEdge': '12',
  'elk.spacing.edgeLabel': '4',
  'elk.layered.spacing.nodeNodeBetweenLayers': '22',
  'elk.layered.spacing.edgeNodeBetweenLayers': '12',
  'elk.layered.considerModelOrder.strategy': 'NODES_AND_EDGES',
  'elk.padding': '[top=8,left=8,bottom=8,right=8]',
};
const inside = { ...options, 'elk.padding': '[top=32,left=12,bottom=12,right=12]' };

const sizes: Readonly<Record<ChartState['kind'], (name: string) => Pick<Placed, 'width' | 'height'>>> = {
  state: (name) => ({ width: Math.max(84, Math.ceil(name.length * charPx) + 28), height: 32 }),
  start: () => ({ width: 12, height: 12 }),
  any: () => ({ width: 36, height: 20 }),
};

let loaded: Promise<(graph: ElkNode) => Promise<ElkNode>> | undefined;

async function load(): Promise<(graph: ElkNode) => Promise<ElkNode>> {
  const { default: Elk } = await import('elkjs/lib/elk.bundled.js');
  const elk = new Elk();
  return (graph) => elk.layout(graph);
}

export async function laidOut(region: ChartRegion): Promise<Layout> {
  loaded ??= load();
  const layout = await loaded;
  const placed = await layout({
    id: 'root',
    layoutOptions: options,
    children: region.states.map(nodeOf),
    edges: region.edges.map(({ from, to, labels }, at): ElkExtendedEdge => {
      return { id: `edge${at}`, sources: [from], targets: [to], labels: labels.map(labelOf) };
    }),
  });
  return {
    width: placed.width ?? 0,
    height: placed.height ?? 0,
    states: placedStates(region.states, placed.children ?? []),
    edges: (placed.edges ?? []).map(placedEdge),
  };
}

function nodeOf(state: ChartState): ElkNode {
  if (state.states.length === 0) return { id: state.path, ...sizes[state.kind](state.name) };
  return { id: state.path, layoutOptions: inside, children: state.states.map(nodeOf) };
}

function labelOf(text: string) {
  return {
    text,
    width: Math.ceil(text.length * labelCharPx) + 6,
    height: lineHeight,
    layoutOptions: { 'elk.edgeLabels.placement': 'CENTER' },
  };
}

const placeOf = ({ x = 0, y = 0, width = 0, height = 0 }: Partial<Placed>): Placed => ({ x, y, width, height });

function placedStates(states: readonly ChartState[], nodes: readonly ElkNode[]): PlacedState[] {
  return states.flatMap((state) => {
    const node = nodes.find(({ id }) => id === state.path);
    if (!node) return [];
    return [{ ...placeOf(node), state }, ...placedStates(state.states, node.children ?? [])];
  });
}

function placedEdge({ sources, targets, sections = [], labels = [] }: ElkExtendedEdge): PlacedEdge {
  return {
    from: sources[0] ?? '',
    to: targets[0] ?? '',
    points: sections.flatMap(({ startPoint, bendPoints = [], endPoint }) => [startPoint, ...bendPoints, endPoint]),
    labels: labels.map((label) => ({ ...placeOf(label), text: label.text ?? '' })),
  };
}
