/** What a process of a bench is to the one that started it: something that says how it is reached and then does what it is asked. */

export interface Part {
  /** Told once, when it can be asked. */
  readonly ready: unknown;
  readonly verbs: Readonly<Record<string, (args: never) => unknown>>;
}

/** Of a process that serves. */
export interface Serving {
  readonly url: string;
}
