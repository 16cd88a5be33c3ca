/** Load and receivers: what stands around the measured system. */
import { type BenchProcess, cpuS, startPart } from './processes.ts';
import type { ReceiverReady } from './receiver.ts';
import { type Spread, spread } from './statistics.ts';

export interface Around {
  readonly load: BenchProcess<unknown>;
  readonly receiver: BenchProcess<ReceiverReady>;
  readonly end: () => Promise<void>;
}

/** One process of load, and one of receivers that stands for so many partners, by TLS or plain. */
export async function startAround(partners: number, isTls = false): Promise<Around> {
  const [load, receiver] = await Promise.all([
    startPart<unknown>('load', 'around'),
    startPart<ReceiverReady>('receiver', 'around', { partners, isTls }),
  ]);
  return { load, receiver, end: async () => void (await Promise.all([load.end(), receiver.end()])) };
}

/** Starts a watch; what it gives says which part of one core load and receivers took since, 0…1. */
export function watchAround({ load, receiver }: Around): () => number {
  const [cpuBefore, startedAt] = [cpuS(load.pid, receiver.pid), performance.now()];
  return () => (cpuS(load.pid, receiver.pid) - cpuBefore) / ((performance.now() - startedAt) / 1000);
}

/** Near 100 it is the load that was measured. */
export function aroundRow(rounds: readonly { readonly aroundShare: number }[]): Record<string, Spread> {
  return {
    'load and receivers, % of their core': spread(
      rounds.map(({ aroundShare }) => 100 * aroundShare),
      0,
    ),
  };
}
