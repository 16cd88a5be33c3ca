/** A heap of some 80 MiB that has been swept as a gauge of pressure would have it; says what was asked for. */
import { systemClock } from '../../src/kit/system-clock.ts';
import { growthPercent, pressureGauge } from '../../src/process-load.ts';

const gauge = pressureGauge(systemClock);
const kept = Array.from({ length: 1_500_000 }, (_, n) => ({ n }));
// Each sweep is told of in a later turn, and applied by the next one.
for (let sweep = 0; sweep < 4; sweep++) {
  globalThis.gc?.();
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
}
console.log(`\ntold ${JSON.stringify({ percent: growthPercent(process.memoryUsage().heapUsed), kept: kept.length })}`);
gauge.close();
process.exit(0);
