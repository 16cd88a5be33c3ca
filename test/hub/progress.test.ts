/**
 * The position of one receiver in the log while senders are set aside in it.
 */
import { Progress, type Reader } from '../../src/hub/delivery/progress.ts';
import { t } from '../support/tap.ts';

const module = 'sessions';
const none: ReadonlySet<Reader> = new Set();

t.test(
  'a sender that is set aside is one position, and holds the floor until everything was taken [PROGRESS-1] [PROGRESS-4]',
  (t) => {
    const progress = new Progress('NL-EMS', 0);
    const of = (sender: string) => (seq: number) => ({ module, sender, seq }) as const;
    const [flood, small] = [of('NL-FLD'), of('NL-SML')];
    for (const seq of [1, 2]) progress.take(flood(seq), false);
    for (let seq = 3; seq < 1_000; seq += 2) {
      progress.setAside(flood(seq));
      progress.take(small(seq + 1), false);
      progress.settle(seq + 1);
    }
    t.equal(progress.left, 499);
    t.same([...progress.readers()], [{ module, sender: 'NL-FLD', cursor: 2, upTo: 999 }]);
    t.equal(progress.floor(1_000), 0, 'the first was taken and has not ended');
    for (const seq of [1, 2]) progress.settle(seq);
    t.equal(progress.floor(1_000), 2, 'what was set aside is owed');
    t.ok(progress.isUnread(flood(1_000)), 'its CDR would wait for it');
    t.notOk(progress.isUnread(small(1_000)));
    t.equal(progress.readerOf(small(4)), null);

    for (let seq = 3; seq < 500; seq += 2) progress.take(flood(seq), false);
    progress.passed({ after: 2, upTo: 500, stopped: none }, false);
    t.equal(progress.floor(1_000), 2, 'taken again behind what others took later, the oldest counts');
    for (let seq = 499; seq > 3; seq -= 2) progress.settle(seq);
    t.equal(progress.floor(1_000), 2);
    progress.settle(3);
    t.equal(progress.floor(1_000), 500);

    for (let seq = 501; seq < 1_000; seq += 2) progress.take(flood(seq), false);
    t.same([progress.isBehind, progress.left, [...progress.readers()]], [false, 0, []], 'it goes on with its module');
    t.ok(progress.expects(module, 1_001));
    t.end();
  },
);

t.test('a page skips nothing of a sender that had no room for it', (t) => {
  const progress = new Progress('NL-EMS', 0);
  const owed = { module, sender: 'NL-FLD', seq: 7 } as const;
  const aside = progress.setAside(owed);
  progress.passed({ after: 0, upTo: 10, stopped: new Set([aside]) }, true);
  t.equal(progress.readerOf(owed), aside);
  progress.passed({ after: 7, upTo: 10, stopped: none }, true);
  t.equal(progress.readerOf(owed), aside, 'nor one that begins behind it');
  progress.passed({ after: 6, upTo: 10, stopped: none }, true);
  t.equal(progress.readerOf(owed), null, 'one that holds nothing of it where it was does');
  t.end();
});

t.test('the log is read from a few positions, however many senders are set aside [PROGRESS-5]', (t) => {
  const progress = new Progress('NL-EMS', 0);
  for (let n = 0; n < 300; n++) progress.setAside({ module, sender: `NL-${n}`, seq: n + 1 });
  const senders = [...progress.readers()].map(({ sender }) => sender);
  t.same(senders, [...Array.from({ length: 8 }, (_, n) => `NL-${n}`), 'NL-8'], 'the others from the lowest of theirs');
  progress.passed({ after: 0, upTo: 3, stopped: none }, false);
  t.same(
    [...progress.readers()].map(({ sender }) => sender),
    [...Array.from({ length: 8 }, (_, n) => `NL-${n + 3}`), 'NL-11'],
    'who has caught up makes place for others',
  );
  t.end();
});
