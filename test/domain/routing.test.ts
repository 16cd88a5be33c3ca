/** Who gets a location, tariff or token, in which form, and why nobody when nobody does. */
import type { ObjectFacts } from '../../src/domain/object.ts';
import { catalogueAudience } from '../../src/domain/routing.ts';
import { t } from '../support/tap.ts';
import { testDirectory } from './directory.ts';

const everyone = ['NL-EMS', 'NL-TOP', 'NL-TWO'];

t.test(
  'a location goes to registered, routed eMSPs according to its former and new state, by PUT and by PATCH [interface, What the service does 2; D21]',
  async (t) => {
    const [open, closed] = [{ publish: true }, { publish: false }];
    const table: [
      string,
      ObjectFacts | null,
      ObjectFacts,
      'change' | 'whole' | 'unpublished',
      'change' | 'whole' | 'unpublished',
    ][] = [
      // before → after, as PUT, as PATCH
      ['new and public', null, open, 'change', 'whole'],
      ['new and private', null, closed, 'unpublished', 'unpublished'],
      ['stays public', open, open, 'change', 'change'],
      ['stays private', closed, closed, 'unpublished', 'unpublished'],
      ['goes private: told to those who have it', open, closed, 'change', 'change'],
      ['goes public: whole to those who may never have had it', closed, open, 'change', 'whole'],
      ['says nothing of it', {}, {}, 'change', 'change'],
    ];
    for (const [title, before, facts, asPut, asPatch] of table) {
      for (const [isFragment, as] of [
        [false, asPut],
        [true, asPatch],
      ] as const) {
        const after = { module: 'locations', owner: 'NL-CPO', facts } as const;
        const had = before && { facts: before, forwarded: true, sent: everyone };
        const found = catalogueAudience(testDirectory(), had, after, isFragment ? 'part' : 'whole');
        const expected =
          as === 'unpublished'
            ? { to: [], whole: [], reason: as }
            : { to: everyone, whole: as === 'whole' ? everyone : [], reason: null };
        t.strictSame(found, expected, `${title}, ${isFragment ? 'PATCH' : 'PUT'}`);
      }
    }
  },
);

t.test(
  'a catalogue goes to the registered parties of the other role at the end of an active rule, in order of id [D24]',
  async (t) => {
    const table: ['locations' | 'tariffs' | 'tokens', string, string[]][] = [
      ['locations', 'NL-CPO', everyone],
      ['tariffs', 'NL-CPO', everyone],
      ['tokens', 'NL-EMS', ['NL-CPO', 'NL-TOP']],
      ['tokens', 'NL-TWO', ['NL-CPO']],
      ['tariffs', 'NL-TOP', ['NL-EMS']],
      ['tokens', 'NL-TOP', ['NL-CPO']],
      ['tokens', 'NL-FAR', []],
      ['tokens', 'NL-EX', []],
      ['locations', 'NL-LON', []],
    ];
    for (const [module, owner, to] of table) {
      const expected = { to, whole: [], reason: to.length > 0 ? null : 'no routing rule' };
      t.strictSame(
        catalogueAudience(testDirectory(), null, { module, owner, facts: {} }, 'whole'),
        expected,
        `${module} of ${owner}`,
      );
    }
  },
);

t.test(
  'nobody is reached when a rule ends or its receivers leave [interface, What the service does 2; D50]',
  async (t) => {
    const directory = testDirectory();
    const audience = () =>
      catalogueAudience(directory, null, { module: 'tariffs', owner: 'NL-CPO', facts: {} }, 'whole');
    directory.applyRoute({ emsp: 'NL-EMS', cpo: 'NL-CPO', active: false });
    t.strictSame(audience().to, ['NL-TOP', 'NL-TWO']);
    directory.applyRoute({ emsp: 'NL-TOP', cpo: 'NL-CPO', active: true }, true);
    directory.applyRoute({ emsp: 'NL-TWO', cpo: 'NL-CPO', active: true }, true);
    t.strictSame(
      audience(),
      { to: [], whole: [], reason: 'no routing rule' },
      'rules to unregistered ones are no audience',
    );
  },
);

t.test(
  'a part goes as a whole object to those who were never sent the object, and a DELETE to those who were [D59, D62, D82]',
  async (t) => {
    const after = { module: 'tariffs', owner: 'NL-CPO', facts: {} } as const;
    const of = (before: { sent?: string[]; forwarded: boolean } | null, change: 'whole' | 'part' | 'end') =>
      catalogueAudience(testDirectory(), before && { facts: {}, ...before }, after, change);
    const all = { to: everyone, reason: null };
    const [first = ''] = everyone;
    t.strictSame(of({ forwarded: true, sent: [first] }, 'part'), { ...all, whole: everyone.slice(1) });
    t.strictSame(of({ forwarded: true, sent: [first] }, 'whole'), { ...all, whole: [] });
    t.strictSame(of({ forwarded: true }, 'part'), { ...all, whole: [] }, 'of an earlier version: who gets it has it');
    t.strictSame(of({ forwarded: false }, 'part'), { ...all, whole: everyone });
    const sent = ['NL-EX', 'NL-FAR', ...everyone];
    const registered = sent.filter((id) => testDirectory().isRegistered(id)).sort();
    t.strictSame(of({ forwarded: true, sent }, 'end'), { to: registered, whole: [], reason: null });
  },
);

t.test('a location that becomes private goes to those who were sent it, and to nobody else [D21]', async (t) => {
  const after = { module: 'locations', owner: 'NL-CPO', facts: { publish: false } } as const;
  const of = (sent: string[], change: 'whole' | 'part') =>
    catalogueAudience(testDirectory(), { facts: { publish: true }, forwarded: true, sent }, after, change);
  for (const change of ['whole', 'part'] as const) {
    t.strictSame(of(['NL-EX', 'NL-TWO'], change), { to: ['NL-TWO'], whole: [], reason: null });
    t.strictSame(of(['NL-EX'], change), { to: [], whole: [], reason: 'unpublished' });
  }
  const alone = { ...after, owner: 'NL-LON' };
  const before = { facts: { publish: true }, forwarded: false };
  t.equal(catalogueAudience(testDirectory(), before, alone, 'part').reason, 'no routing rule');
});
