/** The two ids that link the log lines, events and forwards of one request. [D14] */
export interface Trace {
  readonly requestId: string;
  readonly correlationId: string;
}
