/**
 * Days of all faults, and two rests that hold the same: memory, handles, timers, actors. Each day has every fault; the campaign has more
 * days, and `soak.ts` goes on for longer.
 */
import { atLength } from '../support/share.ts';
import { t } from '../support/tap.ts';
import { differences, type SoakReport, soak } from './soak.ts';

t.test('after days of faults an idle hub holds what it held before', atLength, async (t) => {
  const report = await soak({ warmUp: 2, cycles: 5 }, (cycle) => t.comment(`day ${cycle}`));
  const { before, after, counts } = report;
  t.comment(JSON.stringify({ counts, heap: [before.heapBytes, after.heapBytes], resources: after.resources }));
  t.strictSame(differences(report), []);
  t.equal(after.backlog, 0);
  const { circuit, ...others } = after.actors;
  t.strictSame(Object.keys(circuit ?? {}), ['closed'], 'circuits that once failed are closed [CIRCUITS-1]');
  t.strictSame(
    others,
    { partner: { connected: 3 }, courier: { flowing: 3 } },
    'nothing else is left but who is connected',
  );
  for (const kind of [
    'hangs',
    'cuts',
    'babbles',
    'results',
    'rotations',
    'registrations',
    'inspectors',
    'redrives',
    'pulls',
  ]) {
    t.ok((counts[kind] ?? 0) > 0, `there were ${kind}`);
  }
});

t.test('a leaked handle, timer, actor or memory would be found', async (t) => {
  const held = {
    heapBytes: 50e6,
    resources: { Timeout: 4 },
    deadlines: 3,
    actors: { partner: { connected: 3 } },
    backlog: 0,
    events: 100,
  };
  const after = (change: object): SoakReport => ({ before: held, after: { ...held, ...change }, counts: {} });
  t.strictSame(differences(after({ events: 1100, heapBytes: 54e6 })), []);
  t.strictSame(differences(after({ deadlines: 2 })), [], 'what has ended is no leak');
  for (const change of [
    { resources: { Timeout: 5 } },
    { resources: { Timeout: 4, TCPSocketWrap: 1 } },
    { deadlines: 4 },
    { actors: { partner: { connected: 3 }, command: { sent: 1 } } },
    { backlog: 1 },
    { heapBytes: 60e6 },
  ]) {
    t.equal(differences(after(change)).length, 1, JSON.stringify(change));
  }
});
