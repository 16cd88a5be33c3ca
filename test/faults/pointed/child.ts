/**
 * A hub that kills itself when it comes by a point of its store for the n-th time. Run with what `Pointed` says, as JSON; its clock goes on to
 * `jumpTo` at SIGUSR2.
 */
import { loadConfig } from '../../../src/config/config.ts';
import { facesOf } from '../../../src/kit/clock.ts';
import { systemClock } from '../../../src/kit/system-clock.ts';
import { startHub } from '../../../src/main.ts';
import type { Pointed } from '../points.ts';

const { point, nth, shiftMs = 0, jumpTo = 0 } = JSON.parse(process.argv[2] ?? '{}') as Pointed;
let shift = shiftMs;
let left = nth;
const onPoint = (name: string) => {
  if (name !== point) return;
  left -= 1;
  if (left === 0) process.kill(process.pid, 'SIGKILL');
};
const now = () => Date.now() + shift;
const clock = { ...systemClock, ...facesOf(now, now) };
const hub = await startHub(loadConfig({ env: process.env, flags: {} }), { onPoint, clock });
process.once('SIGUSR2', () => {
  shift = Math.max(shift, jumpTo - Date.now());
});
console.log(`ocpi-hub listening on ${hub.url}`);
process.once('SIGTERM', () => hub.close().then(() => process.exit(0)));
