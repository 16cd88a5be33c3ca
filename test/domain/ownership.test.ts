/** Whose a session or CDR is, why it is nobody's, and in which form its owner gets it. */
import type { ObjectFacts } from '../../src/domain/object.ts';
import { ownedAudience, owningEmsp } from '../../src/domain/ownership.ts';
import { t } from '../support/tap.ts';
import { testDirectory } from './directory.ts';

const named = (party: string): ObjectFacts => ({ cdrToken: { party, uid: 'CARD1' } });

t.test('the eMSP in cdr_token owns it, else there is a reason [interface, Sessions 1 and 2; D23]', async (t) => {
  const table: [string, ObjectFacts, string | null, string | null][] = [
    ['named and routed', named('NL-EMS'), 'NL-EMS', null],
    ['named and routed, not registered', named('NL-NEW'), 'NL-NEW', null],
    ['both CPO and eMSP', named('NL-TOP'), 'NL-TOP', null],
    ['none', {}, null, 'cdr_token missing'],
    ['unreadable', { cdrToken: null }, null, 'cdr_token missing'],
    ['the hub', named('XX-HUB'), null, 'names the hub'],
    ['nobody known', named('NL-WHO'), null, 'unknown eMSP'],
    ['a CPO', named('NL-CPO'), null, 'unknown eMSP'],
    ['an eMSP without a rule', named('NL-FAR'), null, 'not routed'],
    ['an eMSP whose rule is not active', named('NL-EX'), null, 'not routed'],
  ];
  for (const [title, facts, viewer, reason] of table) {
    const expected = viewer === null ? { viewer, reason } : { viewer };
    t.strictSame(owningEmsp(testDirectory(), 'NL-CPO', facts), expected, title);
  }
});

t.test(
  'the initiator owns it where cdr_token cannot be used, if it is routed [interface, Sessions 3 and 4; D37]',
  async (t) => {
    const table: [string, ObjectFacts, string | null, object][] = [
      ['missing', {}, 'NL-EMS', { viewer: 'NL-EMS' }],
      ['names the hub', named('XX-HUB'), 'NL-EMS', { viewer: 'NL-EMS' }],
      ['names nobody known', named('NL-WHO'), 'NL-EMS', { viewer: 'NL-EMS' }],
      ['names an eMSP without a rule', named('NL-FAR'), 'NL-EMS', { viewer: 'NL-EMS' }],
      ['a usable one wins', named('NL-TWO'), 'NL-EMS', { viewer: 'NL-TWO' }],
      ['the initiator is not routed', named('XX-HUB'), 'NL-FAR', { viewer: null, reason: 'names the hub' }],
      ['there is none', named('XX-HUB'), null, { viewer: null, reason: 'names the hub' }],
    ];
    for (const [title, facts, initiator, expected] of table) {
      t.strictSame(owningEmsp(testDirectory(), 'NL-CPO', facts, initiator), expected, title);
    }
  },
);

t.test(
  'only its owner is owed it; one that never had it gets the whole object for a fragment [D23, D50]',
  async (t) => {
    const had = (viewer: string | null, forwarded = true, reason: string | null = null) => ({
      ...{ viewer, forwarded, reason },
    });
    const ems = { viewer: 'NL-EMS' };
    const toEms = (as: 'change' | 'whole') => ({
      to: ['NL-EMS'],
      whole: as === 'whole' ? ['NL-EMS'] : [],
      reason: null,
    });
    const nobody = (reason: string) => ({ to: [], whole: [], reason });
    const table: [string, Parameters<typeof ownedAudience>[1], Parameters<typeof ownedAudience>[2], boolean, object][] =
      [
        ['first push', null, ems, false, toEms('change')],
        ['next push', had('NL-EMS'), ems, false, toEms('change')],
        ['fragment of what it has', had('NL-EMS'), ems, true, toEms('change')],
        ['a fragment of what never reached it', { ...had('NL-EMS'), sent: [] }, ems, true, toEms('whole')],
        ['repaired by a fragment', had(null, false), ems, true, toEms('whole')],
        ['repaired by a push', had(null, false), ems, false, toEms('change')],
        ['a fragment that names another', had('NL-TWO'), ems, true, toEms('whole')],
        ['a fragment of what was never forwarded', had('NL-EMS', false), ems, true, toEms('whole')],
        [
          'a fragment after one that was not forwarded',
          had('NL-EMS', true, 'receiver not registered'),
          ems,
          true,
          toEms('whole'),
        ],
        ['nobody owns it', had('NL-EMS'), { viewer: null, reason: 'not routed' }, true, nobody('not routed')],
        ['never registered', null, { viewer: 'NL-NEW' }, false, nobody('receiver not registered')],
        ['unregistered since', had('NL-OFF'), { viewer: 'NL-OFF' }, true, nobody('receiver not registered')],
      ];
    for (const [title, before, ownership, isFragment, expected] of table) {
      t.strictSame(ownedAudience(testDirectory(), before, ownership, isFragment), expected, title);
    }
  },
);
