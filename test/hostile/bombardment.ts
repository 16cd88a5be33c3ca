/**
 * So many hostile inputs against one hub, in batches; after each batch it must be alive, must have recorded nothing for what it
 * refused, and must serve a valid request as ever.
 */
import { sessionBody } from '../support/bodies.ts';
import { itemsOf } from '../support/observed.ts';
import { sequenceOf } from '../support/ocpi-call.ts';
import { admin } from '../support/plain-partner.ts';
import { type Input, inputOf } from './generator.ts';
import { offences, type RecordedEvent, strayEvents, type Trial } from './oracle.ts';
import type { Scene } from './scene.ts';
import { send } from './wire.ts';

export interface BombardmentOptions {
  readonly seed: number;
  /** Which inputs of the seed. */
  readonly numbers: readonly number[];
}

export interface BombardmentResult {
  readonly inputs: number;
  readonly answers: number;
  /** Answers by their status. */
  readonly byStatus: ReadonlyMap<number, number>;
  /** Inputs that were taken all the same: what was bent did not matter. */
  readonly recorded: number;
  /** Everything that must not be, as sentences. */
  readonly offences: readonly string[];
  /** Largest resident memory seen, MiB. */
  readonly residentMaxMb: number;
}

const batchSize = 100;
const connections = 8;
const offencesMax = 50;

export async function bombard(
  scene: Scene,
  { seed, numbers }: BombardmentOptions,
  progress: (done: number, wrong: number) => void = () => {},
): Promise<BombardmentResult> {
  const byStatus = new Map<number, number>();
  const wrong: string[] = [];
  const taken = new Set<string>();
  let [answers, recorded, residentMaxMb] = [0, 0, 0];
  let done = 0;
  while (done < numbers.length && wrong.length < offencesMax) {
    await scene.settle();
    const before = await sequenceOf(scene.hub);
    const batch = numbers.slice(done, done + batchSize);
    const [first = 0] = batch;
    const trials = await fire(scene, seed, batch);
    done += batch.length;
    for (const { status } of trials.flatMap(({ met }) => met.answers))
      byStatus.set(status, (byStatus.get(status) ?? 0) + 1);
    answers += trials.reduce((sum, { met }) => sum + met.answers.length, 0);
    wrong.push(...trials.flatMap(offences));
    if (!isAlive(scene)) {
      wrong.push(`the hub ended within inputs ${first} to ${batch.at(-1)}: ${scene.hub.log().slice(-2_000)}`);
      break;
    }
    const events = (await itemsOf(scene.hub, `/events?after=${before}&limit=1000`)) as unknown as RecordedEvent[];
    recorded += events.length;
    wrong.push(...strayEvents(trials, events, taken), ...(await stillServes(scene, first)));
    residentMaxMb = Math.max(residentMaxMb, await residentMb(scene));
    progress(done, wrong.length);
  }
  return { inputs: done, answers, byStatus, recorded, offences: wrong, residentMaxMb };
}

async function fire(scene: Scene, seed: number, numbers: readonly number[]): Promise<Trial[]> {
  const trials: Trial[] = [];
  const left = numbers.values();
  const worker = async () => {
    for (const n of left) {
      const input: Input = inputOf(seed, n, scene.actors);
      trials.push({ input, met: await send(scene.hub.url, input.wire) });
    }
  };
  await Promise.all(Array.from({ length: connections }, worker));
  return trials;
}

/** Signal 0 is sent to nobody: it asks whether the process is there. */
function isAlive({ hub }: Scene): boolean {
  try {
    return process.kill(hub.pid, 0);
  } catch {
    return false;
  }
}

/** What a valid request to each side meets; empty when it is served. */
async function stillServes({ cpo, emsp, hub }: Scene, n: number): Promise<string[]> {
  const id = `VALID${n}`;
  const put = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id));
  const read = await emsp.call('GET', `/2.2.1/sessions/NL/CPO/${id}`);
  const status = await admin(hub, 'GET', '/status');
  const found = [put, read].filter(({ status: http, json }) => http !== 200 || json.status_code !== 1000);
  if (status.ready !== true) return [`after input ${n} the hub is not ready: ${JSON.stringify(status)}`];
  return found.map(({ text }) => `after input ${n} a valid request met ${text}`);
}

async function residentMb({ hub }: Scene): Promise<number> {
  const answer = await fetch(`${hub.url}/metrics`, { headers: { Authorization: `Bearer ${hub.adminToken}` } });
  const bytes = /^process_resident_memory_bytes (\S+)$/m.exec(await answer.text())?.[1];
  return Number(bytes) / 2 ** 20;
}
