/** The error table of the interface, row by row, as the refusals that are sent. */
import { type ErrorCode, HubError, type HubErrorDetail } from '../../src/domain/errors.ts';
import { refusal, statusTable } from '../../src/transport/status-codes.ts';
import { t } from '../support/tap.ts';

const unknown = { allowed: 'UNKNOWN' };

const rows: [code: ErrorCode, detail: HubErrorDetail, http: number, ocpi: number, message: string, data?: unknown][] = [
  ['authorizeTimeout', { side: 'CPO' }, 504, 4002, 'CPO authorize timeout', unknown],
  ['authorizeTimeout', { side: 'eMSP' }, 504, 4002, 'eMSP authorize timeout', unknown],
  ['authorizeUnavailable', { side: 'CPO' }, 502, 4003, 'CPO authorize unavailable', unknown],
  ['authorizeNoEndpoint', { side: 'CPO' }, 502, 4003, 'CPO tokens endpoint not configured', unknown],
  ['authorizeUnauthorized', { side: 'CPO' }, 502, 4003, 'CPO authorize unauthorized', unknown],
  ['authorizeNotFound', { side: 'eMSP' }, 502, 4003, 'eMSP authorize not found', unknown],
  ['authorizeRejected', { side: 'CPO' }, 502, 4003, 'CPO authorize rejected', unknown],
  ['authorizeIncomplete', { side: 'CPO' }, 502, 4003, 'CPO authorize response incomplete', unknown],
  ['notRouted', {}, 403, 2000, 'Not routed'],
  ['locationNotFound', {}, 404, 2003, 'Location not found'],
  ['commandTimeout', {}, 502, 2000, 'CPO command forward timed out'],
  ['commandUnavailable', {}, 502, 2000, 'CPO command forward unavailable'],
  ['commandUnauthorized', {}, 502, 2000, 'CPO command forward unauthorized'],
  ['commandNotFound', {}, 502, 2000, 'CPO command forward not found'],
  ['commandRejected', {}, 502, 2000, 'CPO command rejected'],
  ['commandFailed', {}, 502, 2000, 'CPO command forward failed'],
  ['invalidToken', {}, 401, 2000, 'Invalid token'],
  ['callbackForwardFailed', {}, 502, 2000, 'Failed to forward command callback to eMSP'],
  ['callbackForwardTimeout', {}, 502, 2000, 'Failed to forward command callback to eMSP: timed out'],
  ['notFound', {}, 404, 2003, 'Not found'],
  [
    'invalid',
    { message: 'date_from: expected RFC 3339 date-time' },
    200,
    2001,
    'date_from: expected RFC 3339 date-time',
  ],
  ['partnerUnusable', {}, 200, 3001, "Unable to use the client's API"],
  ['hostChangeWaits', {}, 200, 3001, 'change of host waits for the hub operator'],
  ['loop', {}, 508, 3000, 'The request comes from this hub'],
  ['versionUnsupported', {}, 200, 3002, 'No mutual version'],
  ['endpointsMissing', {}, 200, 3003, 'Credentials module missing in the version details'],
  ['notRegistered', {}, 405, 2000, 'Not registered'],
  ['alreadyRegistered', {}, 405, 2000, 'Already registered'],
  ['rateLimited', {}, 429, 2901, 'Rate limited'],
  ['quotaExceeded', {}, 429, 2901, 'Quota of the day is used up'],
  ['objectsExceeded', {}, 429, 2901, 'Quota of objects is used up'],
  ['pathNotFound', {}, 404, 2000, 'Not found'],
  ['methodNotAllowed', {}, 405, 2000, 'Method not allowed'],
  ['unknownCommand', {}, 404, 2000, 'Unknown command'],
  ['notJson', {}, 400, 2001, 'Body is not valid JSON'],
  ['tooDeep', {}, 400, 2001, 'Body is nested too deeply'],
  ['tooLarge', {}, 413, 2000, 'Body is too large'],
  ['tooFragmented', {}, 413, 2000, 'Body is in too many pieces'],
  ['unsupportedMediaType', {}, 415, 2000, 'Content-Type must be application/json'],
  ['cpoOnly', {}, 403, 2000, 'CPO-only endpoint'],
  ['emspOnly', {}, 403, 2000, 'eMSP-only endpoint'],
  ['internal', {}, 500, 3000, 'Internal error'],
  ['unavailable', {}, 503, 3000, 'Temporarily unavailable'],
  ['outcomeUnknown', {}, 503, 3000, 'Whether it was stored is unknown'],
  ['conflict', {}, 409, 2000, 'Conflict'],
];

t.test(
  'each refusal has the HTTP status, OCPI status and message of the error table [interface, Errors]',
  async (t) => {
    for (const [code, detail, http, ocpi, message, data] of rows) {
      const { retryAfterS: _, ...sent } = refusal(new HubError(code, detail));
      t.same(sent, { http, ocpi, message, ...(data === undefined ? {} : { data }) }, code);
    }
  },
);

t.test('every refusal of the table is tested', async (t) => {
  const tested = new Set(rows.map(([code]) => code));
  t.same(
    Object.keys(statusTable).filter((code) => !tested.has(code as ErrorCode)),
    [],
  );
});

t.test('429 and 503 always have Retry-After, in whole seconds [D2]', async (t) => {
  t.equal(refusal(new HubError('rateLimited', { retryAfterS: 12.2 })).retryAfterS, 13);
  t.equal(refusal(new HubError('unavailable')).retryAfterS, 1);
  t.equal(refusal(new HubError('notFound')).retryAfterS, undefined);
});

t.test('a refusal may have data of its own', async (t) => {
  const data = { allowed: 'UNKNOWN', info: { language: 'en', text: 'later' } };
  t.same(refusal(new HubError('authorizeTimeout', { data })).data, data);
});
