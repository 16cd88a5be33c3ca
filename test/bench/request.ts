/**
 * One request of the load, as text with marks that are overwritten in place for each sending, so that sending serialises nothing.
 * Marks are as long as what replaces them.
 */

/** Number of the object, 7 digits. */
export const objectMark = 'OOOOOOO';
/** Number of the sending within its round, 8 digits. */
export const serialMark = 'NNNNNNNN';
/** Instant at which it was to be sent, microseconds of the machine's monotonic clock, 16 digits. */
export const instantMark = 'TTTTTTTTTTTTTTTT';

/** Stands in bodies, where the receiver looks for it. */
export const sentField = '"x_sent":"';
/** A member of a JSON object, comma included. */
export const sentMember = `${sentField}${serialMark}-${instantMark}",`;

/** `Authorization` with which the baselines are called. */
export const baselineToken = 'Token Y2FsbGVy';

export interface RequestShape {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The request on the wire, marks and all. */
export function wireText({ method, path, headers, body }: RequestShape, host: string): string {
  const all = { Host: host, ...headers, 'Content-Length': String(Buffer.byteLength(body)) };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`;
}

/** Microseconds of the machine's monotonic clock: the same for all processes on it. */
export function microseconds(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1e6 + nanoseconds / 1e3;
}

/** Overwrites digits in place. */
export function writeDigits(buffer: Buffer, end: number, width: number, value: number): void {
  let rest = Math.floor(value);
  for (let at = end - 1; at >= end - width; at--) {
    const next = Math.floor(rest / 10);
    buffer[at] = 48 + (rest - next * 10);
    rest = next;
  }
}

/** Reads what `writeDigits` wrote. */
export function readDigits(buffer: Buffer, start: number, width: number): number {
  let value = 0;
  for (let at = start; at < start + width; at++) value = value * 10 + (buffer[at] ?? 0) - 48;
  return value;
}
