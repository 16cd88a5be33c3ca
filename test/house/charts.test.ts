/**
 * The charts that the console draws are those of the machines. To draw them anew after a change of a machine:
 * `UPDATE_CHARTS=1 npx tap dist/test/house/charts.test.js`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import type { AnyStateMachine } from 'xstate';
import { circuitMachine } from '../../machines/circuit.ts';
import { courierMachine } from '../../machines/courier.ts';
import { partnerMachine } from '../../machines/partner.ts';
import type { DrawnKind } from '../../src/console/page/parts/charts.ts';
import { t } from '../support/tap.ts';
import { regionsOf } from './chart-graph.ts';
import { laidOut } from './chart-layout.ts';

const file = 'src/console/page/parts/charts-drawn.ts';
const head = `/** The charts of the machines, a line for each region. Written by \`test/house/charts.test.ts\`. */
import type { Chart, DrawnKind } from './charts.ts';

export const charts: Readonly<Record<DrawnKind, readonly Chart[]>> = `;
const machines: Readonly<Record<DrawnKind, AnyStateMachine>> = {
  partner: partnerMachine,
  courier: courierMachine,
  circuit: circuitMachine,
};

t.test('the chart of each machine matches the machine [CHART-1]', async (t) => {
  const lines: string[] = [];
  for (const [kind, { config }] of Object.entries(machines)) {
    const drawn = await Promise.all(regionsOf(config).map(laidOut));
    t.ok(
      drawn.every(({ states }) => states.some(({ kind }) => kind === 'state')),
      `${kind} has states`,
    );
    lines.push(`${kind}: [\n${drawn.map((chart) => `${JSON.stringify(chart)},\n`).join('')}],\n`);
  }
  const now = `${head}{\n${lines.join('')}};\n`;
  if (process.env.UPDATE_CHARTS === '1') writeFileSync(file, now);
  t.equal(readFileSync(file, 'utf8'), now);
});
