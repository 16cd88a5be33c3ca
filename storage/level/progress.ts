/** How far a store has come with work that takes the longer the more it holds, for operators. */

/** The opening of a store. */
export interface Opening {
  /** What the store is doing. */
  readonly step: string;
  /** Events verified so far. */
  readonly verified: number;
  /** Events to verify; null while that is not known. */
  readonly events: number | null;
}
