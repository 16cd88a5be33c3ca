/** What has become of a world of version 1 when its shards are one log, told without SQL. */
import { type OldEvent, type OldWorld, PARTNERS } from './tables.ts';

export interface Expected {
  readonly token: number;
  readonly head: number;
  readonly horizon: number;
  /** In order, kept ones first; `was` is how the event was called. */
  readonly events: readonly { seq: number; was: string; stream: string; data: string; idem: string }[];
  readonly rows: readonly { id: string; seq: number }[];
  readonly timers: readonly { key: string; at: string }[];
  readonly deliveries: readonly { dest: string; seq: number; state: string; isNew: boolean }[];
  readonly floors: readonly { dest: string; seq: number }[];
  /** What has still to be sent: `{dest} {event}`. */
  readonly owed: readonly string[];
}

const name = (shard: number, seq: number): string => `${shard}/${seq}`;

export function expected(world: OldWorld): Expected {
  const shards = new Map(world.shards.map((shard) => [shard.id, shard]));
  const horizonOf = (shard: number): number => shards.get(shard)?.horizon ?? 0;
  const ordered = inOrder(world, horizonOf);
  const isOne = world.count === 1;
  const numbers = new Map(ordered.map(({ shard, seq }, i) => [name(shard, seq), isOne ? seq : i + 1]));
  const numberOf = (shard: number, seq: number): number => numbers.get(name(shard, seq)) ?? 0;
  const head = isOne ? (shards.get(0)?.head ?? 0) : ordered.length;
  const horizon = isOne ? horizonOf(0) : ordered.filter(({ shard, seq }) => seq <= horizonOf(shard)).length;

  const renamed = (id: string): string => {
    const dash = id.indexOf('-');
    const [seq = 0, shard = 0] = id.slice(0, dash).split('.').map(Number).reverse();
    const number = numberOf(shard, seq);
    if (number > 0) return `${number}${id.slice(dash)}`;
    return isOne || id.slice(0, dash).includes('.') ? id : `0.${id}`;
  };
  const events = ordered.map(({ shard, seq, type, stream, data, idem }) => {
    const to = { seq: numberOf(shard, seq), was: name(shard, seq), stream, data, idem };
    if (!type.startsWith('delivery.')) return to;
    const told = JSON.parse(data) as { delivery: string };
    const delivery = renamed(stream.slice('delivery:'.length));
    return { ...to, stream: `delivery:${delivery}`, data: JSON.stringify({ ...told, delivery }) };
  });

  const rows = world.rows.map(({ id, shard, seq }) => {
    let found = 0;
    for (const one of world.events) if (one.shard === shard && one.seq <= seq) found = Math.max(found, one.seq);
    return { id, seq: isOne ? seq : numberOf(shard, found) };
  });

  const timers = new Map<string, string>();
  for (const { key, at } of world.timers) if (at < (timers.get(key) ?? 'z')) timers.set(key, at);

  const reached = reachedIn(world, horizonOf);
  const rowed = new Map(world.deliveries.map((row) => [`${row.dest} ${name(row.shard, row.seq)}`, row]));
  const deliveries: Expected['deliveries'][number][] = [];
  for (const { dest, shard, seq, state } of world.deliveries) {
    const number = numberOf(shard, seq);
    if (number > 0) deliveries.push({ dest, seq: number, state, isNew: false });
  }
  const owed: string[] = [];
  const floors = [...reached].map(([dest, placeIn]) => {
    let floor = head;
    const ended: number[] = [];
    for (const { shard, seq, to } of ordered) {
      if (!to.includes(dest) || seq <= horizonOf(shard)) continue;
      const row = rowed.get(`${dest} ${name(shard, seq)}`);
      const waits = row === undefined ? seq > placeIn(shard) : row.state === 'PENDING';
      if (waits) owed.push(`${dest} ${name(shard, seq)}`);
      if (row === undefined && waits) floor = Math.min(floor, numberOf(shard, seq) - 1);
      if (row === undefined && !waits) ended.push(numberOf(shard, seq));
    }
    for (const seq of ended) if (seq > floor) deliveries.push({ dest, seq, state: 'DELIVERED', isNew: true });
    return { dest, seq: floor };
  });
  return {
    ...{ token: Math.max(...world.shards.map((shard) => shard.token)), head, horizon, events, rows, deliveries },
    ...{ timers: [...timers].map(([key, at]) => ({ key, at })), floors, owed: owed.sort() },
  };
}

/** Kept ones, then the others; each by the latest instant of its shard so far, shard and sequence. */
function inOrder({ events }: OldWorld, horizonOf: (shard: number) => number): OldEvent[] {
  const latest = new Map<number, string>();
  const placed = [...events]
    .sort((a, b) => a.seq - b.seq)
    .map((event) => {
      const [at = ''] = [event.at, latest.get(event.shard) ?? ''].sort().reverse();
      latest.set(event.shard, at);
      return { event, place: [event.seq > horizonOf(event.shard) ? 1 : 0, at, event.shard, event.seq] as const };
    });
  placed.sort(({ place: a }, { place: b }) => {
    const i = a.findIndex((part, at) => part !== b[at]);
    return i < 0 ? 0 : (a[i] ?? 0) < (b[i] ?? 0) ? -1 : 1;
  });
  return placed.map(({ event }) => event);
}

/** Of each receiver: how far it had come in a shard. */
function reachedIn(world: OldWorld, horizonOf: (shard: number) => number): Map<string, (shard: number) => number> {
  const parties = PARTNERS.flatMap(([, home, keys]) =>
    keys.map((key) => [key.toUpperCase(), world.count === 1 ? 0 : home] as const),
  );
  const homes = new Map(parties);
  const receivers = new Set([...homes.keys(), ...world.floors.map(({ dest }) => dest)]);
  return new Map(
    [...receivers].map((dest) => {
      const places = world.deliveries.find((row) => row.dest === `#${homes.get(dest)}`)?.data ?? '{}';
      const place = JSON.parse(places) as Record<number, number>;
      const floor = (shard: number) => world.floors.find((one) => one.dest === dest && one.shard === shard)?.seq ?? 0;
      return [dest, (shard: number) => Math.max(place[shard] ?? 0, floor(shard), horizonOf(shard))];
    }),
  );
}
