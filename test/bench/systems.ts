/**
 * The systems that take turns with a durable push: each takes `PUT …/sessions/NL/CPO/{id}`, makes it durable, answers, and forwards it to
 * one receiver.
 */
import { sessionBody } from '../support/bodies.ts';
import { admin } from '../support/plain-partner.ts';
import { type Around, watchAround } from './around.ts';
import type { ClosedLoad, LoadOutcome, OpenLoad } from './load.ts';
import type { Serving } from './part.ts';
import { type BenchProcess, type CpuMicros, coreS, cpuS, startPart, waitedMs, watchCpu } from './processes.ts';
import type { Arrivals } from './receiver.ts';
import { startRedis } from './redis.ts';
import { baselineToken, objectMark, type RequestShape, sentMember } from './request.ts';
import { ownDirectory, register, scene } from './scene.ts';
import { rounded } from './statistics.ts';

/** One system, ready to be pushed to. */
export interface PushSystem {
  readonly name: string;
  readonly url: string;
  /** Value of the sender's `Authorization` header. */
  readonly authorization: string;
  /** Every process whose CPU is the system's. */
  readonly pids: readonly number[];
  readonly end: () => Promise<void>;
}

/** Deliveries in flight to one receiver, the same for all systems. */
export const inFlight = 64;

/** The hub, with NL-CPO at `receiver` and its sessions routed to NL-EMS at the same address. */
export async function hubSystem(
  receiver: string,
  nodeFlags: readonly string[] = [],
  env: Readonly<Record<string, string>> = { HUB_DELIVERY_CONCURRENCY: String(inFlight) },
  build?: readonly string[],
): Promise<PushSystem & { readonly adminToken: string }> {
  const { hub, end } = await scene(env, nodeFlags, build);
  const authorization = await register(hub, { role: 'CPO', partyId: 'CPO', url: receiver });
  await register(hub, { role: 'EMSP', partyId: 'EMS', url: receiver });
  await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
  return {
    name: build ? 'other build' : 'hub',
    url: hub.url,
    authorization,
    pids: [hub.pid],
    end,
    adminToken: hub.adminToken,
  };
}

/** The floor that any such hub pays. */
export async function bareParts(receiver: string): Promise<PushSystem> {
  const { directory, remove } = ownDirectory();
  const options = { directory, receiver, concurrency: inFlight };
  const process = await startPart<Serving>('bare-parts', 'measured', options);
  const end = async () => {
    await process.end();
    remove();
  };
  return { name: 'bare parts', url: process.ready.url, authorization: baselineToken, pids: [process.pid], end };
}

/** The queue that many would take. */
export async function bullmq(receiver: string): Promise<PushSystem> {
  const redis = await startRedis();
  const options = { redisPort: redis.port, receiver, concurrency: inFlight };
  const process = await startPart<Serving>('bullmq', 'measured', options);
  const end = async () => {
    await process.end();
    await redis.end();
  };
  const pids = [process.pid, redis.pid];
  return { name: 'BullMQ', url: process.ready.url, authorization: baselineToken, pids, end };
}

const period = { start_date_time: '2026-01-02T03:00:00Z', dimensions: [{ type: 'ENERGY', volume: 1.25 }] };

/** A push of a session of 1 KB, of a CPO of the Netherlands to an eMSP there. */
export function sessionPush(authorization: string, party_id = 'CPO', emsp = 'EMS'): RequestShape {
  const cdr_token = { country_code: 'NL', party_id: emsp, uid: 'CARD1', type: 'RFID', contract_id: `NL-${emsp}-C1` };
  const filled = { party_id, cdr_token, charging_periods: Array(5).fill(period), meter_id: 'meter-0001' };
  const text = JSON.stringify(sessionBody(`S${objectMark}`, filled));
  return {
    method: 'PUT',
    path: `/ocpi/2.2.1/sessions/NL/${party_id}/S${objectMark}`,
    headers: { Authorization: authorization, 'Content-Type': 'application/json' },
    body: `{${sentMember}${text.slice(1)}`,
  };
}

/** CPU is that of the system, until everything had arrived. */
export interface Round extends CpuMicros {
  readonly accepted: number;
  readonly refused: number;
  readonly perS: number;
  /** Of what was accepted, how much had arrived when the load stopped, and in the end, 0…1. */
  readonly forwardedAtOnce: number;
  readonly forwarded: number;
  readonly repeated: number;
  /** CPU of load and receivers as a part of their core, 0…1, while the load ran. */
  readonly aroundShare: number;
  /** While the load ran: how long the system's main thread waited for a core, a second of it, milliseconds; and which part of its core others had, 0…1. */
  readonly waitedMsPerS: number;
  readonly othersShare: number;
  readonly answers: Pick<LoadOutcome, 'p50Ms' | 'p95Ms' | 'p99Ms'>;
  /** From when it was due to its arrival at the receiver. */
  readonly arrivals: Arrivals;
}

/** Objects that take turns in a round. */
const objects = 10_000;
/** What has not arrived while nothing did for so long is not coming. */
const silenceMs = 5_000;
/** What the system writes late belongs to the round. */
const settleMs = 150;

export interface Driven {
  readonly connections: number;
  readonly seconds: number;
  /** Open loop at this rate; closed loop when absent. */
  readonly perS?: number;
  /** A closed loop ends after so many, if that is earlier. */
  readonly requests?: number;
  /** Objects that take turns, the first of them, and by how many the next one is further on. */
  readonly objects?: number;
  readonly from?: number;
  readonly step?: number;
}

/** Until the compiler knows the way: by number, since it counts calls; the seconds are for a machine that others use too. */
const warmUps = { short: { requests: 6_000, seconds: 6 }, full: { requests: 15_000, seconds: 15 } };

export interface WarmUp {
  readonly isShort: boolean;
  readonly progress: (line: string) => void;
}

export async function warmUp(systems: readonly PushSystem[], around: Around, how: WarmUp): Promise<void> {
  for (const system of systems) {
    const driven = { connections: 64, ...warmUps[how.isShort ? 'short' : 'full'] };
    const { perS, cpuMicros } = await pushRound(system, around, driven);
    how.progress(`warming up, ${system.name}: ${rounded(perS, 0)} pushes/s, ${rounded(cpuMicros, 0)} µs of CPU each`);
  }
}

/** One round of pushes: closed loop, or at a fixed rate when `perS` is given. */
export async function pushRound(system: PushSystem, around: Around, driven: Driven): Promise<Round> {
  const { load, receiver } = around;
  await receiver.ask('reset');
  const options = { url: system.url, shape: sessionPush(system.authorization), objects, ...driven };
  const cpu = watchCpu(...system.pids);
  const takenAround = watchAround(around);
  const disturbed = watchCore(system);
  const outcome = await load.ask<LoadOutcome>(
    driven.perS === undefined ? 'closed' : 'open',
    options satisfies ClosedLoad | OpenLoad,
  );
  const disturbance = disturbed();
  const atOnce = await receiver.ask<number>('arrived');
  const aroundShare = takenAround();
  await arrival(receiver, outcome.accepted);
  await new Promise((resolve) => setTimeout(resolve, settleMs));
  const { accepted, refused, refusal, seconds, p50Ms, p95Ms, p99Ms } = outcome;
  const taken = cpu(accepted);
  const arrivals = await receiver.ask<Arrivals>('arrivals');
  if (accepted === 0) throw new Error(`${system.name} accepted nothing: ${refusal}`);
  return {
    ...{ accepted, refused, perS: accepted / seconds, repeated: arrivals.repeated },
    ...{ forwardedAtOnce: atOnce / accepted, forwarded: arrivals.arrived / accepted },
    ...taken,
    aroundShare,
    ...disturbance,
    answers: { p50Ms, p95Ms, p99Ms },
    arrivals,
  };
}

/** Starts a watch over the core of a system; what it gives says how far it had that for itself since. */
function watchCore({ pids }: PushSystem): () => Pick<Round, 'waitedMsPerS' | 'othersShare'> {
  const [main = 0] = pids;
  const taken = () => ({ at: performance.now() / 1000, waited: waitedMs(main), others: coreS() - cpuS(...pids) });
  const before = taken();
  return () => {
    const after = taken();
    const seconds = after.at - before.at;
    const others = Math.max(0, after.others - before.others);
    return { waitedMsPerS: (after.waited - before.waited) / seconds, othersShare: others / seconds };
  };
}

/** Resolves when so many have arrived, or when no more come. */
export async function arrival(receiver: BenchProcess<unknown>, expected: number): Promise<void> {
  let before = -1;
  let since = performance.now();
  for (;;) {
    const arrived = await receiver.ask<number>('arrived');
    if (arrived >= expected) return;
    if (arrived > before) since = performance.now();
    else if (performance.now() - since > silenceMs) return;
    before = arrived;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
