/** What hubs tell each other of the actors that run in them, over a wire that carries JSON. */
import type { Core } from '../../src/hub/core.ts';
import type { Peers } from '../../src/hub/peers.ts';
import type { WatchedActor, WatchedEvent, Watcher } from '../../src/hub/watched.ts';
import type { Watching } from '../../src/hub/watching.ts';
import { Telling, WatchingAll, type WatchingAsked } from '../../src/hub/watching-all.ts';
import { eventually } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

const actor = (id: string, value = 'closed'): WatchedActor => ({
  ...{ id, kind: 'partner', parties: [], definition: '{"id":"partner"}', state: 'active', restarts: 0, error: null },
  snapshot: { status: 'active', value },
});

/** Actors of one hub, as a test moves them. */
function hubWith(...ids: string[]) {
  const actors = new Map(ids.map((id) => [id, actor(id)]));
  const watchers = new Set<Watcher>();
  const here: Watching = {
    actors: () => actors.values(),
    actor: (id) => actors.get(id),
    watch(watcher) {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
  return {
    ...{ here, watchers, actors },
    takes(id: string, event: WatchedEvent, value: string): void {
      actors.set(id, actor(id, value));
      for (const { changed } of watchers) changed(id, event);
    },
    ends(id: string): void {
      const last = { ...actor(id), state: 'ended' } as const;
      actors.delete(id);
      for (const { ended } of watchers) ended(last);
    },
  };
}

t.test('[V2] all is told first, then what has changed; all again to whoever missed an answer', async (t) => {
  const { here, watchers, takes, ends } = hubWith('a', 'b');
  const telling = new Telling('hub', here, new SimulatedClock());
  t.teardown(() => telling.close());
  const first = telling.tell({ by: 'peer', after: {} });
  t.match(first, { hub: 'hub', isAll: true, definitions: { partner: '{"id":"partner"}' } });
  t.strictSame(
    first.changes.map(({ actor: { id } }) => id),
    ['a', 'b'],
  );
  t.notMatch(first.changes[0], { actor: { definition: String } }, 'once for all of a kind');
  const ask = ({ number }: { number: number }) => telling.tell({ by: 'peer', after: { hub: number } });
  const second = ask(first);
  t.match(second, { isAll: false, changes: { length: 0 }, definitions: {} });
  for (let i = 1; i <= 10; i += 1) takes('a', { type: `event ${i}` }, `state ${i}`);
  ends('b');
  const third = ask(second);
  t.match(third.changes, [
    {
      actor: { id: 'a', snapshot: { value: 'state 10' } },
      events: Array.from({ length: 8 }, (_, i) => ({ type: `event ${i + 3}` })),
    },
    { actor: { id: 'b', state: 'ended' } },
  ]);
  t.match(ask(second), { isAll: true, changes: [{ actor: { id: 'a' } }] }, 'the third was lost on the way');
  t.equal(watchers.size, 1, 'one watch, however many ask');
  telling.close();
  t.equal(watchers.size, 0);
});

/** A hub between two others. */
function middle(t: Test, own: ReturnType<typeof hubWith>, others: readonly Telling[]) {
  const silent = new Set<number>();
  const peers = {
    others: () => others.map((_, shard) => shard),
    async ask(shard: number, _verb: string, data: unknown) {
      if (silent.has(shard)) throw new Error('nobody answers');
      const told = others[shard]?.tell(JSON.parse(JSON.stringify(data)) as WatchingAsked);
      return JSON.parse(JSON.stringify({ value: told }));
    },
  } as unknown as Peers;
  const log = { warn: () => {} };
  const clock = new SimulatedClock();
  const core = {
    peers,
    ports: { log, clock },
    supervisor: { has: (id: string) => own.actors.has(id) },
  } as unknown as Core;
  const all = new WatchingAll(core, peers, own.here, 'middle');
  t.teardown(() => all.close());
  /** Hubs ask each other, again and again, until it holds. */
  const inTime = (what: string, holds: () => boolean) =>
    eventually(what, () => {
      clock.advance(250);
      return holds();
    });
  return { all, silent, inTime };
}

t.test('a hub shows its own actors and those of the others, and what becomes of them', async (t) => {
  const [own, left, right] = [hubWith('own'), hubWith('left', 'both'), hubWith('right')];
  const tellings = [left, right].map(({ here }, at) => new Telling(`hub ${at}`, here, new SimulatedClock()));
  t.teardown(() => tellings.map((telling) => telling.close()));
  const { all, silent, inTime } = middle(t, own, tellings);
  const ids = () => [...all.actors()].map(({ id }) => id).sort();
  t.strictSame(ids(), ['own'], '[V1] nobody watches: nothing is asked');
  const heard: string[] = [];
  const unwatch = all.watch({
    changed: (id, event) => heard.push(`${id} ${event?.type ?? 'is there'}`),
    ended: ({ id }) => heard.push(`${id} ended`),
  });
  await inTime('they are shown', () => ids().length === 4);
  t.match(all.actor('right'), { definition: '{"id":"partner"}', snapshot: { value: 'closed' } });
  t.strictSame([...heard].sort(), ['both is there', 'left is there', 'right is there']);
  right.takes('right', { type: 'circuit.opened' }, 'open');
  await inTime('it is told', () => heard.includes('right circuit.opened'));
  t.match(all.actor('right'), { snapshot: { value: 'open' } });

  own.actors.set('both', actor('both', 'here'));
  t.match(all.actor('both'), { snapshot: { value: 'here' } }, '[V3] its own view counts');
  t.strictSame(ids(), ['both', 'left', 'own', 'right']);
  left.ends('both');
  left.ends('left');
  await inTime('it has ended', () => heard.includes('left ended'));
  t.notOk(heard.includes('both ended'), 'what runs here has not');

  silent.add(1);
  await inTime('[V3] a hub that has fallen silent is not shown any more', () => heard.includes('right ended'));
  t.strictSame(ids(), ['both', 'own']);
  unwatch();
  t.equal(own.watchers.size, 0);
});
