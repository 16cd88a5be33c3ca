/**
 * The commands of support as people and scripts use them, against a hub: judged by what they print and how they end, one of each way in a
 * process of its own. [contract, Commands]
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { watched } from '../../src/cli/job.ts';
import { age, type Column, many, span, table } from '../../src/cli/table.ts';
import type { OrphanRecord } from '../../src/domain/orphan.ts';
import type { RunningHub } from '../../src/main.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import type { Row } from '../../storage/contract.ts';
import { sessionBody } from '../support/bodies.ts';
import { type Ended, runProcess } from '../support/command.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair } from '../support/hub-in-process.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, eventually, type PlainPartner, plainPartner, type Reply } from '../support/plain-partner.ts';
import { runCommand } from '../support/resident-command.ts';
import { commandRow, written } from '../support/rows.ts';
import { atLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { wrapStore } from '../support/store-with.ts';
import { type Test, t } from '../support/tap.ts';

const viewerToken = 'a-viewer-token-of-some-length-0123456789';

interface Stage {
  readonly hub: RunningHub;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  /** How the eMSP answers from now on. */
  answer: () => Reply;
  /** Runs `ocpi-hub {line}` with the admin token in the environment, unless told otherwise. */
  run(line: string, env?: Record<string, string>): Promise<Ended>;
  /** The same in a process of its own, which gets Ctrl-C once it has written `interruptAt`. */
  process(line: string, env?: Record<string, string>, interruptAt?: RegExp): Promise<Ended>;
}

const wordsOf = (line: string) =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '');

/** Several at once, each with what it was. */
const all = (lines: readonly string[], run: (line: string) => Promise<Ended>) =>
  Promise.all(lines.map(async (line) => ({ line, ...(await run(line)) })));

let looked: Promise<Stage> | undefined;
/** One for all tests of this file that only look at it. */
function untouched(): Promise<Stage> {
  looked ??= stage(t);
  return looked;
}

/** A hub with a CPO and two eMSPs that are routed to it. */
async function stage(t: Test): Promise<Stage> {
  const hub = await hubFor(t, { HUB_VIEWER_TOKEN: viewerToken });
  const env = { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken };
  const own: Stage = {
    hub,
    cpo: await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' }),
    emsp: await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: 'EMS', answer: () => own.answer() }),
    answer: () => ({}),
    run: (line, changed = {}) => runCommand(wordsOf(line), { ...env, ...changed }),
    process: (line, changed = {}, interruptAt) => runProcess(wordsOf(line), { ...env, ...changed }, interruptAt),
  };
  const other = await plainPartner({ role: 'EMSP', countryCode: 'DE', partyId: 'ABC' });
  for (const partner of [own.cpo, own.emsp, other]) {
    t.teardown(() => partner.close());
    await partner.register(hub);
  }
  for (const emsp of ['NL-EMS', 'DE-ABC']) await admin(hub, 'PUT', `/routes/${emsp}/NL-CPO`, { active: true });
  return own;
}

async function push({ cpo }: Stage, id: string, fields: object = {}): Promise<void> {
  const { json } = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, fields), {
    'X-Correlation-ID': `case-${id}`,
  });
  if (json.status_code !== 1000) throw new Error(JSON.stringify(json));
}

async function deadLetters(at: Stage, ids: readonly string[]): Promise<Record<string, unknown>[]> {
  at.answer = () => ({ status: 404, text: 'no such page' });
  for (const id of ids) await push(at, id);
  const dead = async () => (await admin(at.hub, 'GET', '/deliveries?state=DEAD')).items as Record<string, unknown>[];
  const isDead = async (id: string) => (await dead()).some(({ object }) => object === `NL-CPO/${id}`);
  for (const id of ids) await eventually(`${id} is a dead letter`, () => isDead(id));
  at.answer = () => ({});
  return dead();
}

/** Null: the connection is cut. */
type Refusal = { readonly status: number; readonly body: string } | null;

/** The address of a proxy in front of the hub that answers some requests itself. */
async function withRefusals(
  t: Test,
  { hub }: Stage,
  refusalOf: (path: string) => Refusal | undefined,
): Promise<string> {
  const between = createServer(async (request, answer) => {
    const { method = '', url = '', headers } = request;
    const refusal = refusalOf(url);
    if (refusal) return answer.writeHead(refusal.status).end(refusal.body);
    if (refusal === null) return request.socket.destroy();
    const { authorization = '' } = headers;
    const sent = { authorization, 'content-type': 'application/json' };
    const body = method === 'GET' ? undefined : await text(request);
    const reply = await fetch(`${hub.url}${url}`, { method, headers: sent, ...(body && { body }) });
    return answer.writeHead(reply.status, { 'content-type': 'application/json' }).end(await reply.text());
  });
  t.teardown(() => between.close());
  await once(between.listen(0, '127.0.0.1'), 'listening');
  return `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
}

t.test('lists are aligned tables, a bare noun lists, and --json is one document', async (t) => {
  const at = await untouched();
  const { code, out, err } = await at.run('parties');
  t.strictSame([code, err], [0, '']);
  const [titles = '', ...rows] = out.trimEnd().split('\n');
  t.match(titles, /^ID {6}STATUS {5}ROLES/);
  t.strictSame(
    rows.map((row) => row.split(/ {2,}/).slice(0, 3)),
    [
      ['DE-ABC', 'CONNECTED', 'EMSP DE-ABC'],
      ['NL-CPO', 'CONNECTED', 'CPO NL-CPO'],
      ['NL-EMS', 'CONNECTED', 'EMSP NL-EMS'],
    ],
  );
  for (const row of rows) t.equal(row.indexOf('CONNECTED'), titles.indexOf('STATUS'), 'columns stand in line');
  t.notMatch(out, '\u001b', 'no colour without a terminal');
  t.equal((await at.run('parties list')).out.split('\n').length, out.split('\n').length);
  t.notMatch(
    (await at.run('parties endpoints NL-EMS', { COLUMNS: '40' })).out,
    '…',
    'what is piped is whole, whatever COLUMNS says',
  );
  const nouns = ['parties', 'routes', 'deliveries', 'events', 'orphans', 'jobs', 'commands', 'status'];
  for (const { line: noun, ...answer } of await all(nouns, (noun) => at.run(`${noun} --json`))) {
    t.equal(answer.code, 0, noun);
    t.type(JSON.parse(answer.out), 'object', `${noun} --json is one JSON document`);
  }
  t.match((await at.run('parties show nl-e')).out, /^partner +NL-EMS\nstatus +CONNECTED\n/);
  const [csv, ndjson, tooMany] = await all(
    ['routes --cpo NL-CPO --csv', 'events list --type route.set --ndjson', 'commands --csv --limit 2000'],
    (line) => at.run(line),
  );
  t.strictSame([csv?.code, csv?.out], [0, 'emsp,cpo,active\nDE-ABC,NL-CPO,true\nNL-EMS,NL-CPO,true\n']);
  const { line: listed = '', ...told } = csv ?? { line: '' };
  t.strictSame(await at.process(listed), told, 'a process of its own writes the same');
  const events = ndjson?.out
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { type: string }).type);
  t.strictSame(events, ['route.set', 'route.set']);
  t.strictSame([tooMany?.code, tooMany?.out], [2, '']);
});

t.test('an empty list says on stderr what to do next', async (t) => {
  const at = await untouched();
  const nouns = ['deliveries', 'orphans', 'commands', 'jobs'];
  for (const { line: noun, code, out, err } of await all(nouns, (noun) => at.run(noun))) {
    t.strictSame([code, out], [0, ''], noun);
    t.match(err, /^(No|Every) [^\n]+\.\n$/, noun);
  }
});

t.test('trace shows arrival, receiver and attempts, and why something was not forwarded', async (t) => {
  const at = await stage(t);
  await push(at, 'S1');
  await push(at, 'S2', {
    cdr_token: { country_code: 'FR', party_id: 'XYZ', uid: 'C', type: 'RFID', contract_id: 'C' },
  });
  await eventually('S1 arrives', () => at.emsp.received.length === 1);
  const arrived = await at.run('trace NL-CPO/S1');
  t.match(
    arrived.out,
    /^NL-CPO\/S1: 1 step, oldest first\n\n\d{4}-\d\d-\d\dT[\d:]+Z \((now|\d+ s ago)\) {2}#\d+ {2}object\.put\n/,
  );
  t.match(arrived.out, / {4}NL-CPO sent PUT sessions S1: stored, owed to NL-EMS\n {4}correlation id case-S1\n/);
  t.match(arrived.out, / {4}→ NL-EMS {2}DELIVERED {2}\d+-NL-EMS\n/);
  const kept = await at.run('trace case-S2');
  t.match(kept.out, 'stored, no receiver');
  t.match(kept.out, '    not forwarded: its cdr_token names a party that is not an eMSP of this hub');
  t.match((await at.run('status not-forwarded')).out, /sessions NL-CPO\/S2 +NL-CPO +FR-XYZ +unknown eMSP/);
  t.match((await at.run('routes explain NL-CPO FR-XYZ sessions')).out, /are not delivered:\n(.*\n)* {2}NO {3}FR-XYZ/);
  const unknown = await at.run('trace NL-CPO/S3');
  t.strictSame([unknown.code, unknown.out], [1, '']);
  t.match(unknown.err, /^ocpi-hub: nothing is known of "NL-CPO\/S3": [^\n]+\n$/);
});

t.test(
  'dead letters are counted first, re-driven by filter only after a confirmation, and then arrive [D53]',
  async (t) => {
    const at = await stage(t);
    const dead = await deadLetters(at, ['D1', 'D2', 'D3']);
    t.equal(at.emsp.received.length, 3);
    const listed = await at.run('deliveries list --state DEAD --receiver NL-EMS');
    t.match(listed.out, /DEAD +NL-EMS +PUT sessions +NL-CPO\/D1 +1 +.* The partner answered HTTP 404/);
    const shown = await at.run(`deliveries show ${String(dead[0]?.seq)}`);
    t.match(shown.out, /^delivery +\d+-NL-EMS\nstate +DEAD\n/, 'the sequence alone names its only delivery');
    t.match(shown.out, / 404 +– +not_found +no such page\n/, 'with the attempt');

    const dry = await at.run('redrive --receiver NL-EMS --module sessions --dry-run');
    t.equal(dry.code, 0);
    t.match(dry.out, /^3 matched, 0 of them stale\n\nRECEIVER {2}DELIVERIES\nNL-EMS {13}3\n/);
    t.equal(
      (JSON.parse((await at.run('redrive --state DEAD --dry-run --json')).out) as { matched: number }).matched,
      3,
    );
    const unasked = await at.run('redrive --receiver NL-EMS');
    t.equal(unasked.code, 2);
    t.match(unasked.out, /^3 matched/);
    t.match(unasked.err, /^ocpi-hub: nothing was re-driven: give --yes [^\n]+\n$/);
    t.equal(at.emsp.received.length, 3, 'nothing was sent yet');

    const done = await at.run('redrive --receiver NL-EMS --yes');
    t.equal(done.code, 0);
    t.match(done.out, /\n3 re-driven by job \S+; ocpi-hub deliveries list shows how they go\n$/);
    t.match(done.err, /^(\d of 3\n)*3 of 3\n$/, 'progress is lines without a terminal');
    await eventually('they arrive', () => at.emsp.received.length === 6);
    t.strictSame(
      at.emsp.received
        .slice(3)
        .map(({ path }) => path.split('/').at(-1))
        .sort(),
      ['D1', 'D2', 'D3'],
    );
    t.match(
      (await at.run('trace case-D1')).out,
      /1\. .* not_found HTTP 404 .*\n +2\. .* delivered HTTP 200, OCPI 1000 /,
    );
    t.match((await at.run('jobs')).out, /redrive +DONE +3 +0 /);

    const nothing = await at.run('redrive --receiver NL-EMS --yes');
    t.equal(nothing.code, 0);
    t.match(nothing.out, /^0 matched/);
    t.match(nothing.err, /^Nothing matches: nothing was re-driven\./);
    const counted = await at.run('redrive --receiver NL-EMS --dry-run --json');
    t.match(
      counted,
      { code: 0, out: /"matched":0/, err: /^Nothing matches: / },
      'stdout is for a program, stderr for people',
    );

    await deadLetters(at, ['D4']);
    let died = 0;
    const between = createServer(async (request, answer) => {
      const { method = '', url, headers } = request;
      const body = await text(request);
      if (body.includes('"dry_run":false')) died = (await deadLetters(at, ['D5'])).length;
      const { authorization = '' } = headers;
      const sent = {
        method,
        headers: { authorization, 'content-type': 'application/json' },
        ...(body !== '' && { body }),
      };
      const reply = await fetch(`${at.hub.url}${url}`, sent);
      answer.writeHead(reply.status, { 'content-type': 'application/json' }).end(await reply.text());
    });
    t.teardown(() => between.close());
    await once(between.listen(0, '127.0.0.1'), 'listening');
    const HUB_URL = `http://127.0.0.1:${(between.address() as AddressInfo).port}`;
    t.match((await at.run('redrive --receiver NL-EMS --yes', { HUB_URL })).out, /\n1 re-driven by job/);
    t.equal(died, 2, 'what died after the count stays dead [PUT-BACK-1]');
  },
);

t.test('a re-drive that skips everything it finds says that nothing was re-driven', atLength, async (t) => {
  const at = await stage(t);
  await deadLetters(at, ['K1']);
  await push(at, 'K1', { kwh: 2, last_updated: '2026-01-02T03:05:05Z' });
  const delivered = async () => (await admin(at.hub, 'GET', '/deliveries?state=DELIVERED')).items as unknown[];
  await eventually('the receiver has a newer version', async () => (await delivered()).length === 1);
  for (const json of ['', ' --json']) {
    const skipped = await at.run(`redrive --receiver NL-EMS --yes${json}`);
    t.match(skipped, { code: 0, out: json ? /"skipped_stale":1/ : /\n0 re-driven by job .*\n1 skipped: / });
    t.match(skipped.err, /Nothing was re-driven: every delivery that matches was skipped\.\n$/);
  }
});

t.test('views are saved, listed and removed', async (t) => {
  const at = await stage(t);
  t.match((await at.run('views')).err, /^No view is saved\./);
  const saved = await at.run('views save "dead CDRs" /deliveries?state=DEAD&module=cdrs');
  t.strictSame([saved.code, saved.out], [0, 'dead CDRs is saved: /deliveries?state=DEAD&module=cdrs\n']);
  t.match(
    (await at.run('views')).out,
    /^NAME +PATH +BY +SAVED\ndead CDRs +\/deliveries\?state=DEAD&module=cdrs +admin +/,
  );
  t.equal((await at.run('views save elsewhere https://example.com')).code, 2);
  t.equal((await at.run('views remove "dead CDRs"')).out, 'dead CDRs is removed\n');
  t.match((await at.run('views')).err, /^No view is saved\./);
});

t.test('a group of dead letters gets an assignee', async (t) => {
  const at = await stage(t);
  await deadLetters(at, ['W1', 'W2']);
  const group = 'deliveries triage NL-EMS sessions not_found';
  const nothing = await at.run(group);
  t.strictSame([nothing.code, /expected --assign, --snooze, --no-snooze or --remark/.test(nothing.err)], [2, true]);
  const set = await at.run(`${group} --assign ann --snooze 4h --remark called`);
  t.match(set.out, /^NL-EMS sessions not_found: ann, snoozed until \S+ \(in [^)]+\), “called”\n$/);
  t.match(
    (await at.run('deliveries dead --assignee ann')).out,
    /NL-EMS +sessions +not_found +2 .* ann, snoozed until /,
  );
  t.match((await at.run('deliveries dead --assignee bob')).err, /No dead letter is assigned to bob/);
  const free = await at.run(`${group} --assign= --no-snooze`);
  t.equal(free.out, 'NL-EMS sessions not_found: “called”\n');
  const unknown = await at.run('deliveries triage NL-EMS sessions timeout --assign ann');
  t.equal(unknown.code, 1);
  t.match(unknown.err, /no such thing under this id/);
});

t.test('dead letters are discarded by filter only after a confirmation, or one by its id', async (t) => {
  const at = await stage(t);
  const dead = await deadLetters(at, ['G1', 'G2', 'G3']);
  const dry = await at.run('discard --class not_found --dry-run');
  t.strictSame([dry.code, dry.out.split('\n')[0]], [0, '3 matched']);
  for (const verb of ['redrive', 'discard', 'replay --from 1h'])
    for (const [sender, matched] of [
      ['nl-cpo', 3],
      ['DE-ABC', 0],
    ] as const) {
      const { out } = await at.run(`${verb} --sender ${sender} --dry-run`);
      t.match(out, new RegExp(`^${matched} matched`), `${verb} by sender`);
    }
  t.match(await at.run('deliveries --sender DE-ABC'), { out: '', err: /^No delivery matches/ });
  const unasked = await at.run('discard --class not_found');
  t.strictSame([unasked.code, /nothing was discarded: give --yes/.test(unasked.err)], [2, true]);
  t.equal((await at.run('deliveries list --state DISCARDED --json')).out, '{"items":[],"next_cursor":null}\n');
  const id = String(dead[0]?.id);
  const one = await at.run(`discard ${id} --reason trial`);
  t.strictSame([one.code, one.out], [0, `${id} was discarded; ocpi-hub redrive ${id} sends it all the same\n`]);
  const done = await at.run('discard --receiver NL-EMS --yes');
  t.match(done.out, /\n2 discarded by job \S+\n$/);
  t.match((await at.run('jobs')).out, /discard +DONE +2 +0 /);
  t.match((await at.run('deliveries dead')).err, /There are no dead letters/);
  t.match((await at.run('deliveries --state discarded')).out, /DISCARDED +NL-EMS +PUT sessions +NL-CPO\/G1 .*HTTP 404/);
  t.match((await at.run('redrive --receiver NL-EMS --dry-run')).out, /^0 matched/);
  t.equal(at.emsp.received.length, 3);
});

t.test('one delivery is re-driven by its id; replay sends delivered ones again', async (t) => {
  const at = await stage(t);
  const [dead] = await deadLetters(at, ['R1']);
  const id = String(dead?.id);
  const one = await at.run(`redrive ${id}`);
  t.strictSame([one.code, one.out], [0, `${id} was re-driven: ocpi-hub deliveries show ${id} shows how it goes\n`]);
  t.strictSame((await admin(at.hub, 'GET', '/audit?verb=GET')).items, [], 'nobody has read its body');
  await eventually('it arrives', () => at.emsp.received.length === 2);
  const seq = String(dead?.seq);
  const replayed = await at.run(`replay --from-seq ${seq} --to-seq ${seq} --yes --json`);
  t.equal(replayed.code, 0);
  t.match(JSON.parse(replayed.out), { kind: 'redrive', state: 'DONE', queued: 1 });
  await eventually('it arrives again', () => at.emsp.received.length === 3);
});

t.test('setting a rule again names the dead letters of the time without it, and how to send them', async (t) => {
  const at = await stage(t);
  await admin(at.hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  await push(at, 'R1');
  t.notMatch((await at.run('routes set NL-EMS NL-CPO --inactive')).err, 'dead letter');
  t.match((await at.run('events list --type route')).out, /route:NL-EMS\/NL-CPO NL-EMS NL-CPO inactive/);
  t.match((await at.run('events list --type partner.changed')).out, /partner:NL-EMS paused=true/);
  await admin(at.hub, 'PATCH', '/parties/NL-EMS', { paused: false });
  const dead = async () => (await admin(at.hub, 'GET', '/deliveries?state=DEAD')).items as object[];
  await eventually('it is dead', async () => (await dead()).length === 1);
  t.match(await at.run('routes set NL-EMS NL-CPO'), {
    out: /^NL-EMS and NL-CPO are joined; no session or CDR was kept/,
    err: '1 delivery to NL-EMS became a dead letter while there was no rule: ocpi-hub redrive --receiver NL-EMS --sender NL-CPO --class not_found sends what is dead',
  });
  await admin(at.hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: false });
  const busy = { status: 503, body: '{"detail":"the hub is busy"}' };
  const HUB_URL = await withRefusals(t, at, (path) => (path.includes('/deliveries') ? busy : undefined));
  t.match(
    await at.run('routes set NL-EMS NL-CPO', { HUB_URL }),
    {
      code: 0,
      out: /^NL-EMS and NL-CPO are joined; /,
      err: 'dead letters could not be looked for (the hub refuses: the hub is busy): ocpi-hub deliveries list --state DEAD --receiver NL-EMS --sender NL-CPO --class not_found lists them',
    },
    'the rule is set though the look for dead letters fails',
  );
  t.match(await itemsOf(at.hub, '/routes?emsp=NL-EMS'), [{ active: true }]);
});

t.test('a re-drive to a partner that is suspended says what it skipped, and so do the jobs', async (t) => {
  const at = await stage(t);
  await deadLetters(at, ['U1', 'U2']);
  await admin(at.hub, 'PATCH', '/parties/NL-EMS', { paused: true });
  await push(at, 'U3');
  await admin(at.hub, 'POST', '/parties/NL-EMS/suspend', {});
  const unsent = async () => (await admin(at.hub, 'GET', '/deliveries?state=DEAD&object=NL-CPO/U3')).items as object[];
  await eventually('it is dead', async () => (await unsent()).length === 1);
  const [{ id: third } = { id: '' }] = (await unsent()) as { id: string }[];
  t.match((await at.run(`deliveries show ${third}`)).out, /reason +suspended.*\nIt was never sent\.\n/s);
  const skipping = await at.run('redrive --receiver NL-EMS --yes');
  t.equal(skipping.code, 0);
  t.match(
    skipping.out,
    /^0 re-driven by job .*\n3 skipped: the receiver is not registered, so nothing can be sent to it$/m,
  );
  t.match((await at.run('jobs')).out, /redrive +DONE +0 +3 /);
  const { id } = JSON.parse((await at.run('jobs list --json')).out).items[0] as { id: string };
  t.match((await at.run(`jobs show ${id}`)).out, /skipped +0 stale, 0 on their way, 3 .*not registered/);
});

t.test(
  'events show who acted and about what; removing a route twice succeeds, and a misspelt one is refused [D77, D80]',
  async (t) => {
    const at = await stage(t);
    await admin(at.hub, 'POST', '/parties/NL-EMS/circuits/sessions', { state: 'open' });
    await eventually('it is recorded', async () => {
      const { items } = await admin(at.hub, 'GET', '/events?type=circuit');
      return (items as object[]).length === 1;
    });
    t.match(
      (await at.run('events --party nl-ems --type circuit')).out,
      /circuit\.opened +admin +partner:NL-EMS opened by an operator async sessions/,
    );
    t.match((await at.run('events --about partner:DE-ABC --json')).out, /"type":\s*"partner\.registered"/);
    at.answer = () => ({ body: { allowed: 'BLOCKED' } });
    const asked = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
    await at.cpo.call('POST', '/2.2.1/tokens/CARD/authorize', undefined, asked);
    await eventually('the authorization is listed', async () =>
      /token\.authorized .* BLOCKED /.test((await at.run('events --type token.authorized')).out),
    );
    for (let time = 0; time < 2; time++) {
      const { code, out } = await at.run('routes remove DE-ABC NL-CPO');
      t.strictSame([code, out], [0, 'DE-ABC and NL-CPO are no longer routed\n']);
    }
    const misspelt = await at.run('routes remove DE-ABD NL-CPO');
    t.equal(misspelt.code, 1);
    t.match(misspelt.err, /no EMSP party DE-ABD/);
  },
);

t.test('Ctrl-C asks the hub to cancel a re-drive', async (t) => {
  const at = await stage(t);
  await deadLetters(at, ['C1', 'C2', 'C3', 'C4', 'C5']);
  const { code, out, err } = await at.process('redrive --state DEAD --rate 0.1 --yes', {}, /^1 of 5$/m);
  t.equal(code, 1);
  t.match(out, /\n1 re-driven by job /);
  t.match(err, /ocpi-hub: the job \S+ ended CANCELED\n$/);
});

t.test('a re-drive whose hub becomes unreachable names its job; one whose progress is refused says why', async (t) => {
  const at = await stage(t);
  await deadLetters(at, ['L1', 'L2', 'L3', 'L4', 'L5', 'L6']);
  let refusal: Refusal = null;
  const url = await withRefusals(t, at, (path) => (path.includes('/redrives/') ? refusal : undefined));
  const redrive = () => at.run('redrive --state DEAD --rate 0.1 --yes', { HUB_URL: url });
  const { code, err } = await redrive();
  t.equal(code, 1);
  const begun = /; the job (\S+) has begun, and ocpi-hub jobs show \1 shows how far it came\n$/;
  t.match(err, new RegExp(`cannot be reached .*${begun.source}`));
  for (const [status, said] of [
    [503, begun],
    [401, /the hub does not know this token[^;]*\n$/],
    [404, /the hub refuses: it is gone\n$/],
  ] as const) {
    refusal = { status, body: JSON.stringify({ detail: 'it is gone' }) };
    t.match(await redrive(), { code: 1, err: said }, `${status}`);
  }
});

t.test('progress is shown until the end, and a failed refresh ends the line', async (t) => {
  const told: string[] = [];
  const progress = {
    show: (_done: number, _of: number, words: string) => void told.push(words),
    end: () => void told.push('end'),
  };
  const watch = (look: () => Promise<{ state: string }>) =>
    watched({ progress: () => progress }, { state: 'RUNNING' }, look, ({ state }) => state);
  t.strictSame(await watch(async () => ({ state: 'DONE' })), { state: 'DONE' });
  await t.rejects(
    watch(() => Promise.reject(new Error('the hub is gone'))),
    { message: 'the hub is gone' },
  );
  t.strictSame(told, ['RUNNING', 'end', 'RUNNING', 'end']);
});

t.test(
  'beginnings of ids are completed; ambiguous ones list the candidates and exit with 2, unknown ones with 1',
  async (t) => {
    const at = await untouched();
    const ambiguous = await at.run('parties show NL');
    t.strictSame([ambiguous.code, ambiguous.out], [2, '']);
    t.equal(ambiguous.err, 'ocpi-hub: "NL" may be any of these, say more of the id:\n  NL-CPO\n  NL-EMS\n');
    const unknown = await at.run('deliveries show 99999-NL-EMS');
    t.strictSame([unknown.code, unknown.out], [1, '']);
    t.match(unknown.err, 'there is no delivery "99999-NL-EMS": ocpi-hub deliveries list shows those there are');
  },
);

t.test('the id of any party of a partner selects the partner, also for changes', async (t) => {
  const hub = await hubFor(t);
  const others = [{ role: 'EMSP', country_code: 'NL', party_id: 'BBB' }] as const;
  await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'AAA', others });
  const run = (line: string) => runCommand(wordsOf(line), { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken });
  t.match(await run('parties show nl-bbb'), { code: 0, out: /^partner +NL-AAA\n/ });
  t.match(await run('parties probe NL-BBB'), { code: 0, out: /^reachable after / });
  t.match(await run('parties pause NL-BBB'), { code: 0, out: /^deliveries to NL-AAA wait/ });
  t.match(await run('parties report NL-BBB'), { code: 0 });
  const refused = await run('parties suspend NL-BBB');
  t.match(refused, {
    code: 2,
    err: /NL-BBB is a party of NL-AAA, .* with all its parties \(NL-AAA, NL-BBB\): give --yes/,
  });
  t.match(await run('parties suspend NL-BBB --yes'), { code: 0, out: /^NL-AAA is SUSPENDED with all its parties/ });
  t.match(await run('parties resume NL-BBB'), { code: 0, out: /^NL-AAA is SUSPENDED: nothing is owed to it/ });
  const nothing = await run('replay --from 1h --dry-run');
  t.match(nothing.err, /^Nothing matches: nothing was re-driven\. ocpi-hub deliveries list shows what could be\.$/m);
});

t.test('an open case is found by its id or the beginning of it, behind thousands of resolved ones', async (t) => {
  const clock = new SimulatedClock('2026-01-02T03:04:05Z');
  let resolved: Row[] = [];
  const wrap = wrapStore((store) => ({
    async *scan(...of) {
      if (of[0] === 'orphans') yield* resolved;
      yield* store.scan(...of);
    },
  }));
  const hub = await hubFor(t, { HUB_ORPHAN_CDR_AFTER_S: '60' }, { clock, wrap });
  const { cpo } = await routedPair(t, hub);
  for (const id of ['S1', 'S2']) {
    await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, { status: 'COMPLETED' }));
  }
  for (let n = 0; n < 120 && (await itemsOf(hub, '/orphans')).length < 2; n++) {
    clock.advance(30_000);
    await hub.settled();
  }
  const [first, second] = await itemsOf(hub, '/orphans');
  const row = await hub.created.context.store.get({ kind: 'orphans', owner: 'NL-CPO', id: String(first?.id) });
  resolved = Array.from({ length: 5001 }, (_, n) => {
    const id = `${String(first?.id).slice(0, 4)}${n}`;
    const data = { ...(row?.data as OrphanRecord), id, openedAt: '2025-01-01T00:00:00.000Z', state: 'RESOLVED' };
    return { ...(row as Row), id, data };
  });
  const run = (line: string) => runCommand(wordsOf(line), { HUB_URL: hub.url, HUB_ADMIN_TOKEN: hub.adminToken });
  t.match(await run(`orphans triage ${String(first?.id).slice(0, 8)} --assign ann`), { code: 0, out: /ann/ });
  t.match(await run(`orphans resolve ${second?.id}`), { code: 0, out: /RESOLVED/ });
  t.match(await run(`orphans resolve ${second?.id}`), { code: 1, err: /not open/ });
  t.match(await run(`orphans resolve ${randomUUID()}`), { code: 1, out: '' });
});

t.test('every error is one clear line; the exit code is 1 for a failure, 2 for wrong usage', async (t) => {
  const at = await untouched();
  const free = await freePort();
  const elsewhere = createServer(({ url = '' }, answer) => {
    if (url.includes('/parties')) return answer.writeHead(308, { location: `https://hub.example${url}` }).end();
    answer.writeHead(200, { 'content-length': 1000 }).write('{', () => answer.socket?.resetAndDestroy());
    return answer;
  });
  t.teardown(() => elsewhere.close());
  await once(elsewhere.listen(0, '127.0.0.1'), 'listening');
  const { port } = elsewhere.address() as AddressInfo;
  const barred = directoryFor(t);
  mkdirSync(join(barred, 'admin-token'));
  const cases: [line: string, env: Record<string, string>, code: number, words: RegExp][] = [
    ['parties', { HUB_URL: `http://127.0.0.1:${free}` }, 1, /cannot be reached \(ECONNREFUSED\)/],
    ['parties', { HUB_URL: `http://127.0.0.1:${port}` }, 1, /answers HTTP 308 and names https:\/\/hub\.example:/],
    ['routes', { HUB_URL: `http://127.0.0.1:${port}` }, 1, /cannot be reached \((ECONNRESET|aborted)\)/],
    ['parties', { HUB_ADMIN_TOKEN: 'wrong' }, 1, /does not know this token/],
    ['parties --token -Vjb3x8Jq2LwYc0nTz5uRkE7oHs9aGdM', {}, 1, /does not know this token/],
    ['parties', { HUB_ADMIN_TOKEN: '', HUB_DATA_DIR: directoryFor(t) }, 1, /wants a token: give --token/],
    [
      'parties',
      { HUB_ADMIN_TOKEN: '', HUB_DATA_DIR: barred },
      1,
      /wants a token, and .*admin-token cannot be read \(E\w+\)/,
    ],
    [
      'parties suspend NL-EMS --yes',
      { HUB_ADMIN_TOKEN: viewerToken },
      1,
      /needs the role operator, and the token of viewer/,
    ],
    ['routes set NL-XXX NL-CPO', {}, 1, /no EMSP party NL-XXX/],
    ['redrive', {}, 2, /expected a delivery id or a filter/],
    ['redrive --module session --dry-run', {}, 2, /--module .*expected one of locations/],
    ['redrive 1-NL-EMS --rate 5', {}, 2, /a delivery id excludes filters, --dry-run and --rate/],
    ['events list --follow --csv', {}, 2, /--follow excludes --csv/],
    ['discard', {}, 2, /expected a delivery id or a filter/],
    ['replay --yes', {}, 2, /say which stretch/],
    ['parties add NL-TNM', {}, 2, /--role is missing/],
    ['deliveries list --from yesterday', {}, 2, /--from .*2h/],
    ['deliveries frobnicate', {}, 2, /unknown word "frobnicate": deliveries takes list, dead, triage, show/],
    ['deliveries list --receiver nobody', {}, 2, /expected \{country_code\}-\{party_id\}/],
    ['parties --url nowhere', {}, 2, /--url is "nowhere"/],
    ['parties --frob', {}, 2, /unknown option '--frob'/],
  ];
  const answers = await Promise.all(cases.map(([line, env]) => at.run(line, env)));
  for (const [index, [line, , code, words]] of cases.entries()) {
    const { err, ...ended } = answers[index] ?? { err: '' };
    t.strictSame(ended, { code, out: '' }, line);
    t.match(err.split('\n')[0], words, line);
  }
  const [failed, misused] = await Promise.all([at.process('routes set NL-XXX NL-CPO'), at.process('redrive')]);
  t.strictSame([failed.code, failed.out, misused.code, misused.out], [1, '', 2, ''], 'a process ends so');
  t.match([failed.err, misused.err], [/^ocpi-hub: .*no EMSP party NL-XXX/, /^ocpi-hub: expected a delivery id/]);
  t.equal((await at.run('parties', { HUB_ADMIN_TOKEN: viewerToken })).code, 0, 'a viewer may list');
});

t.test('without a token in the environment, that of the data directory is used silently', async (t) => {
  const dataDir = directoryFor(t);
  const hub = await hubFor(t, {}, {}, dataDir);
  const { code, out, err } = await runCommand(wordsOf(`status --url ${hub.url} --data-dir ${dataDir}`));
  t.strictSame([code, err], [0, '']);
  t.match(out, /^hub +\d.*\naccepting +yes\nstore +open\n/);
  t.notMatch(out, hub.adminToken);
});

t.test('events are followed as NDJSON until Ctrl-C', atLength, async (t) => {
  const at = await stage(t);
  const following = at.process('events list --follow --object NL-CPO/F2', {}, /F2/);
  await push(at, 'F1');
  await push(at, 'F2');
  const { code, out } = await following;
  t.equal(code, 0);
  t.match(
    out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as object),
    [{ type: 'object.put', object: 'NL-CPO/F2' }],
  );
  t.match(
    (await at.run('events --type object --limit 1')).out,
    /^SEQ .*\n +\d+ .* object\.put +NL-CPO +PUT sessions NL-CPO\/F2 +case-F2\n$/,
  );
});

t.test('events --follow continues after the last scanned event, also after the hub was away', atLength, async (t) => {
  const pages = [
    { seqs: [7], last_seq: 8, next_cursor: '7' },
    { seqs: [9, 12], last_seq: 12, next_cursor: '12' },
    { seqs: [], last_seq: 14, next_cursor: null },
    { seqs: [15], last_seq: 16, next_cursor: null },
  ];
  const asked: (string | null)[] = [];
  const faults = ['cut', '503'];
  const hub = createServer(({ url, socket }, response) => {
    const fault = asked.length === 3 ? faults.shift() : undefined;
    if (fault === 'cut') return void socket.destroy();
    if (fault === '503') return void response.writeHead(503).end('{"detail":"no node can answer this now"}');
    const { seqs, ...page } = pages[asked.length] ?? { seqs: [], last_seq: 16, next_cursor: null };
    asked.push(new URL(url ?? '', 'http://hub').searchParams.get('after'));
    const items = seqs.map((seq) => ({ seq, at: '2026-01-01T00:00:00.000Z', type: 'object.put', data: null }));
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ items, ...page, kept_from: 1 }));
  });
  await once(hub.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => hub.close());
  const { port } = hub.address() as AddressInfo;
  const env = { HUB_URL: `http://127.0.0.1:${port}`, HUB_ADMIN_TOKEN: 'any' };
  const { out, err } = await runProcess(wordsOf('events list --follow --limit 1'), env, /"seq":15,/);
  const seqs = [...out.matchAll(/"seq":(\d+)/g)].map(([, seq]) => Number(seq));
  t.strictSame(seqs, [7, 9, 12, 15]);
  t.strictSame(asked.slice(0, 4), [null, '8', '12', '14']);
  t.match(
    err,
    /^ocpi-hub: .* cannot be reached .*; asking again until it answers\n$/,
    'once for as long as it is away',
  );
  t.strictSame(faults, []);
});

t.test('endpoints that an operator sets win, stay when another one is set, and can be withdrawn [D13]', async (t) => {
  const at = await stage(t);
  await at.run('parties endpoints NL-EMS --set cdrs=https://emsp.example/cdrs');
  const set = await at.run('parties endpoints NL-EMS --set sessions=https://emsp.example/sessions');
  t.match(set.out, /cdrs +RECEIVER +https:\/\/emsp\.example\/cdrs +operator\n/);
  t.match(set.out, /sessions +RECEIVER +https:\/\/emsp\.example\/sessions +operator\n/);
  const unset = await at.run('parties endpoints NL-EMS --unset Sessions');
  t.notMatch(unset.out, 'emsp.example/sessions');
  t.match(unset.out, 'emsp.example/cdrs');
});

t.test('partner settings are listed with their meaning, and can be set in every form', async (t) => {
  const at = await stage(t);
  const changed = await at.run(
    'parties set NL-CPO silent_after_h=168 link_prev=false hidden_modules=tariffs,tokens compatibility_until=2031-05-06T07:08:00Z',
  );
  t.equal(changed.code, 0, changed.err);
  const { out } = await at.run('parties set NL-CPO');
  t.match(out, /^silent_after_h +168 +hours, none +hours without a push/m);
  t.match(out, /^link_prev +false +true, false /m);
  t.match(out, /^hidden_modules +tariffs,tokens /m);
  t.match(out, /^compatibility_until +2031-05-06T07:08:00/m);
  await at.run('parties set NL-CPO silent_after_h=none link_prev=default hidden_modules=none compatibility_until=none');
  const back = (await at.run('parties set NL-CPO')).out;
  t.match(back, /^silent_after_h +none /m);
  t.match(back, /^hidden_modules +none /m);
  for (const [line, code, message] of [
    ['parties set NL-CPO silent_after_h=often', 2, /silent_after_h.*number/],
    ['parties set NL-CPO silent=5', 2, /settings are token_encoding, .*silent_after_h/],
  ] as const) {
    const refused = await at.run(line);
    t.equal(refused.code, code, line);
    t.match(refused.err, message);
  }
});

t.test('a partner is added, suspended and admitted again', async (t) => {
  const at = await stage(t);
  const added = await at.run('parties add NL-TNM --role CPO --role EMSP --name "Example Charging"');
  t.match(added.out, /^initial token of NL-TNM, shown only once:\n\n {2}\S{20,}\n/);
  t.match((await at.run('parties show NL-TNM')).out, /^name +Example Charging$/m);
  t.match(await at.run('parties set NL-TNM --name "Renamed Charging" link_prev=false'), {
    code: 0,
    out: /link_prev +false/,
  });
  t.match((await at.run('parties show NL-TNM')).out, /^name +Renamed Charging$/m);
  t.match(await at.run('parties set NL-TNM --name ""'), { code: 2, err: /business_details.name/ });
  const twoNames = ['One', 'Two'].map((name, n) => {
    return {
      role: 'CPO',
      country_code: 'BE',
      party_id: `TW${n}`,
      business_details: { name, website: `https://${name}.example` },
    };
  });
  await admin(at.hub, 'POST', '/parties', { roles: twoNames });
  t.match(await at.run('parties set BE-TW0 link_prev=false --name Both'), {
    code: 1,
    err: /nothing was changed: parties of BE-TW0 have business details of their own \(One, Two\)/,
  });
  t.match(await admin(at.hub, 'GET', '/parties/BE-TW0'), { roles: twoNames, settings: { link_prev: true } });
  t.match((await at.run('parties show NL-TNM')).out, /roles +CPO NL-TNM, EMSP NL-TNM\n/);
  t.match((await at.run('parties suspend NL-EMS')).out, /^NL-EMS is SUSPENDED; ocpi-hub parties initial-token NL-EMS /);
  const token = /^ {2}(\S+)$/m.exec((await at.run('parties initial-token NL-EMS')).out)?.[1] ?? '';
  await at.emsp.registerAgain(token);
  t.match((await at.run('parties show NL-EMS')).out, /status +CONNECTED\n/);
});

t.test('a command is shown with its session and with the reason why it has no result', async (t) => {
  const at = await stage(t);
  await written(at.hub, [commandRow(1, { result: null, state: 'silent', sessionId: 'S7', reason: 'nothing came' })]);
  t.match((await at.run('commands')).out, /silent +nothing came +S7 /);
  t.match((await at.run('commands show c1')).out, /\nreason +nothing came\nsession +S7\n/);
});

t.test('parties cancel-pull ends the running pull, and prints what it has stored [PULLS-6]', async (t) => {
  const at = await stage(t);
  let release = (_reply: Reply) => {};
  const held = new Promise<Reply>((resolve) => {
    release = resolve;
  });
  const slow = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'SLO', answer: () => held });
  t.teardown(() => slow.close());
  t.teardown(() => release({ body: [] }));
  await slow.register(at.hub);
  await admin(at.hub, 'POST', '/parties/NL-SLO/pull/locations');
  const none = await at.run('parties cancel-pull NL-SLO tariffs');
  t.match([none.code, none.err], [1, /no pull of the tariffs of NL-SLO runs/]);
  const { code, out } = await at.run('parties cancel-pull NL-SLO locations');
  t.match([code, out], [0, /^canceled: 0 received in 0 pages: 0 stored/]);
  t.equal((await at.run('parties cancel-pull NL-SLO locations')).code, 1, 'it runs no more');
});

t.test('spans below a second, the present instant and singulars are worded correctly', (t) => {
  t.strictSame(
    [span(0.4), span(61), age('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:00:00.9Z'))],
    [...['less than 1 s', '1 min', 'now']],
  );
  t.strictSame([many(1, 'request'), many(2, 'delivery is', 'deliveries are')], ['1 request', '2 deliveries are']);
  t.end();
});

t.test('a table fits a narrow terminal: columns that may shrink do so, the widest first', async (t) => {
  interface Item {
    readonly id: string;
    readonly text: string;
  }
  const columns: Column<Item>[] = [
    { title: 'id', of: ({ id }) => id },
    { title: 'text', of: ({ text }) => text, shrinksTo: 6 },
  ];
  const items = [{ id: '12-NL-EMS', text: 'a long text\nwith a line break' }];
  const lines = (width: number) => table(columns, items, { width, paint: (_colour, text) => text, now: 0 });
  t.strictSame(lines(Infinity), ['ID         TEXT', '12-NL-EMS  a long text with a line break']);
  t.strictSame(lines(20), ['ID         TEXT', '12-NL-EMS  a long t…']);
  t.strictSame(lines(5), ['ID         TEXT', '12-NL-EMS  a lon…'], 'ids are never cut');
});

t.test('parties roles adds a role and removes it, and says what is next', async (t) => {
  const at = await stage(t);
  const added = await at.run('parties roles NL-CPO --add EMSP --reason "contract 12"');
  t.equal(added.code, 0, added.err);
  t.match(
    added.out,
    /^CPO +NL-CPO +CPO +yes\nEMSP +NL-CPO +CPO +no: others see PLANNED\n\nIts next PUT of credentials has to name EMSP NL-CPO;/m,
  );
  t.match((await at.run('parties show NL-CPO')).out, /^left out +EMSP NL-CPO: its credentials do not name it/m);
  for (const [line, code, err] of [
    ['parties roles NL-CPO --add EMSP', 1, /NL-CPO has EMSP NL-CPO already/],
    ['parties roles NL-CPO --remove CPO:NL-XYZ', 1, /NL-CPO does not have CPO NL-XYZ/],
    ['parties roles NL-CPO --add HUB', 2, /"HUB": expected CPO or EMSP/],
    ['parties roles NL-CPO --remove CPO', 1, /CPO NL-CPO stays while there are routing rules that name it \(2\)/],
    ['parties roles NL-CPO --add EMSP:NL-EMS', 1, /NL-EMS exists already/],
  ] as const) {
    const ended = await at.run(line);
    t.match([ended.code, ended.err], [code, err], line);
  }
  const removed = await at.run('parties roles NL-CPO --remove EMSP');
  t.match([removed.code, removed.out.trimEnd().split('\n').length], [0, 2], 'one role is left');
  const listed = await at.run('parties roles NL-CPO --json');
  t.match((JSON.parse(listed.out) as { roles: object[] }).roles, [{ role: 'CPO' }]);
});

t.test(
  'parties roles leaves what a partner says of its business as it is, a website that is no URL, too',
  async (t) => {
    const at = await stage(t);
    const { cpo } = at;
    const business_details = { name: 'Example Charging', website: 'www.example.com' };
    const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO', business_details }];
    const { json } = await cpo.push('PUT', '/2.2.1/credentials', {
      token: cpo.token,
      url: `${cpo.url}/ocpi/versions`,
      roles,
    });
    cpo.hubToken = (json.data as { token: string }).token;
    const added = await at.run('parties roles NL-CPO --add EMSP');
    t.match([added.code, added.err], [0, '']);
    const listed = await at.run('parties roles NL-CPO --json');
    t.match((JSON.parse(listed.out) as { roles: object[] }).roles, [{ business_details }, { role: 'EMSP' }]);
  },
);

t.test('what waits without an attempt is called so, and a command that is nowhere leads to the report', async (t) => {
  const at = await stage(t);
  await at.run('parties pause NL-EMS');
  await push(at, 'S1');
  const listed = await at.run('deliveries list --receiver NL-EMS --state PENDING');
  t.match(listed.out, /^\d+-NL-EMS +PENDING +NL-EMS +PUT sessions +NL-CPO\/S1 +0 +.* +not tried yet$/m);
  const [id = ''] = /^\d+-NL-EMS/m.exec(listed.out) ?? [];
  const shown = await at.run(`deliveries show ${id}`);
  t.match(shown.out, /^next attempt +in its turn, once the circuit is closed and the partner not paused$/m);
  t.match((await at.run('commands list --uid NOPE')).err, /the report of their eMSP: ocpi-hub parties report NL-EMS/);
});

t.test('a dead letter that was re-driven and waits is not said to be untried', async (t) => {
  const at = await stage(t);
  await deadLetters(at, ['S1']);
  await at.run('parties pause NL-EMS');
  await at.run('redrive --receiver NL-EMS --yes');
  const listed = await at.run('deliveries list --receiver NL-EMS --state PENDING');
  t.match(listed.out, /^\d+-NL-EMS +PENDING +NL-EMS +PUT sessions +NL-CPO\/S1 +1 +.* +not tried since its re-drive$/m);
});

t.test('a re-drive that skips what is stale says how to give it up', async (t) => {
  const at = await stage(t);
  await deadLetters(at, ['S1']);
  await push(at, 'S1', { kwh: 9 });
  const arrived = async () => (await itemsOf(at.hub, '/deliveries?state=DELIVERED&object=NL-CPO/S1')).length > 0;
  await eventually('the newer version arrived', arrived);
  const redriven = await at.run('redrive --receiver NL-EMS --yes');
  t.match(redriven.out, /^1 skipped: .*--force sends it all the same, ocpi-hub discard gives it up/m);
});
