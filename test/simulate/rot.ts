/** Rows that rot while no process runs, and the rule that the next start makes them again from the log, as they were. [CONTRACT-8] */
import { historyKinds } from '../../src/hub/maintain/history.ts';
import { demand } from './facts.ts';
import { type DiskEvent, type DiskRow, keyOf } from './memory-disk.ts';
import type { World } from './world.ts';

/** Only hints, which are removed rather than made again. */
const notRemade: ReadonlySet<string> = new Set(['pulls:last', ...historyKinds]);

/** Rows that a trim deletes with their events, by the prefix of their streams. */
const endWithEvents: Readonly<Record<string, string>> = {
  ...{ commands: 'command:', jobs: 'job:', backups: 'backup:', pulls: 'pull:', orphans: 'orphan:' },
};

/** Some rows cannot be read any more. */
export function rot(world: World): void {
  const all = [...world.disk.rows.values()].flatMap((rows) => [...rows.values()]);
  for (let n = world.chance.between(1, 3); n > 0 && all.length > 0; n--) {
    const row = world.chance.pick(all);
    if (!world.disk.damaged.has(nameOf(row))) damage(world, row);
  }
}

/** This row cannot be read any more. */
export function damage(world: World, row: DiskRow): void {
  world.hit('a row was damaged');
  world.trace(`rot ${row.kind} ${row.owner} ${row.id}`);
  world.disk.damage(row);
  world.rotten.set(nameOf(row), row);
}

/** The hub has written a row again. */
export function judgeRebuilt(world: World, { type, data }: DiskEvent): void {
  if (type !== 'row.rebuilt') return;
  const { kind, owner, id } = JSON.parse(data) as Record<'kind' | 'owner' | 'id', string>;
  const before = world.rotten.get(keyOf(kind, owner, id));
  const after = world.disk.rows.get(kind)?.get(keyOf(owner, id));
  demand(before !== undefined, 'only what was damaged is made again', () => `${kind} ${owner} ${id}`);
  world.rotten.delete(keyOf(kind, owner, id));
  if (notRemade.has(kind)) return;
  world.hit(
    world.disk.horizon > 0 ? 'a damaged row was made again from a trimmed log' : 'a damaged row was made again',
  );
  // A trim took its events, and only its being made again had spared the row itself.
  const prefix = endWithEvents[kind];
  const isTrimmed = prefix !== undefined && world.disk.horizon > 0 && !world.disk.streams.has(`${prefix}${id}`);
  if (isTrimmed && after === undefined) return;
  const isSame = after !== undefined && textOf(after) === textOf(before);
  demand(isSame, 'a damaged row is made again as it was', () => `${textOf(before)} became ${after && textOf(after)}`);
}

/** The hub has started. */
export function judgeRotten({ disk }: World): void {
  const left = [...disk.damaged.values()].map(({ kind, owner, id }) => `${kind} ${owner} ${id}`);
  demand(left.length === 0, 'every damaged row is made again', () => left.join(', '));
}

const nameOf = ({ kind, owner, id }: DiskRow): string => keyOf(kind, owner, id);

function textOf(row: DiskRow | undefined): string {
  if (!row) return '';
  const { seq: _seq, ...rest } = row;
  return JSON.stringify(Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1)));
}
