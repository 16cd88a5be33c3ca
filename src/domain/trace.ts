/** The two ids that link the log lines, events and forwards of one request. [D14] */
export interface Trace {
  readonly requestId: string;
  readonly correlationId: string;
  /** Name of the operator whose request it is; events that it causes are recorded with the name. [D80] */
  readonly operator?: string;
}
