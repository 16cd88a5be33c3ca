/**
 * The hub's log: JSON lines on stderr, or readable lines when stderr is a terminal. stdout is reserved for command
 * output.
 *
 * LOG-1  The code logs no secret; redaction by field name is a second safety net, for secrets inside larger objects. A
 *     line of plain values is checked with a loop over its field names, because pino's path search costs more than the
 *     rest of a request's line.
 * LOG-2  A line never waits for stderr (`stderr-lines.ts`), but on a terminal, where it is written at once.
 */
import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';
import pretty from 'pino-pretty';
import type { Log } from './hub/ports/ports.ts';
import { stderrLines } from './stderr-lines.ts';

/** Field names whose values are redacted, at the top of a line or up to three levels down. */
const secretFields = [
  'authorization',
  'Authorization',
  'token',
  'hubToken',
  'partnerToken',
  'initialToken',
  'initial_token',
  'hub_token',
  'adminToken',
  'viewerToken',
  'secretKey',
];

const redactedPaths = secretFields.flatMap((field) => [field, `*.${field}`, `*.*.${field}`, `*.*.*.${field}`]);
const secretNames: ReadonlySet<string> = new Set(secretFields);

const levels = ['debug', 'info', 'warn', 'error'] as const satisfies readonly (keyof Log)[];

/** `level` as in `HUB_LOG_LEVEL`. `stream` is for tests. */
export function createLog(level: string, stream: DestinationStream = standardError()): Log {
  const options: LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  };
  const plain = pino(options, stream);
  const searched = pino({ ...options, redact: { paths: redactedPaths, censor: '[secret]' } }, stream);
  const lines = levels.map((name) => [name, lineOf(name, plain, searched)]);
  return Object.fromEntries(lines) as Record<(typeof levels)[number], Log['info']>;
}

/** [LOG-1] */
function lineOf(level: (typeof levels)[number], plain: Logger, searched: Logger): Log['info'] {
  if (!plain.isLevelEnabled(level)) return () => {};
  return (fields, message) => (isPlain(fields) ? plain : searched)[level](fields, message);
}

function isPlain(fields: object): boolean {
  for (const name in fields) {
    const value: unknown = fields[name as keyof typeof fields];
    if ((typeof value === 'object' && value !== null) || secretNames.has(name)) return false;
  }
  return true;
}

function standardError(): DestinationStream {
  if (!process.stderr.isTTY) return stderrLines;
  const stream = pretty({ destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss.l' });
  // The terminal may go away; the hub continues.
  stream.on('error', () => {});
  return stream;
}
