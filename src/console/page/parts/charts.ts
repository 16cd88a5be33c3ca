/** Where the states and transitions of each machine are drawn. */

export interface Placed {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface PlacedState extends Placed {
  /** `halfOpen.ready`, as `activePaths` returns it. */
  readonly path: string;
  readonly name: string;
  /** `any`: the mark from which transitions start that every state beside it takes. */
  readonly kind: 'state' | 'start' | 'any';
  /** Whether other states are drawn inside it. */
  readonly isOuter: boolean;
}

export interface PlacedEdge {
  readonly from: string;
  readonly to: string;
  /** Corners of the line, x and y, from start to end. */
  readonly points: readonly (readonly [x: number, y: number])[];
  /** One line for each event that causes the transition. */
  readonly labels: readonly (Placed & { readonly text: string })[];
}

/** One region of a machine; a machine without regions is one, named ''. Lengths in pixels. */
export interface Chart {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  /** Outer states before inner ones. */
  readonly states: readonly PlacedState[];
  readonly edges: readonly PlacedEdge[];
}

/** Machines whose actors the page of a partner shows. */
export type DrawnKind = 'partner' | 'courier' | 'circuit';
