/** To whom a node passes requests on while it does not reach the database, and until it knows who the owner is. [MEMBERSHIP-2] */
import { KnownOwner, keptMs } from '../../src/cluster/membership.ts';
import type { PeerNode, SharedStore } from '../../src/cluster/node-parts.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { t } from '../support/tap.ts';

const [own, other, third] = ['own', 'other', 'third'].map(
  (id): PeerNode => ({ id, name: id, url: `http://${id}`, alive: true }),
) as [PeerNode, PeerNode, PeerNode];

function scene() {
  const clock = new SimulatedClock('2026-03-01T10:00:00Z');
  let isReached = true;
  let owner: PeerNode | null = other;
  const store = {
    id: own.id,
    owner: () => owner,
    health: () => ({ state: isReached ? 'open' : 'failed' }),
    isFresh: () => isReached,
  } as SharedStore;
  const known = new KnownOwner(store, clock);
  return {
    ...{ clock, known },
    sees(is: boolean, by: PeerNode | null) {
      isReached = is;
      owner = by;
      return known.now();
    },
  };
}

t.test(
  'a node that cannot reach the database keeps the last known owner as long as an isolated node may answer',
  (t) => {
    const { clock, known, sees } = scene();
    t.equal(sees(true, other), other);
    t.equal(sees(false, other), other, 'as its last look at the database said');
    clock.advance(keptMs - 1);
    t.equal(known.now(), other);
    t.equal(sees(false, null), other, 'the database is back and has not confirmed the lease of this node');
    t.equal(sees(false, own), other, 'nor when this node took the log');
    clock.advance(keptMs);
    t.equal(sees(false, other), other);
    clock.advance(keptMs);
    t.equal(sees(false, null), other);
    clock.advance(1);
    t.equal(sees(false, null), null, 'not for longer');
    t.equal(sees(false, own), own);
    t.end();
  },
);

t.test('a node that reaches the database knows the owner', (t) => {
  const { sees } = scene();
  sees(true, other);
  t.equal(sees(true, null), null, 'nobody');
  t.equal(sees(false, null), other);
  t.equal(sees(true, third), third);
  t.equal(sees(false, null), third);
  t.equal(sees(true, own), own, 'itself');
  t.equal(sees(false, null), null, 'so no other one was the last');
  t.end();
});
