/**
 * A hub in a process of its own for attacks: all of it is real, except that it does not feel how busy the machine is, which it shares with
 * its attackers. It does feel its heap.
 */
import { loadConfig } from '../../src/config/config.ts';
import { systemClock } from '../../src/kit/system-clock.ts';
import { startHub } from '../../src/main.ts';
import { pressureGauge } from '../../src/process-load.ts';

const pressure = pressureGauge(systemClock);
const gauge = {
  felt: () => ({ heap: pressure.felt().heap, loopDelayMs: 0, forwardingMs: 0 }),
  close: () => pressure.close(),
};
const hub = await startHub(loadConfig({ env: process.env, flags: {} }), { gauge });
process.once('SIGTERM', () => void hub.close().then(() => process.exit()));
process.stdout.write(`ocpi-hub listening on ${hub.url}\n`);
