/**
 * S1: what TLS costs on both sides: durable pushes of sessions over kept connections, each forwarded to one receiver, closed loop, on a hub
 * that speaks TLS with senders and receiver and on one that speaks plain HTTP with them, in turns.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { testCert, testKey } from '../support/tls.ts';
import { type Around, aroundRow, startAround } from './around.ts';
import type { Bench } from './run.ts';
import { ownDirectory } from './scene.ts';
import { ratios, rounded } from './statistics.ts';
import { hubSystem, inFlight, type PushSystem, pushRound, type Round, warmUp } from './systems.ts';
import { type Column, inTurns, onMainThread, rowsOf, shareOfCore } from './turns.ts';

const connections = 64;

const columns: readonly Column<Round>[] = [
  ['pushes per second', ({ perS }) => perS, 0],
  ['CPU per push, µs', ({ cpuMicros }) => cpuMicros, 0],
  onMainThread,
  shareOfCore,
  ['forwarded in the end, %', ({ forwarded }) => 100 * forwarded, 1],
  ['answered p95, ms', ({ answers }) => answers.p95Ms, 1],
];

interface Way {
  readonly name: string;
  readonly around: Around;
  readonly system: PushSystem;
}

export const encrypted: Bench = {
  name: 'tls',
  goal: 'S1',
  says: `durable pushes with forward, ${connections} kept connections, by TLS with sender and receiver and by plain HTTP`,
  async run(progress, { isShort }) {
    const [turns, seconds] = isShort ? [3, 1.5] : [7, 3];
    const { directory, remove } = ownDirectory();
    const [HUB_TLS_CERT, HUB_TLS_KEY] = [join(directory, 'cert.pem'), join(directory, 'key.pem')];
    writeFileSync(HUB_TLS_CERT, testCert);
    writeFileSync(HUB_TLS_KEY, testKey, { mode: 0o600 });
    const tls = { HUB_TLS_CERT, HUB_TLS_KEY, NODE_EXTRA_CA_CERTS: HUB_TLS_CERT };
    const wayOf = async (name: string, isTls: boolean): Promise<Way> => {
      const around = await startAround(1, isTls);
      const env = { HUB_DELIVERY_CONCURRENCY: String(inFlight), ...(isTls && tls) };
      const system = await hubSystem(around.receiver.ready.urls[0] ?? '', [], env);
      await warmUp([{ ...system, name }], around, { isShort, progress });
      return { name, around, system };
    };
    const ways = [await wayOf('TLS', true), await wayOf('plain', false)];
    const measured = await inTurns(ways, turns, async ({ name, around, system }, turn) => {
      const round = await pushRound(system, around, { connections, seconds });
      const said = `${rounded(round.perS, 0)} pushes/s, ${rounded(round.cpuMicros, 0)} µs of CPU each`;
      progress(`round ${turn} of ${turns}, ${name}: ${said}`);
      return round;
    });
    await Promise.all(ways.flatMap(({ around, system }) => [system.end(), around.end()]));
    remove();
    const [byTls = [], byPlain = []] = ways.map((way) => measured.get(way) ?? []);
    const cpu = (rounds: readonly Round[]) => rounds.map(({ cpuMicros }) => cpuMicros);
    return {
      ...Object.assign({}, ...[...measured].map(([{ name }, rounds]) => rowsOf(name, rounds, columns))),
      'ratio of CPU per push, TLS to plain (goal: at most 1.3)': ratios(cpu(byTls), cpu(byPlain)),
      ...aroundRow([...byTls, ...byPlain]),
    };
  },
};
