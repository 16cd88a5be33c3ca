/** A hub on a Node that gets no security fixes any more says so at its start, in its log and on a terminal. */
import { readFileSync } from 'node:fs';
import { whereNext } from '../../src/cli/serve.ts';
import { advised, endOfNode, lastDays } from '../../src/node-release.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const clockAt = (at: string) => new SimulatedClock(at);

t.test('[NODE-RELEASE-1] a release has ended on the day after its last one', async (t) => {
  for (const [version, at, isOver] of [
    ['20.18.0', '2026-04-30T23:59:59Z', false],
    ['20.18.0', '2026-05-01T00:00:00Z', true],
    ['22.23.3', '2026-11-25T00:00:00Z', false],
    ['22.23.3', '2027-05-01T00:00:00Z', true],
    ['23.0.0', '2026-11-25T00:00:00Z', true],
    ['24.21.0', '2028-04-30T12:00:00Z', false],
    ['24.21.0', '2028-05-01T00:00:00Z', true],
    ['99.0.0', '2099-01-01T00:00:00Z', false],
  ] as const) {
    t.equal(endOfNode(version, clockAt(at)) !== null, isOver, `${version} at ${at}`);
  }
  t.equal(
    endOfNode('20.20.2', clockAt('2026-06-01T00:00:00Z')),
    'Node 20.20.2 gets no security fixes since 2026-04-30: install Node 24',
  );
});

t.test('a start warns in the log, by the clock of the hub, and on a terminal', async (t) => {
  const [major = ''] = process.versions.node.split('.');
  const lastDay = lastDays[major];
  if (lastDay === undefined) throw new Error(`the table has no Node ${major}`);
  for (const [at, warned] of [
    [`${lastDay}T12:00:00Z`, []],
    [new Date(Date.parse(lastDay) + 86_400_000).toISOString(), [{ level: 'warn', node: process.versions.node }]],
  ] as const) {
    const lines: string[] = [];
    await hubFor(t, {}, { clock: clockAt(at), logTo: { write: (line: string) => void lines.push(line) } });
    const said = lines.filter((line) => line.includes('no security fixes')).map((line) => JSON.parse(line) as object);
    t.match(said, warned, at);
    t.equal(said.length, warned.length);
  }
  const config = { publicUrl: null, operators: null, adminToken: null, dataDir: 'data' };
  const told = (at: string) => whereNext('http://127.0.0.1:8080', config, '24.21.0', clockAt(at)).split('\n');
  t.equal(told('2028-04-30T12:00:00Z').length, 2);
  t.match(told('2028-05-01T12:00:00Z')[2], /^ {2}warning {6}Node 24\.21\.0 gets no security fixes since 2028-04-30/);
});

t.test('the container and the README use the recommended Node, and the package accepts older ones', async (t) => {
  t.match(readFileSync('Dockerfile', 'utf8'), new RegExp(`^ARG NODE_IMAGE=node:${advised}\\.`, 'm'));
  t.match(readFileSync('README.md', 'utf8'), `Node ${advised}`);
  const { engines } = JSON.parse(readFileSync('package.json', 'utf8')) as { engines: { node: string } };
  t.equal(engines.node, '>=20.18');
});
