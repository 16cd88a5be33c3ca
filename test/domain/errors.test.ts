/** A refusal is an error for whatever catches it, and captures no stack: a flood of requests is answered by as many refusals. */
import { circuitSign, HubError } from '../../src/domain/errors.ts';
import { t } from '../support/tap.ts';

t.test('a refusal has a message, and no stack', async (t) => {
  const refusal = new HubError('rateLimited', { message: 'too many', retryAfterS: 2 });
  t.ok(refusal instanceof Error);
  t.ok(refusal instanceof HubError);
  t.equal(refusal.stack, undefined);
  t.equal(String(refusal), 'HubError: too many');
  t.match(refusal, { code: 'rateLimited', message: 'too many', detail: { retryAfterS: 2 } });
  t.equal(new HubError('notFound').message, 'notFound');
});

t.test('a call that the hub itself cut off counts as no failure of the partner', async (t) => {
  t.equal(circuitSign({ class: 'unavailable' }), 'failure');
  t.equal(circuitSign({ class: 'unavailable', isCutOff: true }), 'neutral');
});
