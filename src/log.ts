/**
 * The hub's log: JSON lines on stderr, or readable lines when stderr is a terminal. stdout is reserved for command
 * output.
 *
 * LOG-1  The code logs no secret; redaction by field name is a second safety net, for secrets inside larger objects. A
 *     line of plain values is checked with a loop over its field names and written here, the same text as pino's, because pino's
 *     path search costs more than the rest of a request's line, and its serializer twice as much as `JSON.stringify`, which
 *     throws at a bigint: such a line is pino's.
 * LOG-2  A line never waits for stderr (`stderr-lines.ts`), but on a terminal, where it is written at once.
 */
import { type DestinationStream, type Logger, type LoggerOptions, pino } from 'pino';
import type { Log } from './hub/ports/ports.ts';
import { systemClock } from './kit/system-clock.ts';
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

/** `level` as in `HUB_LOG_LEVEL`. `instant` returns the time of day, RFC 3339. */
export function createLog(
  level: string,
  stream: DestinationStream = stderrLines,
  instant = () => new Date(systemClock.wall()).toISOString(),
): Log {
  const timestamp = () => `,"time":"${instant()}"`;
  const options: LoggerOptions = {
    level,
    base: null,
    timestamp,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: redactedPaths, censor: '[secret]' },
  };
  const searched = pino(options, stream);
  const lines = levels.map((name) => {
    const write = (members: string) => stream.write(`{"level":"${name}"${timestamp()}${members}}\n`);
    return [name, lineOf(name, searched, write)];
  });
  return Object.fromEntries(lines) as Record<(typeof levels)[number], Log['info']>;
}

/** [LOG-1] */
function lineOf(level: (typeof levels)[number], searched: Logger, write: (members: string) => void): Log['info'] {
  if (!searched.isLevelEnabled(level)) return () => {};
  return (fields, message) => {
    if (!isPlain(fields)) return searched[level](fields, message);
    const own = JSON.stringify(fields).slice(1, -1);
    write(`${own && `,${own}`},"msg":${JSON.stringify(message)}`);
  };
}

function isPlain(fields: object): boolean {
  for (const name in fields) {
    const value: unknown = fields[name as keyof typeof fields];
    if ((typeof value === 'object' && value !== null) || typeof value === 'bigint' || secretNames.has(name))
      return false;
  }
  return true;
}

/** Where the lines of a process go. Only a terminal has use for what makes them readable, and only its start loads that. */
export async function standardError(): Promise<DestinationStream> {
  if (!process.stderr.isTTY) return stderrLines;
  const { default: pretty } = await import('pino-pretty');
  const stream = pretty({ destination: 2, sync: true, translateTime: 'SYS:HH:MM:ss.l' });
  // The terminal may go away; the hub continues.
  stream.on('error', () => {});
  return stream;
}
