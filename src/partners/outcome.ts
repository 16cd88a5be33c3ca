/**
 * Classifies the result of a call by the table "Outcome of an attempt": HTTP status, envelope or error in; outcome
 * class and one sentence for people out. Pure: no I/O.
 */
import { STATUS_CODES } from 'node:http';
import type { Outcome, OutcomeClass } from '../domain/errors.ts';
import { enumValue, isDigits, type Quirk } from '../domain/quirks.ts';
import type { OutboundCall } from '../hub/ports/ports.ts';
import { memoized } from '../kit/memo.ts';
import { parsedUrl } from '../kit/url.ts';
import { type Envelope, readEnvelope, readRaw, readStatus, soleObject, soleObjectText } from '../transport/envelope.ts';
import { writeAuthorization } from '../transport/headers.ts';
import type { Answer, Met, NoAnswer, TooLarge } from './wire/exchange.ts';

type Verdict = Pick<Outcome, 'class' | 'message'> &
  Partial<Pick<Outcome, 'ocpiStatus' | 'data' | 'dataText' | 'retryAfterMs' | 'quirks'>>;

const retryAfterMaxMs = 15 * 60_000;
const excerptMax = 512;
const mebibyte = 1024 * 1024;

/** HTTP statuses that differ from the class of their hundred. */
const statusClasses: Readonly<Record<number, OutcomeClass>> = {
  401: 'auth_error',
  403: 'auth_error',
  404: 'not_found',
  408: 'unavailable',
  410: 'not_found',
  425: 'unavailable',
  429: 'throttled',
};

/**
 * Class per hundred of all other statuses but 2xx. Redirects that arrive here are those that the client does not
 * follow.
 */
const hundredClasses: Readonly<Record<number, OutcomeClass>> = {
  3: 'invalid_response',
  4: 'client_error',
  5: 'unavailable',
};

/** Class per thousand of the OCPI status; any other number is not an OCPI status. */
const ocpiClasses: Readonly<Record<number, OutcomeClass>> = {
  1: 'delivered',
  2: 'client_error',
  3: 'unavailable',
  4: 'unavailable',
};

const ocpiClassOf = (statusCode: number): OutcomeClass =>
  ocpiClasses[Math.floor(statusCode / 1000)] ?? 'invalid_response';

/** Error codes with a class of their own; all others are `unavailable`. */
const errorClasses: Readonly<Record<string, OutcomeClass>> = {
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
  UND_ERR_BODY_TIMEOUT: 'timeout',
  ETIMEDOUT: 'timeout',
  UND_ERR_HEADERS_OVERFLOW: 'invalid_response',
};

const errorSentences: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'The partner refused the connection',
  ECONNRESET: 'The partner reset the connection',
  EPIPE: 'The partner closed the connection while the request was sent',
  ENOTFOUND: 'The name of the partner does not resolve',
  EAI_AGAIN: 'The name of the partner could not be resolved at the moment',
  EHOSTUNREACH: 'The partner is unreachable',
  ENETUNREACH: 'The partner is unreachable',
  UND_ERR_CONNECT_TIMEOUT: 'No connection to the partner came about in time',
  ETIMEDOUT: 'No connection to the partner came about in time',
  UND_ERR_SOCKET: 'The partner closed the connection before its answer was complete',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH:
    'The answer is shorter or longer than it announced, or announced its length twice',
  UND_ERR_HEADERS_OVERFLOW: 'The headers of the answer are too large',
  UND_ERR_CLOSED: 'The hub is shutting down',
  UND_ERR_DESTROYED: 'The hub is shutting down',
};

/** The outcome of a call. `now` is epoch ms, for a `Retry-After` that is a date. */
export function outcomeOf(met: Met, call: OutboundCall, durationMs: number, now: number): Outcome {
  const verdict = met.kind === 'answer' ? ofAnswer(met, call, now) : ofNoAnswer(met);
  return {
    httpStatus: met.status,
    ocpiStatus: null,
    ...verdict,
    excerpt: met.kind === 'answer' ? excerptOf(met.text, call) : '',
    durationMs,
    ...(met.kind === 'answer' && withQuirks(met.quirks, verdict.quirks)),
    ...(met.kind === 'answer' && met.isResent && { isResent: true }),
    ...(met.kind === 'failed' && met.isStale && { isStale: true }),
    ...((met.kind === 'failed' || met.kind === 'timeout') && !met.isSent && { isUnsent: true }),
    ...(met.kind === 'failed' && met.error?.code === 'UND_ERR_DESTROYED' && { isCutOff: true }),
  };
}

/** An outcome without quirks, which is nearly every one, has no such member. */
function withQuirks(met: readonly Quirk[], read: readonly Quirk[] = []): Pick<Outcome, 'quirks'> {
  const quirks = read.length === 0 ? met : [...met, ...read];
  return quirks.length === 0 ? {} : { quirks };
}

/** Removes the token from a text: a partner's error page may quote the request, in any escaping. [PARTNERS-CLIENT-4] */
function withoutToken(text: string, { token, encoding }: Pick<OutboundCall, 'token' | 'encoding'>): string {
  if (token === '' || text === '') return text;
  const known = formsOf[encoding](token);
  return known.any.test(text) ? known.forms.reduce((rest, form) => rest.replaceAll(form, '…'), text) : text;
}

interface Forms {
  /** Longest first, since one form may contain another. */
  readonly forms: readonly string[];
  /** Detects any form in one pass; nearly always there is none. */
  readonly any: RegExp;
}

/** Memoized, because every answer is searched. */
const formsOf: Readonly<Record<OutboundCall['encoding'], (token: string) => Forms>> = {
  base64: memoized((token) => newForms(token, 'base64')),
  plain: memoized((token) => newForms(token, 'plain')),
};

function newForms(token: string, encoding: OutboundCall['encoding']): Forms {
  const sent = writeAuthorization(token, encoding).slice('Token '.length);
  const forms = [...new Set([token, sent].flatMap(writtenForms))].sort((a, b) => b.length - a.length);
  const escaped = forms.map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&'));
  return { forms, any: new RegExp(forms.length > 0 ? escaped.join('|') : '[]') };
}

/**
 * The forms in which a text may be quoted: plain, escaped, or base64 or hex encoded, also as part of a longer encoded
 * text.
 */
function writtenForms(text: string): string[] {
  const bytes = Buffer.from(text);
  const json = JSON.stringify(text).slice(1, -1);
  const html = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
  const within = ([0, 1, 2] as const).flatMap((before) =>
    (['base64', 'base64url'] as const).map((form) => {
      const whole = Math.floor(((bytes.length + before) * 8) / 6);
      return Buffer.concat([Buffer.alloc(before), bytes])
        .toString(form)
        .slice(Math.ceil((before * 8) / 6), whole);
    }),
  );
  const escaped = [
    json,
    json.replaceAll('/', '\\/'),
    JSON.stringify(json).slice(1, -1),
    html,
    encodeURIComponent(text),
  ];
  const hex = bytes.toString('hex');
  // Forms of up to 3 characters would match in any text.
  return [text, bytes.toString('base64'), hex, hex.toUpperCase(), ...within, ...escaped].filter(
    ({ length }) => length > 3,
  );
}

/** The beginning of an answer, without tokens, even one that the cut would have split. */
function excerptOf(text: string, call: Pick<OutboundCall, 'token' | 'encoding'>): string {
  const enough = 4 * excerptMax;
  if (text.length <= enough) return withoutToken(text, call).slice(0, excerptMax);
  // The longest form escapes every character, so a split token is within the last `half` characters, which are dropped.
  // They are far behind the excerpt, unless the text is full of tokens.
  const half = 8 * call.token.length;
  return withoutToken(text.slice(0, enough + half), call)
    .slice(0, -half || undefined)
    .slice(0, excerptMax);
}

function ofAnswer(met: Answer, call: OutboundCall, now: number): Verdict {
  const read = (call.isDelivery ? readStatus : readEnvelope)(met.text);
  const stated = read.ok ? withoutToken(read.envelope.statusMessage ?? '', call).slice(0, 200) : '';
  if (!isSuccess(met.status)) {
    const known = ofStatus(met.status, header(met.headers['retry-after']), now, leadsTo(met, call));
    const isForGood = isUnknownMethod(met.status, call);
    const verdict: Verdict = isForGood ? { ...known, class: 'client_error' } : known;
    if (!read.ok) return verdict;
    const { statusCode, data } = read.envelope;
    const message = `${verdict.message}${saying(statusCode, stated)}`;
    const said = { ...verdict, ocpiStatus: statusCode, data, message, quirks: quirksOf(read.envelope) };
    // Some servers answer every error with 400, and only the OCPI status says that it is their own.
    const isTransient = verdict.class === 'client_error' && !isForGood && ocpiClassOf(statusCode) === 'unavailable';
    return call.isDelivery && isTransient ? { ...said, class: 'unavailable' } : said;
  }
  const isEmpty = met.text.trim() === '';
  if (call.emptyOk && saysNothing(met)) {
    const without = isEmpty ? 'without a body' : 'with a body that says no more';
    return { class: 'delivered', message: `The partner answered HTTP ${met.status} ${without}`, quirks: ['empty-2xx'] };
  }
  if (isEmpty)
    return { class: 'invalid_response', message: `The partner answered HTTP ${met.status} without an envelope` };
  if (!read.ok) {
    const raw = call.oneObject === undefined ? null : readRaw(met.text, call.oneObject);
    if (raw !== null) return ofRaw(met, raw, call.oneObject);
    const encoding = encodingNote(header(met.headers['content-encoding']));
    const message = `The partner answered HTTP ${met.status}, but its ${read.reason}${encoding}`;
    return { class: 'invalid_response', message };
  }
  const { statusCode, data } = read.envelope;
  const ocpiClass = ocpiClassOf(statusCode);
  const sole = call.oneObject && ocpiClass === 'delivered' ? soleObject(data) : data;
  return {
    class: ocpiClass,
    ocpiStatus: statusCode,
    data: sole,
    ...(call.oneObject && ocpiClass === 'delivered' && { dataText: soleObjectText(met.text, data) }),
    message: `The partner answered HTTP ${met.status}${saying(statusCode, stated)}`,
    quirks: [...quirksOf(read.envelope, sole !== data), ...habitsOf(sole, call.oneObject)],
  };
}

/**
 * Whether a success has no body, or one that says no more than its status: frameworks write `OK`, `null` or `{}` for a handler that returns
 * nothing.
 */
function saysNothing({ status, text }: Answer): boolean {
  if (text.length > saidMax) return text.trim() === '';
  const said = text
    .trim()
    .replace(/^"(.*)"$/, '$1')
    .toLowerCase();
  return nothings.has(said) || said === STATUS_CODES[status]?.toLowerCase();
}

const saidMax = 64;
const nothings: ReadonlySet<string> = new Set(['', 'null', '{}', 'ok']);

/** Whether the server does not have the method, which is no matter of time. Some say 501 of PATCH; the whole object follows. [D59] */
const isUnknownMethod = (status: number, { isDelivery, method }: OutboundCall): boolean =>
  status === 405 || (status === 501 && isDelivery === true && method === 'PATCH');

/** `allowed` and `result` are enumerations, which the hub reads in either case; a `timeout` may be a text. [D17, D70] */
function habitsOf(data: unknown, field: OutboundCall['oneObject']): readonly Quirk[] {
  if (field !== 'allowed' && field !== 'result') return noQuirks;
  const { [field]: value, timeout } = (data ?? {}) as Readonly<Record<string, unknown>>;
  const isLower = value !== enumValue(value);
  const isTimed = field === 'result' && isDigits(timeout);
  if (!isLower && !isTimed) return noQuirks;
  return [...(isLower ? (['lower-case'] as const) : []), ...(isTimed ? (['timeout-text'] as const) : [])];
}

function ofRaw({ status, text }: Answer, data: unknown, field: OutboundCall['oneObject']): Verdict {
  const message = `The partner answered HTTP ${status} without an envelope around its data`;
  return { class: 'delivered', message, data, dataText: text.trim(), quirks: ['raw-answer', ...habitsOf(data, field)] };
}

function quirksOf({ isTextCode }: Envelope, isArray = false): readonly Quirk[] {
  if (!isTextCode && !isArray) return noQuirks;
  return [...(isTextCode ? (['status-code-text'] as const) : []), ...(isArray ? (['array-of-one'] as const) : [])];
}

const noQuirks: readonly Quirk[] = [];

/** Names an unrequested Content-Encoding, which may be why the answer cannot be parsed. */
const encodingNote = (encoding: string | null) =>
  encoding === null || /^(identity)?$/i.test(encoding) ? '' : ` (Content-Encoding: ${encoding.slice(0, 40)})`;

const saying = (statusCode: number, stated: string) => `, OCPI ${statusCode}${stated === '' ? '' : `: ${stated}`}`;

const header = (value: string | string[] | undefined): string | null =>
  (Array.isArray(value) ? value[0] : value) ?? null;

/** `Retry-After` in ms, from seconds or a date; undefined when absent or malformed. */
function retryAfterMs(text: string | null, now: number): number | undefined {
  if (text === null) return undefined;
  const value = text.trim();
  if (/^\d{1,10}$/.test(value)) return Math.min(Number(value) * 1000, retryAfterMaxMs);
  // Date.parse accepts almost anything; the date forms of HTTP begin with the name of a day.
  const at = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : Math.min(Math.max(at - now, 0), retryAfterMaxMs);
}

const isCertificateCode = (code: string) =>
  /^(CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_CA|PATH_LENGTH)/.test(code);

function ofError(error: NodeJS.ErrnoException | null): Verdict {
  const code = error?.code ?? '';
  if (code === 'EGRESS_REFUSED')
    return { class: 'unavailable', message: `The hub may not call this: ${error?.message}` };
  if (error?.name === 'HTTPParserError') return { class: 'invalid_response', message: 'The answer is not HTTP' };
  if (isCertificateCode(code)) return { class: 'unavailable', message: `TLS with the partner failed (${code})` };
  const sentence = errorSentences[code] ?? 'The network failed';
  return { class: errorClasses[code] ?? 'unavailable', message: code ? `${sentence} (${code})` : sentence };
}

function ofNoAnswer(met: NoAnswer | TooLarge): Verdict {
  if (met.kind === 'failed') return ofError(met.error);
  if (met.kind === 'tooLarge') {
    // An error status needs no body, so an error page of any size keeps the class of its status.
    const known = met.status === null || isSuccess(met.status) ? null : ofStatus(met.status, null, 0);
    return (
      known ?? {
        class: 'invalid_response',
        message: `The answer is larger than ${Number((met.answerMax / mebibyte).toPrecision(3))} MiB`,
      }
    );
  }
  const message =
    met.status === null ? 'The partner did not answer in time' : 'The answer did not come to its end in time';
  return { class: 'timeout', message };
}

/** Why there is no complete answer, as one sentence. */
export const noAnswerOf = (met: NoAnswer | TooLarge): string => ofNoAnswer(met).message;

const isSuccess = (status: number) => status >= 200 && status < 300;

/** Where a redirect leads, without its query, which may hold a token; empty when it does not say. */
function leadsTo({ headers }: Answer, call: OutboundCall): string {
  const url = parsedUrl(header(headers.location) ?? '', call.url);
  if (url === null || !headers.location) return '';
  return ` to ${withoutToken(`${url.origin}${url.pathname}`, call).slice(0, 200)}`;
}

function ofStatus(status: number, retryAfter: string | null, now: number, to = ''): Verdict {
  const waitMs = retryAfterMs(retryAfter, now);
  const known = statusClasses[status] ?? hundredClasses[Math.floor(status / 100)] ?? 'invalid_response';
  const throttled = known === 'throttled' || (status === 503 && waitMs !== undefined);
  const message =
    hundredClasses[Math.floor(status / 100)] === 'invalid_response'
      ? `The partner answered with a redirect${to} (HTTP ${status}), which the hub does not follow`
      : `The partner answered HTTP ${status}`;
  return {
    class: throttled ? 'throttled' : known,
    message,
    ...(throttled && waitMs !== undefined ? { retryAfterMs: waitMs } : {}),
  };
}
