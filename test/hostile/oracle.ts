/**
 * What must hold of the hub whatever it was sent.
 *
 * TEST-HOSTILE-ORACLE-1  It answers, in the form of the door that was knocked at: an envelope below `/ocpi`, problem details below `/admin`. [D2]
 * TEST-HOSTILE-ORACLE-2  No 5xx but those of the error table, and 503 with `Retry-After`. [interface, Errors]
 * TEST-HOSTILE-ORACLE-3  A refused request leaves nothing in the log: every event goes back to a request that was answered with success, or to one
 *     whose forward the partner failed, or to one whose sender did not wait for the answer.
 * TEST-HOSTILE-ORACLE-4  Nothing of the hub's inside is in an answer: no stack, no path.
 */
import type { Input } from './generator.ts';
import type { Met, WireAnswer } from './wire.ts';

/** What one input did. */
export interface Trial {
  readonly input: Input;
  readonly met: Met;
}

/** Doors whose error table has 502 and 504: they call a partner while the caller waits. */
const forwards = /^(POST|PUT) .*(\/authorize|\/commands\/:command|\/commands\/callback\/:command_id)$/;
/** Operators' doors that call a partner, and say so when it fails. */
const calls = /^POST \/parties\/\{id\}\/(probe|connect|check|pull\/\w+)$/;

/** What is wrong with the answers to one input; empty when nothing is. [TEST-HOSTILE-ORACLE-1, TEST-HOSTILE-ORACLE-2, TEST-HOSTILE-ORACLE-4] */
export function offences({ input, met }: Trial): string[] {
  const found = met.answers.flatMap((answer) => answerOffences(input, answer));
  if (met.hung) found.push('no answer');
  // A body that nobody reads makes the hub's end of a connection a reset: the head alone may have come.
  if (input.isWhole && met.answers.length === 0 && !/^HTTP\/1\.1 \d{3} /.test(met.rest))
    found.push(`the connection ended without an answer: ${met.rest.slice(0, 80)}`);
  const sent = JSON.stringify(Buffer.concat(input.wire.parts).toString('latin1', 0, 160));
  return found.map((what) => `#${input.n} ${input.title} (${sent}): ${what}`);
}

function answerOffences(input: Input, answer: WireAnswer): string[] {
  const { status, text, headers } = answer;
  const found: string[] = [];
  if (status >= 500 && !isDocumented(input, answer)) found.push(`HTTP ${status} ${text.slice(0, 200)}`);
  if (/node_modules|\n\s+at |\.[jt]s:\d/.test(text)) found.push(`its inside shows: ${text.slice(0, 300)}`);
  const form = formOf(input, answer);
  if (form !== null && !isBodiless(input, answer) && !form(answer)) {
    found.push(`HTTP ${status} in another form: ${headers.get('content-type')} ${text.slice(0, 200)}`);
  }
  return found;
}

function isDocumented({ door }: Input, { status, headers }: WireAnswer): boolean {
  if (status === 503) return headers.has('retry-after');
  return (status === 502 || status === 504) && (forwards.test(door) || (status === 502 && calls.test(door)));
}

const isBodiless = ({ wire }: Input, { status, text }: WireAnswer) =>
  text === '' && (status === 204 || wire.methods.includes('HEAD'));

type Form = (answer: WireAnswer) => boolean;

/** What never became a request has no path; its answer is an envelope that closes the connection. [http-server, TEST-HOSTILE-ORACLE-2] */
function formOf({ target }: Input, answer: WireAnswer): Form | null {
  const path = target.replace(/^https?:\/\/[^/?#]*/, '').split(/[?#]/)[0] ?? '';
  if (/^\/ocpi(\/|$)/.test(path)) return isEnvelope;
  if (/^\/admin\/v1(\/|$)/.test(path) && answer.status >= 400) return (found) => isProblem(found) || isUnread(found);
  return null;
}

function fieldsOf({ text }: WireAnswer): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

const isEnvelope: Form = (answer) => {
  const { status_code: code, timestamp } = fieldsOf(answer);
  return (
    Number.isInteger(code) &&
    typeof timestamp === 'string' &&
    /^application\/json\b/.test(answer.headers.get('content-type') ?? '')
  );
};

const isProblem: Form = (answer) => {
  const { type, title, status } = fieldsOf(answer);
  const isTyped = answer.headers.get('content-type')?.startsWith('application/problem+json') === true;
  return isTyped && typeof type === 'string' && typeof title === 'string' && status === answer.status;
};

const isUnread: Form = (answer) =>
  [400, 408, 431].includes(answer.status) && isEnvelope(answer) && answer.headers.get('connection') === 'close';

/**
 * Whether what was sent may have been taken: told by its answer, or unknown because nobody waited for it, or because what came
 * behind it on the connection was answered first.
 */
function isTaken({ input, met }: Trial): boolean {
  if (met.answers.length === 0 || (!input.isWhole && met.answers.some(isUnread))) return true;
  return met.answers.some((answer) => {
    if (answer.status >= 500) return true;
    const { status_code: code } = fieldsOf(answer);
    return code === undefined ? answer.status < 300 : Number(code) >= 1000 && Number(code) < 2000;
  });
}

/** Correlation ids under which the hub may have recorded something for a trial. */
function idsOf({ input, met }: Trial): string[] {
  const echoed = met.answers.map(({ headers }) => headers.get('x-correlation-id') ?? '');
  return [input.correlationId ?? '', ...echoed].filter(Boolean);
}

export interface RecordedEvent {
  readonly seq: number;
  readonly type: string;
  readonly correlation_id: string | null;
  readonly data: unknown;
}

/**
 * Events that go back to a refused request, or to none. [TEST-HOSTILE-ORACLE-3] Whoever sends another id and does not wait for the answer cannot be
 * told from its event: for each such trial one id is let pass. `known` are ids of what was taken, to which these are added: a job
 * that was begun earlier may end among these events.
 */
export function strayEvents(trials: readonly Trial[], events: readonly RecordedEvent[], known: Set<string>): string[] {
  const [taken, refused] = [trials.filter(isTaken), trials.filter((trial) => !isTaken(trial))];
  for (const id of taken.flatMap(idsOf)) known.add(id);
  const authors = new Map(refused.flatMap((trial) => idsOf(trial).map((id) => [id, trial] as const)));
  const strays = new Map<string, string>();
  for (const { correlation_id: id, type, seq } of events) {
    // A refused push is noted in the report of its partner, and changes nothing.
    if (id === null || known.has(id) || type === 'push.refused' || type === 'audit.noted') continue;
    const author = authors.get(id)?.input;
    strays.set(id, `${type} at ${seq} from ${author ? `refused #${author.n} ${author.title}` : `nobody (${id})`}`);
  }
  const unknown = taken.filter((trial) => idsOf(trial).length === 0).length;
  return strays.size > unknown ? [...strays.values()] : [];
}
