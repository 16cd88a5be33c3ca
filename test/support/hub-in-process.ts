/**
 * A whole hub inside the test's process: real sockets, real LevelDB, for tests that replace the clock or look inside.
 */
import { loadConfig } from '../../src/config/config.ts';
import type { Clock } from '../../src/kit/clock.ts';
import { type Replaced, type RunningHub, startHub } from '../../src/main.ts';
import type { HubAddress } from './caller.ts';
import { directoryFor } from './directory.ts';
import { admin, endAdmin, type PlainPartner, type PlainPartnerOptions, plainPartner } from './plain-partner.ts';
import { SimulatedClock } from './simulated-clock.ts';
import type { Test } from './tap.ts';
import { type Holder, UnderWay } from './under-way.ts';

/** How busy the machine is decides nothing in a test that is not about load. */
export const calmGauge = { felt: () => ({ heap: 0, loopDelayMs: 0, forwardingMs: 0 }), close() {} };

/** One for all hubs of a process: it is derived once. A hub in a process of its own has another unless it is given this one. */
export const secretKey = 'a-key-of-hubs-of-tests';

/** Lines of a hub's log that are kept for a test that fails. */
const linesMax = 100;

export interface TestHub extends RunningHub {
  /** Resolves when nothing is under way in it but what these partners hold. */
  settled(...holders: readonly Holder[]): Promise<void>;
  /** Those that registered with it. */
  readonly partners: PlainPartner[];
}

/** Writing the usual 8 MiB takes longer than all else of a start. */
const ballastBytes = 64 * 1024;

const same = <Port>(port: Port): Port => port;

/** Starts a hub on a directory of the test and closes it when the test ends. */
export async function hubFor(
  t: Pick<Test, 'teardown' | 'passing' | 'comment'>,
  env: Readonly<Record<string, string>> = {},
  replaced: Replaced = {},
  dataDir: string = directoryFor(t),
): Promise<TestHub> {
  // Longer than what tests with a simulated clock let pass while they hold a call back.
  const limitMs = replaced.clock ? 86_400_000 : 30_000;
  const config = loadConfig({
    env: {
      ...{ HUB_PORT: '0', HUB_DATA_DIR: dataDir, HUB_LOG_LEVEL: 'warn' },
      HUB_SECRET_KEY: secretKey,
      // What a test holds back is not cut because the machine is slow, and many exchanges are no attack.
      ...{ HUB_DELIVERY_TIMEOUT_MS: String(limitMs), HUB_RATE_EXCHANGES_PER_MIN: '1000000' },
      // Nor are many refusals.
      ...{ HUB_RATE_UNAUTHENTICATED_PER_S: '1000000', HUB_RATE_FAILED_TOKENS_PER_S: '1000000' },
      ...env,
    },
    flags: {},
  });
  const underWay = new UnderWay();
  const lines: string[] = [];
  const logTo = { write: (line: string) => void (lines.push(line) > linesMax && lines.shift()) };
  const { clock } = underWay;
  // What a test replaces of the ports is in front: what it lets through is counted.
  const wrap: NonNullable<Replaced['wrap']> = (port) => (replaced.wrap ?? same)(underWay.wrap(port));
  t.teardown(() => {
    if (!t.passing() && lines.length > 0) t.comment(`the hub's last lines:\n${lines.join('')}`);
  });
  const own = { connectMs: limitMs, headMs: limitMs, gauge: calmGauge, ballastBytes, clock, logTo };
  const running = await startHub(config, { ...own, ...replaced, wrap });
  const hub: TestHub = {
    ...running,
    partners: [],
    settled: (...holders: readonly Holder[]) => underWay.settled(...holders),
  };
  t.teardown(async () => {
    endAdmin(hub);
    await closed(hub, replaced.clock);
  });
  return hub;
}

/** What is in flight at the end is cut after a grace, which passes on a simulated clock only when somebody lets it. */
export async function closed(hub: RunningHub, clock: Clock | undefined): Promise<void> {
  let isClosed = false;
  const closing = hub.close().finally(() => {
    isClosed = true;
  });
  while (clock instanceof SimulatedClock && !isClosed) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    clock.advance(1_000);
  }
  return closing;
}

/** A registered partner, closed when the test ends. */
export async function partnerFor(
  t: Pick<Test, 'teardown'>,
  hub: HubAddress | TestHub,
  options: PlainPartnerOptions,
  settings: object = {},
): Promise<PlainPartner> {
  const partner = await plainPartner(options);
  t.teardown(() => partner.close());
  if ('partners' in hub) hub.partners.push(partner);
  await partner.register(hub, settings);
  return partner;
}

/** CPO NL-CPO and eMSP NL-EMS, registered and routed. */
export async function routedPair(
  t: Test,
  hub: HubAddress | TestHub,
  answers: { cpo?: PlainPartnerOptions['answer']; emsp?: PlainPartnerOptions['answer'] } = {},
): Promise<{ cpo: PlainPartner; emsp: PlainPartner }> {
  const names = { countryCode: 'NL' } as const;
  const cpo = await partnerFor(t, hub, {
    ...{ ...names, role: 'CPO', partyId: 'CPO' },
    ...(answers.cpo && { answer: answers.cpo }),
  });
  const emsp = await partnerFor(t, hub, {
    ...{ ...names, role: 'EMSP', partyId: 'EMS' },
    ...(answers.emsp && { answer: answers.emsp }),
  });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  return { cpo, emsp };
}
