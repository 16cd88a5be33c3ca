/** Saved views: addresses of the console that operators keep under a name, for all of them. */

export interface SavedView {
  readonly id: string;
  readonly name: string;
  /** Address below `/console`, with its query: `/deliveries?state=DEAD`. */
  readonly path: string;
  /** Name of the operator who saved it. */
  readonly by: string;
  /** RFC 3339. */
  readonly at: string;
}

export type SavedViewEvent =
  | { type: 'view.saved'; data: SavedView }
  | { type: 'view.removed'; data: { readonly id: string } };
