/** A simulated CPO and eMSP that talk to each other directly: each takes the other for its hub. */
import { type Cpo, type CpoOptions, startCpo } from '../../src/sandbox/cpo.ts';
import { type Emsp, startEmsp } from '../../src/sandbox/emsp.ts';

type Tap = { teardown(fn: () => unknown): void };

export async function pair(test: Tap, options: Partial<CpoOptions> = {}): Promise<{ cpo: Cpo; emsp: Emsp }> {
  const emspOptions = { country_code: 'DE', party_id: 'EMS', hubUrl: '', ...options };
  const emsp = await startEmsp(emspOptions);
  const cpo = await startCpo({ country_code: 'NL', party_id: 'CPO', ...options, hubUrl: emsp.url });
  emspOptions.hubUrl = cpo.url;
  cpo.line.token = emsp.ownTokens[0] ?? '';
  emsp.line.token = cpo.ownTokens[0] ?? '';
  test.teardown(() => Promise.all([cpo.close(), emsp.close()]));
  return { cpo, emsp };
}
