/** Sessions and CDRs are compared: whatever is wrong is found, once, and nothing else. */
import {
  billing,
  type ComparedCdr,
  type ComparedSession,
  type Elsewhere,
  type FindingKind,
  reconciled,
} from '../../src/domain/reconciliation.ts';
import { t } from '../support/tap.ts';

const base = { cpo: 'NL-CPO', emsp: 'NL-EMS', at: '2026-05-01T10:00:00.000000000', kwh: 12.5, uid: 'card1' };
const session = (id: string, fields: Partial<ComparedSession> = {}): ComparedSession => ({
  ...{ ...base, id, key: id.toLowerCase(), status: 'COMPLETED' },
  ...fields,
});
const cdr = (id: string, of: string | null, fields: Partial<ComparedCdr> = {}): ComparedCdr => ({
  ...{
    ...base,
    id,
    key: id.toLowerCase(),
    sessionId: of,
    isCredit: false,
    credits: null,
  },
  ...fields,
});
const nothing: Elsewhere = { sessions: new Map(), billed: new Set() };
const rules = {
  ...{ billedBefore: '2026-05-02T00:00:00.000000000', end: '2026-06-01T00:00:00.000000000' },
  toleranceKwh: 0.01,
};

const found = (sessions: ComparedSession[], cdrs: ComparedCdr[], elsewhere: Elsewhere = nothing): string[] =>
  reconciled(sessions, billing(cdrs), rules, elsewhere).map(
    (finding) => `${finding.kind} ${finding.session?.id ?? '-'} ${finding.cdr?.id ?? '-'}`,
  );

t.test('sessions and CDRs that agree are no finding', async (t) => {
  t.strictSame(found([session('S1'), session('S2')], [cdr('C1', 'S1'), cdr('C2', 's2')]), []);
  t.strictSame(found([session('S1')], [cdr('C1', 'S1', { kwh: 12.51 })]), [], 'within the tolerance');
  t.strictSame(found([session('S1', { status: 'ACTIVE' }), session('S2', { status: 'INVALID' })], []), []);
  t.strictSame(found([session('S1', { at: rules.billedBefore })], []), [], 'its CDR may still come');
  t.strictSame(found([session('S1', { kwh: null, uid: null })], [cdr('C1', 'S1')]), [], 'what is unknown');
  const other = { cpo: 'BE-CPO' };
  t.strictSame(found([session('S1'), session('S1', other)], [cdr('C1', 'S1'), cdr('C1', 'S1', other)]), []);
  const elsewhere = { sessions: new Map([['NL-CPO/s9', session('S9')]]), billed: new Set(['NL-CPO/s1']) };
  t.strictSame(found([session('S1')], [cdr('C9', 'S9')], elsewhere), [], 'the other one is of another time');
});

t.test('each kind of finding is found once', async (t) => {
  const cases: [FindingKind, ComparedSession[], ComparedCdr[]][] = [
    ['no_cdr', [session('S1')], []],
    ['no_session', [], [cdr('C1', 'S1')]],
    ['no_session_id', [], [cdr('C1', null)]],
    ['not_completed', [session('S1', { status: 'ACTIVE' })], [cdr('C1', 'S1')]],
    ['energy_differs', [session('S1')], [cdr('C1', 'S1', { kwh: 12.52 })]],
    ['token_differs', [session('S1')], [cdr('C1', 'S1', { uid: 'card2' })]],
    ['duplicate', [session('S1')], [cdr('C1', 'S1'), cdr('C2', 'S1')]],
  ];
  for (const [kind, sessions, cdrs] of cases) {
    const last = (of: readonly { readonly id: string }[]) => of.at(-1)?.id ?? '-';
    t.strictSame(found(sessions, cdrs), [`${kind} ${last(sessions)} ${last(cdrs)}`]);
  }
  t.strictSame(found([session('S1')], [cdr('C1', 'S2')]), ['no_session - C1', 'no_cdr S1 -']);
});

t.test('[RECONCILIATION-1] a credited CDR bills nothing', async (t) => {
  const credit = cdr('CR', 'S1', { isCredit: true, credits: 'c1', kwh: -12.5 });
  t.strictSame(found([session('S1')], [cdr('C1', 'S1', { kwh: 99 }), credit, cdr('C2', 'S1')]), [], 'corrected');
  t.strictSame(found([session('S1')], [cdr('C1', 'S1'), credit]), ['no_cdr S1 -'], 'and never billed again');
  const foreign = { ...credit, cpo: 'BE-CPO' };
  t.strictSame(
    found([session('S1')], [cdr('C1', 'S1'), foreign, cdr('C2', 'S1')]),
    ['duplicate S1 C2'],
    'of another CPO',
  );
});

t.test('[RECONCILIATION-2] after the period only corrections and duplicates count', async (t) => {
  const late = { at: rules.end };
  const credit = cdr('CR', 'S1', { isCredit: true, credits: 'c1', ...late });
  t.strictSame(found([session('S1')], [cdr('C1', 'S1', { kwh: 99 }), credit, cdr('C2', 'S1', late)]), [], 'corrected');
  t.strictSame(found([session('S1')], [cdr('C1', 'S1'), cdr('C2', 'S1', { kwh: 99, ...late })]), ['duplicate S1 C2']);
  t.strictSame(found([], [cdr('C1', 'S9', late), cdr('C2', 's9', late), cdr('C3', null, late)]), [], 'of a later one');
  t.strictSame(
    found([], [cdr('C1', 'S9'), cdr('C2', 'S9', late)]),
    ['no_session - C1', 'duplicate - C2'],
    'billed in it',
  );
});
