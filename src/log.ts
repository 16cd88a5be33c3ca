/**
 * The hub's log: JSON lines on stderr, readable lines when stderr is a terminal. stdout belongs to the commands.
 *
 * LOG-1  No secret is logged on purpose; redaction by field name is the second net, for what slips in with a larger object. A line
 *     of plain values is looked through by a loop over its names, since searching paths costs more than all else in a request's line.
 * LOG-2  Lines are written together, at most `flushMs` later: who reads slowly slows nobody, and beyond `heldMax` lines are lost. What
 *     was logged before an ordinary end of the process is written.
 */
import { type DestinationStream, destination, type Logger, type LoggerOptions, pino } from 'pino';
import pretty from 'pino-pretty';
import type { Log } from './hub/ports/ports.ts';

/** Field names whose values never belong in a log, at the top of a line or up to three levels down. */
const secretFields = [
  'authorization',
  'Authorization',
  'token',
  'hubToken',
  'partnerToken',
  'initialToken',
  'initial_token',
  'adminToken',
  'viewerToken',
  'secretKey',
];

const redactedPaths = secretFields.flatMap((field) => [field, `*.${field}`, `*.*.${field}`, `*.*.*.${field}`]);
const secretNames: ReadonlySet<string> = new Set(secretFields);

const flushMs = 200;
/** Bytes that are gathered for one write, and that may wait for a reader who is slow. */
const writtenAtOnce = 8 * 1024;
const heldMax = 16 * 1024 * 1024;

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
  const stream = process.stderr.isTTY
    ? pretty({ destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss.l' })
    : destination({ fd: 2, sync: false, minLength: writtenAtOnce, periodicFlush: flushMs, maxLength: heldMax });
  // Whoever read the log may go away; the hub goes on.
  stream.on('error', () => {});
  return stream;
}
