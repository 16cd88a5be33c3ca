/**
 * E3: the way of an embedded hub into a database, `ocpi-hub store copy`, and back, `ocpi-hub store backup` of the hub that runs there and
 * `ocpi-hub store restore`. A hub on what came over goes on with what was under way: a delivery that was owed, a command whose result was
 * awaited, and a session that was watched since its stop.
 */
import { join } from 'node:path';
import { freePort } from '../../src/sandbox/free-port.ts';
import { locationBody, sessionBody } from '../support/bodies.ts';
import type { ChildHub } from '../support/child-hub.ts';
import { admin, eventually, plainPartner } from '../support/plain-partner.ts';
import { postgresHere } from '../support/postgres.ts';
import { startServer } from './cluster.ts';
import { copySite, keyOf, type Ran, ran, startCopied } from './copied.ts';
import { cpuS } from './processes.ts';
import type { Bench, Figures } from './run.ts';
import { ownDirectory, startMeasuredHub } from './scene.ts';
import { siteWith } from './site.ts';
import { rounded } from './statistics.ts';

const sizes = { objects: 100_000, pushes: 10, commands: 10_000 };
const shortSizes = { objects: 10_000, pushes: 10, commands: 1_000 };
const schema = 'moved';

export const moving: Bench = {
  name: 'moving',
  goal: 'E3',
  says: 'an embedded store into a database and back; what was under way goes on',
  async run(progress, { isShort }) {
    if (postgresHere === null) return { 'left out': 'no PostgreSQL server is installed here' };
    const site = await siteWith(isShort ? shortSizes : sizes, progress);
    const { server, end } = await startServer();
    const { directory, remove } = ownDirectory();
    const port = await freePort();
    const embedded = { HUB_PORT: `${port}`, HUB_PUBLIC_URL: `http://127.0.0.1:${port}`, HUB_RETRY_SCHEDULE_S: '1' };

    const first = await site.start({ env: embedded });
    const errands = await startErrands(first);
    await errands.give();
    await first.stop();
    const there = await copySite(server, site, schema);
    progress(`copied in ${rounded(there.seconds, 1)} s`);
    const second = await startCopied(server, site, schema, port);
    const wentOn = await errands.goOn(second);

    await errands.give();
    const { sequence } = await admin(second, 'GET', '/status');
    const token = { HUB_ADMIN_TOKEN: second.adminToken };
    const backup = join(directory, 'backup');
    const before = cpuS(second.pid);
    const saved = await ran(server, ['store', 'backup', backup, '--url', second.url], token);
    const savedCpuS = cpuS(second.pid) - before;
    await second.stop();
    const dataDir = join(directory, 'data');
    const restored = await ran(server, ['store', 'restore', backup, '--data-dir', dataDir]);
    progress(`back in ${rounded(saved.seconds + restored.seconds, 1)} s`);
    const third = await startMeasuredHub({ dataDir, port, env: { ...embedded, ...keyOf(site), ...token } });
    const wentOnBack = await errands.goOn(third);
    await third.stop();
    await errands.end();
    await end();
    remove();
    const [events = 0, rows = 0] = /(\d+) events, (\d+) rows/.exec(there.out)?.slice(1).map(Number) ?? [];
    return {
      ...{ events, rows },
      ...cost('store copy', there, events),
      'store copy: read back and the same': /the same/.test(there.out) ? 'yes' : 'no',
      ...cost('store backup of the hub there', saved, Number(sequence)),
      'store backup of the hub there: CPU of the hub, s': rounded(savedCpuS, 1),
      ...cost('store restore', restored, Number(sequence)),
      'went on in the database': wentOn,
      'went on after the way back': wentOnBack,
    };
  },
};

function cost(name: string, { seconds, commandS, databaseS }: Ran, events: number): Figures {
  return {
    [`${name}: s`]: rounded(seconds, 1),
    [`${name}: events per second`]: rounded(events / seconds, 0),
    [`${name}: CPU of the command, s`]: rounded(commandS, 1),
    [`${name}: CPU of PostgreSQL, s`]: rounded(databaseS, 1),
  };
}

interface Errands {
  /** Leaves a delivery owed, the result of a command awaited, and a session watched. */
  give(): Promise<void>;
  /** Resolves when all of that has gone on at a hub, with what it was. */
  goOn(hub: ChildHub): Promise<string>;
  end(): Promise<void>;
}

async function startErrands(hub: ChildHub): Promise<Errands> {
  let isAway = false;
  let asked = '';
  let number = 0;
  const cpo = await plainPartner({
    ...{ role: 'CPO', countryCode: 'NL', partyId: 'ECP' },
    answer({ path, body }) {
      if (path.endsWith('START_SESSION')) asked = (JSON.parse(body) as { response_url: string }).response_url;
      return path.includes('/commands/') ? { body: { result: 'ACCEPTED', timeout: 3600 } } : {};
    },
  });
  const emsp = await plainPartner({
    ...{ role: 'EMSP', countryCode: 'NL', partyId: 'EEM' },
    answer: () => (isAway ? { isCut: true } : {}),
  });
  for (const partner of [cpo, emsp]) await partner.register(hub);
  await admin(hub, 'PUT', `/routes/${emsp.id}/${cpo.id}`, { active: true });
  await cpo.push('PUT', '/2.2.1/locations/NL/ECP/LOC1', locationBody('LOC1', { party_id: 'ECP' }));

  const push = (id: string, status: string) => {
    const last_updated = new Date(Date.UTC(2026, 5, 1) + 1000 * number++).toISOString();
    return cpo.push('PUT', `/2.2.1/sessions/NL/ECP/${id}`, session(id, { status, last_updated }));
  };
  const watched = async (at: ChildHub) =>
    ((await admin(at, 'GET', '/orphans?state=GRACE')) as { items: { session: string }[] }).items.map(
      (item) => item.session,
    );
  let given = { watched: '', owed: '', resultFor: '', resultUrl: '' };
  return {
    async give() {
      const [stopped, owed] = [`W${number}`, `O${number}`];
      await push(stopped, 'ACTIVE');
      await emsp.got('the session', ({ path }) => path.endsWith(stopped));
      const stop = { response_url: `${emsp.url}/stopped`, session_id: stopped };
      await emsp.push('POST', '/2.2.1/commands/STOP_SESSION', stop);
      const resultFor = `${emsp.url}/result-${number}`;
      await emsp.push('POST', '/2.2.1/commands/START_SESSION', start(resultFor));
      isAway = true;
      await push(owed, 'ACTIVE');
      given = { watched: stopped, owed, resultFor, resultUrl: asked };
    },
    async goOn(at) {
      for (const partner of [cpo, emsp]) partner.moveTo(at);
      isAway = false;
      const isOwed = ({ path, body }: { path: string; body: string }) =>
        path.endsWith(given.owed) && body.includes(given.owed);
      const before = emsp.received.filter(isOwed).length;
      await eventually('what was owed arrives', () => emsp.received.filter(isOwed).length > before);
      const result = await fetch(given.resultUrl, {
        method: 'POST',
        headers: {
          authorization: `Token ${Buffer.from(cpo.hubToken).toString('base64')}`,
          'content-type': 'application/json',
        },
        body: JSON.stringify({ result: 'ACCEPTED' }),
      });
      if (!result.ok) throw new Error(`the result was answered ${result.status}`);
      await emsp.got('the result', ({ path }) => given.resultFor.endsWith(path));
      const name = `${cpo.id}/${given.watched}`;
      if (!(await watched(at)).includes(name)) throw new Error('the session is not watched any more');
      await push(given.watched, 'COMPLETED');
      await eventually('the watch ends', async () => !(await watched(at)).includes(name));
      return 'a delivery, a command, a watch';
    },
    async end() {
      for (const partner of [cpo, emsp]) await partner.close();
    },
  };
}

const card = { country_code: 'NL', party_id: 'EEM', uid: 'CARD1', type: 'RFID', contract_id: 'NL-EEM-C1' };
const session = (id: string, fields: object) => sessionBody(id, { party_id: 'ECP', cdr_token: card, ...fields });
const start = (response_url: string) => ({
  response_url,
  token: {
    ...card,
    ...{ issuer: 'EEM', valid: true, whitelist: 'ALLOWED', last_updated: '2026-06-01T00:00:00Z' },
  },
  ...{ location_id: 'LOC1', evse_uid: 'EVSE1' },
});
