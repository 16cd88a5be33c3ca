/**
 * The hub's log: JSON lines on stderr, readable lines when stderr is a terminal. stdout belongs to the commands.
 * No secret is logged on purpose; redaction by field name is the second net, for what slips in with a larger object.
 */
import { type DestinationStream, destination, type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

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

/** `level` as in `HUB_LOG_LEVEL`. `stream` is for tests. */
export function createLog(level: string, stream: DestinationStream = standardError()): Logger {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: redactedPaths, censor: '[secret]' },
    },
    stream,
  );
}

function standardError(): DestinationStream {
  const stream = process.stderr.isTTY
    ? pretty({ destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss.l' })
    : destination({ fd: 2, sync: true });
  // Whoever read the log may go away; the hub goes on.
  stream.on('error', () => {});
  return stream;
}
