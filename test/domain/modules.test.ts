/** Rows of the modules, held against the plain comparisons of names that the interface gives. */
import { moduleNames, modules, ownedModules, pairOf } from '../../src/domain/modules.ts';
import { changedBody, followedSession, objectKey } from '../../src/domain/object.ts';
import { isExpired } from '../../src/domain/retry.ts';
import { t } from '../support/tap.ts';

t.test('the row of each module agrees with the interface', async (t) => {
  t.strictSame(ownedModules, ['sessions', 'cdrs'], 'owned by cdr_token [interface, Sessions 1; CDRs 1]');
  for (const module of moduleNames) {
    const row = modules[module];
    t.equal(row.owner, module === 'tokens' ? 'EMSP' : 'CPO', `${module}: who pushes it`);
    t.equal(row.whole, module === 'cdrs' ? 'POST' : 'PUT', `${module}: method of a whole`);
    t.equal(row.hasPath, module !== 'cdrs', `${module}: whether paths name owner and id`);
    t.equal(row.isImmutable, module === 'cdrs', `${module}: [D22]`);
    t.equal(row.isKeyedByType, module === 'tokens', `${module}: tokens of two types may have one uid`);
    t.equal(row.isSentAsOfChange, module === 'sessions', `${module}: [D59]`);
    t.equal(row.isFoundById, ['locations', 'sessions', 'cdrs'].includes(module), `${module}: [D27]`);
    t.equal(row.appends, module === 'sessions' ? 'charging_periods' : null, `${module}: [D19]`);
  }
});

t.test('rules that ask the row decide as the names did', async (t) => {
  const rules = { scheduleS: [1], jitter: 0, windowMs: 100, windowCdrMs: 300 };
  for (const module of moduleNames) {
    t.strictSame(
      pairOf(module, 'owner', 'receiver'),
      module === 'tokens' ? { emsp: 'owner', cpo: 'receiver' } : { emsp: 'receiver', cpo: 'owner' },
    );
    t.equal(objectKey(module, 'ID', {}), module === 'tokens' ? 'id/RFID' : 'id');
    t.equal(isExpired(rules, { module, since: 0, at: 200 }), module !== 'cdrs');
    t.equal(followedSession({ module, facts: { sessionId: 'S1' } }), module === 'cdrs' ? 's1' : null);
    const change = {
      module,
      method: 'PATCH',
      within: [],
      lastUpdated: null,
      body: '{"charging_periods":[2]}',
    } as const;
    const patched = JSON.parse(changedBody('{"charging_periods":[1]}', change) ?? '') as { charging_periods: number[] };
    t.strictSame(patched.charging_periods, module === 'sessions' ? [1, 2] : [2]);
  }
});
