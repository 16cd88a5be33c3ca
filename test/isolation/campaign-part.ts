/**
 * The campaign's part of isolation: a victim at a quiet hub, then at the same hub while every attacker of this folder attacks it at once,
 * for so many minutes. The hub has the waits and limits of its users, but for the rates of what the victim does without a pause.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { nothing, type Outcome, type Part, type Progress } from '../faults/part.ts';
import type { ChildHub } from '../support/child-hub.ts';
import { nameServer } from '../support/name-server.ts';
import type { Begin, Tally } from './attackers.ts';
import { EndsOf } from './ends.ts';
import { figuresOf, missed } from './goals.ts';
import { attackedHub, type Pace, victimOf } from './victim.ts';

const minuteMs = 60_000;
/** Of the minutes of the attack, at a quiet hub; no shorter than what gives a percentile something to be of. */
const quietShare = 0.2;
const quietMsMin = 30_000;
/** Two authorizations a second, and paths one after the other, a few a second at most: a client as others are. */
const pace: Pace = { authorization: () => sleep(500), path: () => sleep(200) };

const settings = {
  ...{ HUB_RATE_OTHER_PER_MIN: '6000', HUB_RATE_EXCHANGES_PER_MIN: '10' },
  ...{ HUB_AUTHORIZE_TIMEOUT_MS: '10000', HUB_COMMAND_TIMEOUT_MS: '20000' },
  ...{ HUB_CALLBACK_TIMEOUT_MS: '10000', HUB_DELIVERY_TIMEOUT_MS: '15000' },
  ...{ HUB_PUBLIC_URL: 'https://hub.example', HUB_EGRESS_ALLOW: 'loopback' },
};

export const isolation: Part = {
  name: 'isolation',
  kinds: 1,
  async run({ count }, progress) {
    const ends = new EndsOf();
    try {
      return await attacked(ends, count, progress);
    } finally {
      await ends.end();
    }
  },
};

async function attacked(ends: EndsOf, minutes: number, progress: Progress): Promise<Outcome> {
  const names = await nameServer(ends, (name) => (name.endsWith('.silent.example') ? 'silence' : ['127.0.0.1']));
  const hub = await attackedHub(ends, { ...settings, HUB_DNS_SERVERS: names.address });
  const victim = await victimOf(ends, hub);
  await victim.watch(() => sleep(quietMsMin / 3), pace); // What is slow only once is no measure.
  const { noticed: quiet } = await victim.watch(
    () => sleep(Math.max(quietMsMin, minutes * minuteMs * quietShare)),
    pace,
  );
  let isOver = false;
  const watched = victim.watch<Tally>(async () => {
    const attackers = await startAttackers(ends, hub);
    for (let second = 0; second < minutes * 60 && isThere(hub); second++) {
      if (second % 60 === 59) progress((second + 1) / 60, 0);
      await sleep(1_000);
    }
    isOver = true;
    return isThere(hub) ? attackers.end() : {};
  }, pace);
  const seen = await watched.catch((error: unknown): null => {
    if (isThere(hub)) throw error;
    return null;
  });
  if (seen === null) {
    const findings = [`the hub ended ${isOver ? 'after' : 'during'} the attack: ${hub.log().slice(-2_000)}`];
    return { ...nothing, unexplained: 1, findings, figures: { restarts: 1 } };
  }
  for (const [attack, statuses] of Object.entries(seen.result)) {
    const counts = Object.entries(statuses).map(([status, times]) => `${status} ${times}`);
    console.log(`isolation: ${attack}: ${counts.join(', ') || 'none ended'}`);
  }
  const under = { quiet, attacked: seen.noticed };
  return {
    ...{ ...nothing, done: minutes, lost: Object.keys(seen.noticed.lost).length },
    findings: missed(under),
    figures: { restarts: 0, ...figuresOf(under) },
  };
}

function isThere({ pid }: ChildHub): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Resolves once all of them have begun. */
async function startAttackers(ends: EndsOf, { url, adminToken }: ChildHub): Promise<{ end(): Promise<Tally> }> {
  const child = fork(fileURLToPath(new URL('attackers.js', import.meta.url)));
  ends.teardown(() => void child.kill('SIGKILL'));
  const gone = once(child, 'exit').then(ended);
  gone.catch(() => {});
  const told = async (message: Begin | 'end') => {
    if (child.connected) child.send(message);
    const [answer] = await Promise.race([once(child, 'message'), gone]);
    return answer as unknown;
  };
  await told({ hub: { url, adminToken } });
  return { end: () => told('end') as Promise<Tally> };
}

function ended([code]: readonly unknown[]): never {
  throw new Error(`the attackers ended by themselves, exit code ${String(code)}`);
}
