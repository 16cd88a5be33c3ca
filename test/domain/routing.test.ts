/** Who gets a location, tariff or token, in which form, and why nobody when nobody does. */
import t from 'tap';
import type { ObjectFacts } from '../../src/domain/object.ts';
import { catalogueAudience } from '../../src/domain/routing.ts';
import { directory } from './directory.ts';

const everyone = ['NL-EMS', 'NL-TOP', 'NL-TWO'];

t.test(
  'a location goes to registered, routed eMSPs by what it was and is, by PUT and by PATCH [interface, What the service does 2; D21]',
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
      ['new and public', null, open, 'change', 'change'],
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
        const found = catalogueAudience(directory(), before && { facts: before }, after, isFragment);
        const expected =
          as === 'unpublished' ? { to: [], as: 'change', reason: as } : { to: everyone, as, reason: null };
        t.strictSame(found, expected, `${title}, ${isFragment ? 'PATCH' : 'PUT'}`);
      }
    }
  },
);

t.test(
  'a catalogue goes to the other role at the end of an active rule, in order of id, to registered ones alone [D24]',
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
      const expected = { to, as: 'change', reason: to.length > 0 ? null : 'no routing rule' };
      t.strictSame(
        catalogueAudience(directory(), null, { module, owner, facts: {} }, false),
        expected,
        `${module} of ${owner}`,
      );
    }
  },
);

t.test(
  'nobody is reached when a rule ends or its receivers leave [interface, What the service does 2; D50]',
  async (t) => {
    const state = directory();
    const audience = () => catalogueAudience(state, null, { module: 'tariffs', owner: 'NL-CPO', facts: {} }, false);
    state.applyRoute({ emsp: 'NL-EMS', cpo: 'NL-CPO', active: false });
    t.strictSame(audience().to, ['NL-TOP', 'NL-TWO']);
    state.applyRoute({ emsp: 'NL-TOP', cpo: 'NL-CPO', active: true }, true);
    state.applyRoute({ emsp: 'NL-TWO', cpo: 'NL-CPO', active: true }, true);
    t.strictSame(
      audience(),
      { to: [], as: 'change', reason: 'no routing rule' },
      'rules to unregistered ones are no audience',
    );
  },
);
