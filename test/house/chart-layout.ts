/** Computes the positions of a region's states and the routes of its transitions with ELK. */
import Elk, { type ElkExtendedEdge, type ElkNode } from 'elkjs/lib/elk.bundled.js';
import type { Chart, Placed, PlacedEdge, PlacedState } from '../../src/console/page/parts/charts.ts';
import type { ChartRegion, ChartState } from './chart-graph.ts';

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

export async function laidOut(region: ChartRegion): Promise<Chart> {
  const graph: ElkNode = {
    id: 'root',
    layoutOptions: options,
    children: region.states.map(nodeOf),
    edges: region.edges.map(({ from, to, labels }, at): ElkExtendedEdge => {
      return { id: `edge${at}`, sources: [from], targets: [to], labels: labels.map(labelOf) };
    }),
  };
  const placed = await new Elk.default().layout(graph);
  return {
    name: region.name,
    width: rounded(placed.width),
    height: rounded(placed.height),
    states: placedStates(region.states, placed.children ?? []),
    edges: (placed.edges ?? []).map(placedEdge),
  };
}

/** Tenths of a pixel are enough. */
const rounded = (px = 0): number => Math.round(px * 10) / 10;

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

const placeOf = ({ x, y, width, height }: Partial<Placed>): Placed => ({
  ...{ x: rounded(x), y: rounded(y) },
  ...{ width: rounded(width), height: rounded(height) },
});

function placedStates(states: readonly ChartState[], nodes: readonly ElkNode[]): PlacedState[] {
  return states.flatMap(({ path, name, kind, states: inner }) => {
    const node = nodes.find(({ id }) => id === path);
    if (!node) return [];
    const own = { path, name, kind, isOuter: inner.length > 0, ...placeOf(node) };
    return [own, ...placedStates(inner, node.children ?? [])];
  });
}

function placedEdge({ sources, targets, sections = [], labels = [] }: ElkExtendedEdge): PlacedEdge {
  const corners = sections.flatMap(({ startPoint, bendPoints = [], endPoint }) => [
    startPoint,
    ...bendPoints,
    endPoint,
  ]);
  return {
    from: sources[0] ?? '',
    to: targets[0] ?? '',
    points: corners.map(({ x, y }) => [rounded(x), rounded(y)]),
    labels: labels.map((label) => ({ ...placeOf(label), text: label.text ?? '' })),
  };
}
