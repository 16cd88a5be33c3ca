/** Visitors of servers whose tests are not about strangers: no limit is near. */
import { systemClock } from '../../src/kit/system-clock.ts';
import { createVisitors } from '../../src/transport/visitors.ts';

export const welcome = createVisitors(
  { trustedProxies: [], rateUnauthenticatedPerS: 1_000_000, rateFailedTokensPerS: 1_000_000 },
  () => systemClock.monotonic(),
);
