/**
 * Writes that go on while nodes die, and the account of them afterwards: what was acknowledged, what the log holds, what arrived where.
 *
 * TEST-LOAD-1  Every body is sent once only, so a text in the log or at a receiver names the write that it came from.
 */
import { cdrBody, sessionBody } from '../support/bodies.ts';
import { eventually, type PlainPartner } from '../support/plain-partner.ts';
import type { PostgresServer } from '../support/postgres.ts';
import { isAtLength } from '../support/share.ts';
import { standstills } from '../support/standstill.ts';
import type { Test } from '../support/tap.ts';
import { type Node, untilJoined } from './nodes.ts';

const workers = isAtLength ? 8 : 4;
/** Milliseconds between two writes of a sender: on a quick machine they would be thousands. */
const again = isAtLength ? 20 : 100;

export interface Write {
  readonly object: string;
  readonly body: string;
  /** Monotonic milliseconds. */
  readonly begunAt: number;
  endedAt: number;
  /** 0: no answer came. */
  status: number;
  /** Why no answer came. */
  why?: string;
}

/** Milliseconds. Nodes that stand still for longer are taken for gone by each other, and refuse what they would have passed on. */
const stillMs = 1000;
/** For so long after a standstill nodes may still refuse: they wait for a peer, and take turns at what it had. */
const recoveryMs = 15_000;

/** Whether it was under way while this machine stood still, or soon after, as far as this process saw. */
export const isExcused = ({ begunAt, endedAt }: { readonly begunAt: number; readonly endedAt: number }): boolean =>
  standstills().some(({ from, until }) => until - from > stillMs && begunAt < until + recoveryMs && endedAt > from);

export interface Load {
  readonly writes: readonly Write[];
  /** Of all writes, or of those behind so many. */
  acknowledged(behind?: number): Write[];
  /** Those that were answered something else, or nothing. */
  failed(): Write[];
  /** Those of them that are not excused. */
  refused(): Write[];
  stop(): Promise<void>;
}

let number = 0;

/** Several senders, each with objects of its own of a CPO and an eMSP of `NL`: sessions again and again, and now and then a CDR. */
export function startLoad(url: string, cpo: PlainPartner, name: string, emsp: { id: string } = { id: 'NL-EMS' }): Load {
  const [, party_id = ''] = cpo.id.split('-');
  const [, emspId = ''] = emsp.id.split('-');
  const cdr_token = { country_code: 'NL', party_id: emspId, uid: 'CARD1', type: 'RFID', contract_id: 'C1' };
  const writes: Write[] = [];
  const authorization = `Token ${Buffer.from(cpo.hubToken).toString('base64')}`;
  let running = true;

  async function push(worker: number): Promise<void> {
    number += 1;
    const isCdr = number % 5 === 0;
    const id = isCdr ? `${name}-C${number}` : `${name}-${worker}-${number % 3}`;
    const last_updated = new Date(Date.UTC(2026, 0, 1) + number * 1000).toISOString();
    const fields = { party_id, cdr_token, last_updated };
    const body = JSON.stringify(isCdr ? cdrBody(id, fields) : sessionBody(id, { ...fields, kwh: number }));
    const write: Write = {
      object: `${isCdr ? 'cdrs' : 'sessions'}/${cpo.id}/${id}`,
      body,
      begunAt: performance.now(),
      endedAt: 0,
      status: 0,
    };
    writes.push(write);
    try {
      const answer = await fetch(`${url}/ocpi/2.2.1/${isCdr ? 'cdrs' : `sessions/NL/${party_id}/${id}`}`, {
        method: isCdr ? 'POST' : 'PUT',
        headers: { authorization, 'content-type': 'application/json' },
        body,
      });
      const { status_code } = (await answer.json()) as { status_code: number };
      write.status = answer.ok && status_code !== 1000 ? status_code : answer.status;
    } catch (error) {
      write.why = `${error}: ${(error as Error).cause}`;
    }
    write.endedAt = performance.now();
    await new Promise((resolve) => setTimeout(resolve, again));
  }

  const all = Promise.all(
    Array.from({ length: workers }, async (_, worker) => {
      while (running) await push(worker);
    }),
  );
  const isAcknowledged = ({ status }: Write) => status >= 200 && status < 300;
  const failed = () => writes.filter((write) => !isAcknowledged(write));
  return {
    writes,
    acknowledged: (behind = 0) => writes.slice(behind).filter(isAcknowledged),
    failed,
    refused: () => failed().filter((write) => !isExcused(write)),
    async stop() {
      running = false;
      await all;
    },
  };
}

/** So many that begin from now on are acknowledged. */
export async function goesOn(load: Load, more = isAtLength ? 50 : 15, limitMs = 60_000): Promise<void> {
  const behind = load.writes.length;
  await eventually(`${more} more writes are acknowledged`, () => load.acknowledged(behind).length >= more, limitMs);
}

/** Each node is stopped and started again while the load goes on; `stopped` is called between the two. */
export async function restartInTurn(
  t: Test,
  nodes: readonly Node[],
  load: Load,
  stopped: (node: Node) => void = () => {},
): Promise<void> {
  await goesOn(load);
  for (const node of nodes) {
    t.equal(await node.hub.stop(), 0, 'it ends in good order');
    stopped(node);
    await goesOn(load);
    await node.start();
    await untilJoined(nodes);
    await goesOn(load);
  }
  await load.stop();
}

/** Nothing was refused, but what a standstill of the machine may have cost: nobody can promise that. */
export function mustNotFail(t: Test, load: Load, of: string): void {
  const refused = load.refused();
  t.strictSame(refused, [], `none of ${load.writes.length} ${of}`);
  const excused = load.failed().length - refused.length;
  if (excused > 0) t.comment(`the machine stood still; ${excused} requests failed around that`);
}

/** Once nothing is owed any more: holds what was acknowledged against the log, and the log against what arrived. */
export async function mustAddUp(
  t: Test,
  server: PostgresServer,
  schema: string,
  loads: readonly Pick<Load, 'writes' | 'acknowledged'>[],
  emsp: PlainPartner,
): Promise<void> {
  const events = await server.query<{ seq: string; type: string; stream: string; body: string | null; to: string[] }>(
    `select seq, type, stream, body, "to" from ${schema}.events order by seq`,
  );
  t.ok(
    events.every(({ seq }, i) => Number(seq) === i + 1),
    `the log is dense, ${events.length} events`,
  );
  const seqOf = new Map<string, number>();
  const twice: string[] = [];
  const logged = new Set<string>();
  for (const { seq, type, stream, body, to } of events) {
    if (type !== 'object.put' || body === null) continue;
    if (logged.has(body)) twice.push(stream);
    logged.add(body);
    if (to.includes(emsp.id)) seqOf.set(body, Number(seq));
  }
  t.strictSame(twice, [], 'no write stands twice in the log');
  const acknowledged = loads.flatMap((load) => load.acknowledged());
  const lost = acknowledged.filter(({ body }) => !logged.has(body));
  t.strictSame(lost, [], `none of ${acknowledged.length} acknowledged writes is lost`);
  const rows = await server.query<{ kind: string; owner: string; id: string; n: string }>(
    `select kind, owner, lower(id) as id, count(*) as n from ${schema}.rows group by 1, 2, 3 having count(*) > 1`,
  );
  t.strictSame(rows, [], 'no object is there twice');

  const objectOf = new Map(loads.flatMap((load) => load.writes).map(({ body, object }) => [body, object]));
  const owed = new Set([...seqOf.keys()].filter((body) => objectOf.has(body)));
  const arrived = () => emsp.received.map(({ body }) => body).filter((body) => owed.has(body));
  await eventually('all that the log owes has arrived', () => new Set(arrived()).size === owed.size);
  const lastOf = new Map<string, number>();
  const reordered: string[] = [];
  for (const body of new Set(arrived())) {
    const object = objectOf.get(body) ?? '';
    const seq = seqOf.get(body) ?? 0;
    if (seq < (lastOf.get(object) ?? 0)) reordered.push(`${object} at ${seq}`);
    lastOf.set(object, seq);
  }
  t.strictSame(reordered, [], 'what is new arrives in the order of the log, object by object');
}
