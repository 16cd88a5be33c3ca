/** The reconciliation of a period: what it reads, by pair and day, and what it refuses. */
import type { Reconciliation } from '../../src/api/reconciliation.ts';
import { cdrBody, sessionBody } from '../support/bodies.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { admin } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { t } from '../support/tap.ts';

const reconciled = async (hub: TestHub, query: string) =>
  (await admin(hub, 'GET', `/reconciliation?${query}`)) as unknown as Reconciliation;

t.test('sessions and CDRs are compared by pair and day', async (t) => {
  const clock = new SimulatedClock('2026-05-01T08:00:00Z');
  const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '864000' }, { clock });
  const { cpo } = await routedPair(t, hub);
  await partnerFor(t, hub, { role: 'EMSP', countryCode: 'BE', partyId: 'EMS' });
  await admin(hub, 'PUT', '/routes/BE-EMS/NL-CPO', { active: true });
  const token = (country_code: string) => ({
    cdr_token: { country_code, party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'NL-EMS-C1' },
  });
  const ended = (id: string, day: number, kwh: number, fields: object = {}) =>
    cpo.push(
      'PUT',
      `/2.2.1/sessions/NL/CPO/${id}`,
      sessionBody(id, { status: 'COMPLETED', kwh, last_updated: `2026-05-0${day}T09:00:00Z`, ...fields }),
    );
  const billed = (id: string, day: number, fields: object) =>
    cpo.push('POST', '/2.2.1/cdrs', cdrBody(id, { last_updated: `2026-05-0${day}T10:00:00Z`, ...fields }));
  await ended('S1', 1, 10.1);
  await billed('C1', 1, { session_id: 's1', total_energy: 10.1 });
  await ended('S2', 1, 20.2);
  await ended('S3', 2, 30, token('BE'));
  await billed('C3', 3, { session_id: 'S3', total_energy: 31, ...token('BE') });
  await billed('C4', 3, { session_id: 'NONE', total_energy: 1 });
  // Without an eMSP that is known.
  await ended('S5', 3, 5, token('FR'));
  clock.advance(10 * 24 * 3_600_000);

  const all = await reconciled(hub, 'from=2026-05-01T00:00:00Z');
  t.strictSame(
    all.pairs.map(({ day, emsp, sessions, cdrs, session_kwh, cdr_kwh, findings }) =>
      [day, emsp, sessions, cdrs, session_kwh, cdr_kwh, findings].join(' '),
    ),
    [
      '2026-05-01 NL-EMS 2 1 30.3 10.1 1',
      '2026-05-02 BE-EMS 1 0 30 0 0',
      '2026-05-03 BE-EMS 0 1 0 31 1',
      '2026-05-03 NL-EMS 0 1 0 1 1',
      '2026-05-03  1 0 5 0 1',
    ],
  );
  const kinds = ({ findings }: Reconciliation) => findings.map(({ kind, session, cdr }) => [kind, session, cdr]);
  t.strictSame(kinds(all), [
    ['energy_differs', 'NL-CPO/S3', 'NL-CPO/C3'],
    ['no_session', 'NL-CPO/NONE', 'NL-CPO/C4'],
    ['no_cdr', 'NL-CPO/S2', null],
    ['no_cdr', 'NL-CPO/S5', null],
  ]);
  t.match(all, { from: '2026-05-01T00:00:00.000Z', to: '2026-05-11T08:00:00.000Z', omitted: 0 });
  t.strictSame(kinds(await reconciled(hub, 'from=2026-05-01T00:00:00Z&emsp=BE-EMS&tolerance_kwh=1')), []);
  t.strictSame(kinds(await reconciled(hub, 'from=2026-05-01T00:00:00Z&cpo=DE-CPO')), []);
  t.strictSame(
    kinds(await reconciled(hub, 'from=2026-05-01T00:00:00Z&to=2026-05-03T00:00:00Z')),
    [['no_cdr', 'NL-CPO/S2', null]],
    'the CDR of S3 is of a later day, and known',
  );
  t.strictSame(kinds(await reconciled(hub, 'from=2026-05-01T00:00:00Z&grace_h=8760&to=2026-05-02T00:00:00Z')), []);
  for (const query of ['', 'from=yesterday', 'from=2026-05-01T00:00:00Z&grace_h=-1', 'from=2026-05-01T00:00:00Z&day=1'])
    await t.rejects(reconciled(hub, query), /422/, query);

  const run = (line: string) => runCommand(line.split(' '), { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken });
  const shown = await run('reconcile --from 2026-05-01');
  t.match(shown.out, /^2026-05-01 +NL-CPO +NL-EMS +2 +30\.3 +1 +10\.1 +1$/m);
  t.match(shown.out, /^energy_differs +2026-05-03 +BE-EMS +NL-CPO\/S3 +30 +NL-CPO\/C3 +31$/m);
  const { out } = await run('reconcile --from 2026-05-01 --csv');
  t.strictSame(out.split('\n').slice(0, 2), [
    'kind,day,cpo,emsp,session,cdr,session_kwh,cdr_kwh',
    'energy_differs,2026-05-03,NL-CPO,BE-EMS,NL-CPO/S3,NL-CPO/C3,30,31',
  ]);

  const credit = { credit: true, credit_reference_id: 'C1', session_id: 'S1', total_energy: -10.1 };
  await billed('CR1', 4, credit);
  t.strictSame(
    kinds(await reconciled(hub, 'from=2026-05-01T00:00:00Z&to=2026-05-02T00:00:00Z')),
    [
      ['no_cdr', 'NL-CPO/S1', null],
      ['no_cdr', 'NL-CPO/S2', null],
    ],
    'taken back behind the period, and billed no more',
  );
});

t.test('CDRs after the period count against the limit only when they matter to the period', async (t) => {
  const clock = new SimulatedClock('2026-05-01T08:00:00Z');
  let creditPages = 0;
  /** The days behind 1 May seem to have more CDRs than are compared at once; on demand, pages of credits. */
  const wrap = wrapStore((store) => ({
    list: async (query) => {
      const isLate = query.kind === 'cdrs' && (query.to ?? '') > '2026-05-03';
      const isFlooded = isLate && creditPages-- > 0;
      const page = await store.list(isFlooded ? { ...query, after: { upd: '2026-05-03', owner: '', id: '' } } : query);
      if (isFlooded) return { rows: Array(500).fill(page.rows[0]), total: 60_000, isLast: false };
      return isLate ? { ...page, total: page.total + 60_000 } : page;
    },
  }));
  const hub = await hubFor(t, { HUB_PROBE_INTERVAL_S: '864000' }, { clock, wrap });
  const { cpo } = await routedPair(t, hub);
  const billed = (id: string, day: number, fields: object) =>
    cpo.push('POST', '/2.2.1/cdrs', cdrBody(id, { last_updated: `2026-05-0${day}T10:00:00Z`, ...fields }));
  await billed('C1', 1, { session_id: 'S1' });
  await billed('C2', 2, { session_id: 'S1' });
  await billed('C3', 2, { session_id: 'S2' });
  await billed('C4', 2, { session_id: 'S2' });
  clock.advance(10 * 24 * 3_600_000);
  const query = 'from=2026-05-01T00:00:00Z&to=2026-05-02T00:00:00Z';
  const kinds = async () => (await reconciled(hub, query)).findings.map(({ kind, cdr }) => [kind, cdr]);
  t.strictSame(await kinds(), [
    ['no_session', 'NL-CPO/C1'],
    ['duplicate', 'NL-CPO/C2'],
  ]);
  await billed('CR1', 3, { credit: true, credit_reference_id: 'C1', session_id: 'S1' });
  t.strictSame(await kinds(), [], 'C1 is taken back, and S1 is not of that day');
  await t.rejects(reconciled(hub, 'from=2026-05-01T00:00:00Z&to=2026-05-04T00:00:00Z'), /60005 cdrs in that time/);
  creditPages = 101;
  await t.rejects(reconciled(hub, query), /more than 50000 later cdrs of that time/);
});
