/**
 * Whether a receiver that hangs raises the others' latency: the same pushes to ten receivers, in turns with all of them well and with
 * one that never answers.
 */
import { locationBody } from '../support/bodies.ts';
import { admin, eventually, plainPartner } from '../support/plain-partner.ts';
import type { Bench } from './run.ts';
import { scene } from './scene.ts';
import { median, quantile, rounded } from './statistics.ts';

const others = 9;
const rounds = 10;
const pushesPerRound = 200;
const everyMs = 8;

export const hang: Bench = {
  name: 'hang',
  says: 'latency from push to the other receivers while one receiver hangs',
  async run(progress) {
    const { hub, end } = await scene({ HUB_DELIVERY_TIMEOUT_MS: '2000' });
    const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
    let hangs = false;
    const stuck: (() => void)[] = [];
    const ill = await plainPartner({
      ...{ role: 'EMSP', countryCode: 'NL', partyId: 'ILL' },
      answer: () => (hangs ? new Promise((resolve) => stuck.push(() => resolve({ isCut: true }))) : {}),
    });
    const pushedAt = new Map<string, number>();
    let latencies: number[] = [];
    const well = await Promise.all(
      Array.from({ length: others }, (_, n) =>
        plainPartner({
          ...{ role: 'EMSP', countryCode: 'NL', partyId: `E${n}` },
          answer: ({ path }) => {
            const at = pushedAt.get(path.split('/').at(-1) ?? '');
            if (at !== undefined) latencies.push(performance.now() - at);
            return {};
          },
        }),
      ),
    );
    for (const partner of [cpo, ill, ...well]) await partner.register(hub);
    for (const { id } of [ill, ...well]) await admin(hub, 'PUT', `/routes/${id}/NL-CPO`, { active: true });

    const p50: Record<'well' | 'hanging', number[]> = { well: [], hanging: [] };
    const p95: Record<'well' | 'hanging', number[]> = { well: [], hanging: [] };
    for (let round = -1; round < rounds; round++) {
      hangs = round % 2 !== 0;
      latencies = [];
      const pushes: Promise<unknown>[] = [];
      for (let n = 0; n < pushesPerRound; n++) {
        const id = `R${round}-${n}`;
        pushedAt.set(id, performance.now());
        pushes.push(cpo.call('PUT', `/2.2.1/locations/NL/CPO/${id}`, locationBody(id)));
        await new Promise((resolve) => setTimeout(resolve, everyMs));
      }
      await Promise.all(pushes);
      await eventually('the others have everything', () => latencies.length >= pushesPerRound * others);
      const kind = hangs ? 'hanging' : 'well';
      if (round >= 0) {
        p50[kind].push(median(latencies));
        p95[kind].push(quantile(latencies, 0.95));
      }
      progress(`round ${round + 1} of ${rounds}, ${kind}: median ${rounded(median(latencies))} ms`);
      hangs = false;
      for (const cut of stuck.splice(0)) cut();
    }
    await end();
    await Promise.all([cpo, ill, ...well].map((partner) => partner.close()));
    return {
      'pushes a round, each to nine receivers that are well': pushesPerRound,
      'rounds of each kind, in turns': rounds / 2,
      'median latency with all well, ms': rounded(median(p50.well)),
      'median latency with one hanging, ms': rounded(median(p50.hanging)),
      'ratio of the medians, hanging to well': rounded(median(p50.hanging) / median(p50.well)),
      'p95 with all well, ms': rounded(median(p95.well)),
      'p95 with one hanging, ms': rounded(median(p95.hanging)),
    };
  },
};
