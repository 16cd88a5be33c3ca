/** Ids that follow one request through log lines, events and forwards. [D14] */
export interface Trace {
  readonly requestId: string;
  readonly correlationId: string;
}
