/**
 * The oracle: it knows what was sent, told and received (the ledger) and reads the log as the disk has it after each kill, on a
 * copy. From the two it says what was lost, what came twice, what came in another order, and what nothing explains.
 *
 * TEST-FAULTS-ORACLE-1  A call that comes twice is explained when its end stood nowhere on the disk at the kill before: it was in flight, or
 *     answered and not yet noted. Any other repeat is unexplained.
 * TEST-FAULTS-ORACLE-2  An acknowledged write is looked for after every kill, not only at the end.
 * TEST-FAULTS-ORACLE-3  Order is that of the log: first arrivals over all lives, and every arrival within one life.
 * TEST-FAULTS-ORACLE-4  It has read every event before that is old enough to be trimmed; one that is gone unread was lost.
 */
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { Store, StoredEvent } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { deliveryOf, type Ledger, type Write } from './ledger.ts';

export interface Oracle {
  /** Looks at the store of a hub that is gone. */
  afterKill(): Promise<void>;
  /** The whole account, once nothing is owed any more and the hub has stopped. `served` holds what it gave for each object. */
  verdict(served: ReadonlyMap<string, string | null>): Promise<Verdict>;
}

export interface Verdict {
  readonly lost: readonly string[];
  readonly reordered: readonly string[];
  readonly unexplained: readonly string[];
  /** Calls that a receiver took more than once; each was in flight at a kill, or it stands among the unexplained too. */
  readonly duplicated: number;
  /** Calls taken whose end was not on the disk at a kill, of all kills together, and the most at one kill. */
  readonly inFlight: number;
  readonly inFlightMax: number;
  readonly acknowledged: number;
  readonly taken: number;
  readonly events: number;
}

interface Account {
  readonly lost: Set<string>;
  readonly reordered: Set<string>;
  readonly unexplained: Set<string>;
  /** Position in the log of each write that is there. */
  readonly seqOf: Map<Write, number>;
  /** By the life that ended: deliveries whose end was not noted. */
  readonly inFlight: Map<number, ReadonlySet<string>>;
  readonly events: StoredEvent[];
  /** Up to where the log was read. */
  head: number;
}

export function oracleOf(ledger: Ledger, store: string): Oracle {
  const account: Account = {
    ...{ lost: new Set(), reordered: new Set(), unexplained: new Set() },
    ...{ seqOf: new Map(), inFlight: new Map(), events: [], head: 0 },
  };
  /** Taken, and not yet seen to be noted. */
  let open = new Map<string, { receiver: string; write: Write }>();
  let arrivalsSeen = 0;
  let writesSeen = 0;

  async function afterKill(): Promise<void> {
    await onCopy(store, async (copy) => {
      await readOn(account, ledger, copy);
      writesSeen = checkAcknowledged(account, ledger.writes, writesSeen);
      for (const { receiver, body, isTaken } of ledger.arrivals.slice(arrivalsSeen)) {
        const write = ledger.byBody.get(body);
        if (isTaken && write) open.set(deliveryOf(receiver, write), { receiver, write });
      }
      arrivalsSeen = ledger.arrivals.length;
      open = await stillOpen(account, copy, open);
      account.inFlight.set(ledger.life, new Set(open.keys()));
    });
  }

  async function verdict(served: ReadonlyMap<string, string | null>): Promise<Verdict> {
    await onCopy(store, (copy) => readOn(account, ledger, copy));
    checkAcknowledged(account, ledger.writes, 0);
    checkServed(account, ledger, served);
    checkCommands(account, ledger);
    for (const strange of ledger.strange) account.unexplained.add(strange);
    const duplicated = checkArrivals(account, ledger);
    const sizes = [...account.inFlight.values()].map(({ size }) => size);
    return {
      ...{ lost: [...account.lost], reordered: [...account.reordered], unexplained: [...account.unexplained] },
      ...{ duplicated, inFlight: sizes.reduce((sum, size) => sum + size, 0), inFlightMax: Math.max(0, ...sizes) },
      acknowledged: ledger.writes.filter(({ ending }) => ending === 'acknowledged').length,
      taken: ledger.arrivals.filter(({ isTaken }) => isTaken).length,
      events: account.events.length,
    };
  }

  return { afterKill, verdict };
}

/** The copy leaves out the ballast, which is only room. */
async function onCopy(directory: string, use: (store: Store) => Promise<void>): Promise<void> {
  const copy = mkdtempSync(join(tmpdir(), 'oracle-'));
  cpSync(directory, copy, { recursive: true, filter: (source) => basename(source) !== 'ballast' });
  try {
    const store = await openLevelStore({ directory: copy, node: 'oracle', ballastBytes: 0 });
    await use(store).finally(() => store.close());
  } finally {
    rmSync(copy, { recursive: true });
  }
}

/** Reads what the log holds more than before. */
async function readOn(account: Account, ledger: Ledger, store: Store): Promise<void> {
  const { state, reason, damagedRows } = store.health();
  if (state !== 'open' || damagedRows.length > 0) {
    account.unexplained.add(
      `life ${ledger.life}: the store is ${state} (${reason}), ${damagedRows.length} rows damaged`,
    );
  }
  const { head } = account;
  if (store.head() < head) account.lost.add(`life ${ledger.life}: the log ended at ${head}, now at ${store.head()}`);
  const more = await store.read({ after: head, limit: 1_000_000 });
  for (const event of more) {
    account.events.push(event);
    if (event.seq !== account.head + 1)
      account.lost.add(`events ${account.head + 1} to ${event.seq - 1} are missing, trimmed up to ${store.horizon()}`);
    account.head = event.seq;
    learn(account, ledger, event);
  }
}

/** Whose event it is. */
function learn({ seqOf, unexplained }: Account, ledger: Ledger, { type, stream, seq, body }: StoredEvent): void {
  if (type === 'object.put' || type === 'object.patched') {
    const write = ledger.byBody.get(body ?? '');
    if (!write) unexplained.add(`event ${seq}: nobody sent this ${stream}: ${body}`);
    else if (seqOf.has(write)) unexplained.add(`event ${seq}: write ${write.number} stands in the log already`);
    else if (write.object !== stream) unexplained.add(`event ${seq}: ${write.object} stands in ${stream}`);
    else seqOf.set(write, seq);
  } else if (!/^(partner|release|circuit|route|command|log|backup|push|report|audit|history)\./.test(type))
    unexplained.add(`event ${seq}: ${type}`);
}

/** Returns how many writes need no second look. */
function checkAcknowledged({ seqOf, lost, unexplained }: Account, writes: readonly Write[], from: number): number {
  let settled = from;
  for (const [index, write] of writes.slice(from).entries()) {
    const name = `write ${write.number} of ${write.object}`;
    if (write.ending === 'acknowledged' && !seqOf.has(write)) lost.add(`${name} is not in the log`);
    if (write.ending === 'refused') {
      if (seqOf.has(write)) unexplained.add(`${name} was refused (${write.answer}) and is in the log`);
      if (!write.answer.startsWith('503/')) unexplained.add(`${name} was refused: ${write.answer}`);
    }
    if (write.ending !== 'open' && settled === from + index) settled += 1;
  }
  return settled;
}

async function stillOpen<T extends { receiver: string; write: Write }>(
  { seqOf }: Account,
  store: Store,
  open: ReadonlyMap<string, T>,
): Promise<Map<string, T>> {
  const floors = new Map((await store.floors()).map(({ dest, seq }) => [dest, seq]));
  const still = new Map<string, T>();
  for (const [name, delivery] of open) {
    const seq = seqOf.get(delivery.write) ?? Number.POSITIVE_INFINITY;
    const row = Number.isFinite(seq) ? await store.delivery(delivery.receiver, seq) : null;
    const isNoted = row === null ? seq <= (floors.get(delivery.receiver) ?? 0) : row.state !== 'PENDING';
    if (!isNoted) still.set(name, delivery);
  }
  return still;
}

/** Every object reads as the log says: a whole push byte for byte, a fragment laid over it by its fields. */
function checkServed({ seqOf, lost }: Account, { writes }: Ledger, served: ReadonlyMap<string, string | null>): void {
  const inOrder = writes.filter((write) => seqOf.has(write)).sort((a, b) => (seqOf.get(a) ?? 0) - (seqOf.get(b) ?? 0));
  const expected = new Map<string, string>();
  const patched = new Set<string>();
  for (const { object, method, body } of inOrder) {
    if (method !== 'PATCH') patched.delete(object);
    else patched.add(object);
    const before = expected.get(object);
    const merged = () => JSON.stringify({ ...(JSON.parse(before ?? '{}') as object), ...(JSON.parse(body) as object) });
    expected.set(object, method === 'PATCH' ? merged() : body);
  }
  for (const [object, text] of expected) {
    const given = served.get(object) ?? null;
    const isRight = given !== null && (patched.has(object) ? sameFields(given, text) : given === text);
    if (!isRight) lost.add(`${object} reads ${given}, not ${text}`);
  }
}

function sameFields(one: string, other: string): boolean {
  const sorted = (text: string) => JSON.stringify(Object.entries(JSON.parse(text) as object).sort());
  return sorted(one) === sorted(other);
}

/** A command goes out once; its result comes back once. */
function checkCommands({ events, lost, unexplained }: Account, { commands }: Ledger): void {
  const requested = new Set<number>();
  const results = new Set<string>();
  for (const { type, data, body } of events) {
    if (type === 'command.requested') requested.add(Number((data as Record<string, unknown>).authorizationReference));
    if (type === 'command.resultReceived') results.add(body ?? '');
  }
  for (const { number, ending, forwarded, results: sent } of commands.values()) {
    if (ending === 'acknowledged' && !requested.has(number)) lost.add(`command ${number} is not in the log`);
    if (ending === 'acknowledged' && forwarded === 0) lost.add(`command ${number} never came to the CPO`);
    if (forwarded > 1) unexplained.add(`command ${number} came ${forwarded} times to the CPO`);
    if (forwarded > 0 && !requested.has(number))
      unexplained.add(`command ${number} was forwarded and is not in the log`);
    for (const { body, ending: told, relayed } of sent) {
      if (told === 'acknowledged' && !results.has(body)) lost.add(`${body} is not in the log`);
      if (told === 'acknowledged' && relayed === 0) lost.add(`${body} never came to the eMSP`);
      if (relayed > 1) unexplained.add(`${body} came ${relayed} times to the eMSP`);
    }
  }
}

/** Everything that is owed came, as it was sent, in order; nothing else came. Returns how many came again. */
function checkArrivals(account: Account, ledger: Ledger): number {
  const { seqOf, lost, reordered, unexplained, inFlight } = account;
  const lastLife = new Map<string, number>();
  const newest = new Map<string, number>();
  const newestOfLife = new Map<string, number>();
  let duplicated = 0;
  for (const { receiver, method, path, body, life, isTaken } of ledger.arrivals) {
    const write = ledger.byBody.get(body);
    const seq = write && seqOf.get(write);
    if (!write || seq === undefined)
      unexplained.add(`${receiver} got what is not in the log: ${method} ${path} ${body}`);
    else if (!write.to.includes(receiver))
      unexplained.add(`${receiver} got write ${write.number}, which is not its own`);
    else if (write.method !== method || write.path !== path) {
      unexplained.add(`${receiver} got ${method} ${path} for write ${write.number}, ${write.method} ${write.path}`);
    } else if (isTaken) {
      const name = deliveryOf(receiver, write);
      const before = lastLife.get(name);
      lastLife.set(name, life);
      if (before !== undefined) duplicated += 1;
      const isExplained = before === undefined || (before < life && inFlight.get(life - 1)?.has(name));
      if (!isExplained) unexplained.add(`${name} came in life ${before} and, though that was noted, in life ${life}`);
      const lane = `${receiver}/${write.object}`;
      if (before === undefined) inOrder(newest, lane, seq, reordered);
      inOrder(newestOfLife, `${lane} in life ${life}`, seq, reordered);
    }
  }
  for (const write of seqOf.keys()) {
    for (const receiver of write.to) {
      if (!lastLife.has(deliveryOf(receiver, write))) lost.add(`write ${write.number} never came to ${receiver}`);
    }
  }
  return duplicated;
}

function inOrder(newest: Map<string, number>, lane: string, seq: number, reordered: Set<string>): void {
  const before = newest.get(lane) ?? 0;
  if (seq < before) reordered.add(`${lane}: ${seq} after ${before}`);
  newest.set(lane, Math.max(before, seq));
}
