/**
 * Process pauses: a request that was unread or undecided, and whose caller closed its connection during the pause, changes nothing.
 * Nor is a command forwarded whose caller did so while the store hung.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { type Clock, facesOf } from '../../src/kit/clock.ts';
import { nextTurn } from '../../src/kit/system-clock.ts';
import { HeldWrites } from '../delivery/held-writes.ts';
import { locationBody, sessionBody, tariffBody } from '../support/bodies.ts';
import { startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, partnerFor, routedPair, type TestHub } from '../support/hub-in-process.ts';
import { callsTo } from '../support/observed.ts';
import { eventually, type PlainPartner, type Received } from '../support/plain-partner.ts';
import { atLength, isAtLength } from '../support/share.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

/** Longer than a hub is ever busy at a stretch. */
const pauseMs = 2_000;

/** A connection to the hub that was used before. */
class Connection {
  readonly #socket: Socket;
  #received = '';

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setEncoding('latin1').on('data', (text: string) => {
      this.#received += text;
    });
    socket.on('error', () => socket.destroy());
  }

  static async to(t: Test, { url }: { url: string }): Promise<Connection> {
    const { hostname: host, port } = new URL(url);
    const socket = connect({ host, port: Number(port) });
    t.teardown(() => socket.destroy());
    const connection = new Connection(socket);
    socket.write('GET /healthz HTTP/1.1\r\nHost: hub\r\n\r\n');
    await connection.answer();
    return connection;
  }

  /** What is written has left for the hub when this returns. */
  send({ hubToken }: PlainPartner, method: string, path: string, body: object): void {
    const text = JSON.stringify(body);
    const head = `${method} /ocpi${path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Token ${hubToken}\r\nContent-Type: application/json`;
    this.#socket.write(`${head}\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
  }

  leave(): void {
    this.#socket.destroy();
  }

  /** Ends this side alone. */
  end(): void {
    this.#socket.end();
  }

  /** The status of the next answer, and all of it. */
  async answer(): Promise<{ status: number; text: string }> {
    while (!/^HTTP.*\r\n\r\n./s.test(this.#received)) await once(this.#socket, 'data');
    const text = this.#received;
    this.#received = '';
    return { status: Number(text.split(' ')[1]), text };
  }
}

/** As the machine's, but for the pauses: what was armed has no time to run in them. */
function pausingClock() {
  const clock = new SimulatedClock('2026-03-01T10:00:00Z');
  let paused = 0;
  const now = () => clock.now() + paused;
  const pausing: Clock = {
    ...facesOf(now, now),
    monotonic: () => clock.monotonic() + paused,
    setTimeout: (...timer) => clock.setTimeout(...timer),
    clearTimeout: (timer) => clock.clearTimeout(timer),
  };
  const pause = (ms: number) => {
    paused += ms;
  };
  /** Time that passes while the process runs, and the hub looks at the clock. */
  const run = async (ms: number) => {
    for (let ranMs = 0; ranMs < ms; ranMs += 250) {
      clock.advance(250);
      await nextTurn();
    }
  };
  return { clock: pausing, pause, run };
}

async function scene(t: Test) {
  const { clock, pause, run } = pausingClock();
  const held = new HeldWrites();
  const hub = await hubFor(t, {}, { clock, wrap: held.wrap });
  const accepted = { body: { result: 'ACCEPTED', timeout: 30 } };
  const cpo = ({ path }: Received) => (path.includes('/commands/') ? accepted : {});
  return { hub, pause, run, held, ...(await routedPair(t, hub, { cpo })) };
}

const tariff = (id: string) => `/2.2.1/tariffs/NL/CPO/${id}`;
const session = '/2.2.1/sessions/NL/CPO/S1';
const sessionOf = (status: string) =>
  sessionBody('S1', {
    status,
    cdr_token: { country_code: 'NL', party_id: 'EMS', uid: 'C', type: 'RFID', contract_id: 'C' },
  });

const bodiesOf = async (hub: TestHub, stream: string) =>
  (await hub.created.context.store.history(stream)).map(
    ({ body }) => JSON.parse(body ?? '{}') as Record<string, unknown>,
  );

t.test(
  'a request that arrived while the hub was stopped is dropped when its caller has gone, and executed otherwise',
  async (t) => {
    const { hub, cpo, pause } = await scene(t);
    const [gone, here] = [await Connection.to(t, hub), await Connection.to(t, hub)];
    gone.send(cpo, 'PUT', tariff('GONE'), tariffBody('GONE'));
    here.send(cpo, 'PUT', tariff('HERE'), tariffBody('HERE'));
    gone.leave();
    pause(pauseMs);
    t.equal((await here.answer()).status, 200);
    await hub.settled();
    t.same(await bodiesOf(hub, 'tariffs/NL-CPO/gone'), []);
    t.match(await bodiesOf(hub, 'tariffs/NL-CPO/here'), [{ id: 'HERE' }]);
  },
);

t.test('a request that arrives while the hub runs is executed, whether or not its caller waits', async (t) => {
  const { hub, cpo } = await scene(t);
  const gone = await Connection.to(t, hub);
  gone.send(cpo, 'PUT', tariff('GONE'), tariffBody('GONE'));
  gone.leave();
  await eventually('it is stored', async () => (await bodiesOf(hub, 'tariffs/NL-CPO/gone')).length === 1);
});

t.test('a push that waits for its turn while the hub is stopped is dropped when its caller has gone', async (t) => {
  const { hub, cpo, pause, held } = await scene(t);
  const [first, second] = [await Connection.to(t, hub), await Connection.to(t, hub)];
  const isHeld = held.hold('object.put');
  first.send(cpo, 'PUT', session, sessionOf('PENDING'));
  await isHeld;
  second.send(cpo, 'PUT', session, sessionOf('ACTIVE'));
  // Once this is answered, the push has been read.
  await cpo.call('GET', '/2.2.1/credentials');
  second.leave();
  pause(pauseMs);
  held.release('object.put');
  t.equal((await first.answer()).status, 200);
  t.equal((await cpo.call('PUT', session, sessionOf('COMPLETED'))).status, 200);
  t.match(await bodiesOf(hub, 'sessions/NL-CPO/s1'), [{ status: 'PENDING' }, { status: 'COMPLETED' }]);
});

t.test('a push that is not decided within 30 s is refused although its caller still waits', async (t) => {
  const { hub, cpo, pause, held } = await scene(t);
  const [first, second] = [await Connection.to(t, hub), await Connection.to(t, hub)];
  const isHeld = held.hold('object.put');
  first.send(cpo, 'PUT', session, sessionOf('PENDING'));
  await isHeld;
  second.send(cpo, 'PUT', session, sessionOf('ACTIVE'));
  await cpo.call('GET', '/2.2.1/credentials');
  pause(30_001);
  held.release('object.put');
  t.equal((await first.answer()).status, 200, 'that one was decided before');
  const { status, text } = await second.answer();
  t.equal(status, 503);
  t.match(text, /\r\nretry-after: 1\r\n.*"status_code":3000/is);
  t.match(await bodiesOf(hub, 'sessions/NL-CPO/s1'), [{ status: 'PENDING' }]);
});

/** A START_SESSION of an eMSP whose connection it has, which waits for its record. */
async function heldCommand(t: Test) {
  const scenery = await scene(t);
  const { hub, cpo, emsp, held } = scenery;
  const connection = await Connection.to(t, hub);
  const isHeld = held.hold('command.requested');
  const token = { country_code: 'NL', party_id: 'EMS', uid: 'CARD1', type: 'RFID', contract_id: 'C1' };
  const dates = { issuer: 'EMS', valid: true, whitelist: 'NEVER', last_updated: '2026-03-01T10:00:00Z' };
  await cpo.push('PUT', '/2.2.1/locations/NL/CPO/L1', locationBody('L1'));
  connection.send(emsp, 'POST', '/2.2.1/commands/START_SESSION', {
    response_url: `${emsp.url}/result`,
    token: { ...token, ...dates },
    location_id: 'L1',
  });
  await isHeld;
  return { ...scenery, connection };
}

for (const what of ['hub', 'store'] as const) {
  t.test(
    `a command whose eMSP has gone while the ${what} stood still never reaches the CPO [COMMANDS-4]`,
    async (t) => {
      const { hub, cpo, pause, run, held, connection } = await heldCommand(t);
      connection.leave();
      if (what === 'hub') pause(pauseMs);
      else await run(pauseMs);
      held.release('command.requested');
      const { context } = hub.created;
      let record: unknown;
      await eventually('the command has ended', async () => {
        for await (const row of context.store.scan('commands')) record = row.data;
        return (record as { state?: string } | undefined)?.state === 'rejected';
      });
      t.same(callsTo(cpo, 'commands'), []);
    },
  );
}

t.test(
  'a command whose eMSP half-closes the connection is answered, while the store takes at most a second [HTTP-SERVER-7]',
  async (t) => {
    const { cpo, run, held, connection } = await heldCommand(t);
    connection.end();
    await run(1_000);
    held.release('command.requested');
    t.equal((await connection.answer()).status, 200);
    t.equal(callsTo(cpo, 'commands').length, 1);
  },
);

t.test('an exchange of credentials whose caller left while the hub was stopped does not begin', async (t) => {
  const { hub, cpo, pause } = await scene(t);
  const [gone, here] = [await Connection.to(t, hub), await Connection.to(t, hub)];
  const roles = [{ role: 'CPO', country_code: 'NL', party_id: 'CPO', business_details: { name: 'CPO' } }];
  const body = { token: cpo.token, url: `${cpo.url}/ocpi/versions`, roles };
  gone.send(cpo, 'PUT', '/2.2.1/credentials', body);
  here.send(cpo, 'PUT', '/2.2.1/credentials', body);
  gone.leave();
  pause(pauseMs);
  t.equal((await here.answer()).status, 200);
  const facts = await hub.created.context.store.history('partner:NL-CPO');
  t.equal(facts.filter(({ type }) => type === 'partner.rotated').length, 1);
});

t.test('a process that was stopped for more than a second drops the requests that its callers gave up', async (t) => {
  const hub = await startChildHub({ dataDir: directoryFor(t), port: 0 });
  t.teardown(() => hub.kill());
  const cpo = await partnerFor(t, hub, { role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  const [gone, here] = [await Connection.to(t, hub), await Connection.to(t, hub)];
  process.kill(hub.pid, 'SIGSTOP');
  await eventually('it stands still', () => / T /.test(readFileSync(`/proc/${hub.pid}/stat`, 'latin1')));
  gone.send(cpo, 'PUT', tariff('GONE'), tariffBody('GONE'));
  gone.leave();
  here.send(cpo, 'PUT', tariff('HERE'), tariffBody('HERE'));
  await new Promise((resolve) => setTimeout(resolve, pauseMs));
  process.kill(hub.pid, 'SIGCONT');
  t.equal((await here.answer()).status, 200);
  t.equal((await cpo.call('PUT', tariff('NEXT'), tariffBody('NEXT'))).status, 200);
  const stored = async (id: string) => (await cpo.call('GET', tariff(id))).status;
  t.same([await stored('GONE'), await stored('HERE'), await stored('NEXT')], [404, 200, 200]);
});

t.test(
  'an answer of a partner that arrived while the process was stopped counts, although its time-out has passed',
  atLength,
  async (t) => {
    const hub = await startChildHub({ dataDir: directoryFor(t), port: 0, env: { HUB_AUTHORIZE_TIMEOUT_MS: '1500' } });
    t.teardown(() => hub.kill());
    let asked = () => {};
    let mayAnswer: Promise<void> = Promise.resolve();
    const emspAnswer = async () => {
      asked();
      await mayAnswer;
      return { body: { allowed: 'ALLOWED' } };
    };
    const { cpo, emsp } = await routedPair(t, hub, { emsp: emspAnswer });
    for (let round = 0; round < (isAtLength ? 3 : 1); round++) {
      const reached = new Promise<void>((resolve) => {
        asked = resolve;
      });
      let go = () => {};
      mayAnswer = new Promise((resolve) => {
        go = resolve;
      });
      const to = { 'OCPI-to-country-code': 'NL', 'OCPI-to-party-id': 'EMS' };
      const answered = cpo.call('POST', '/2.2.1/tokens/CARD1/authorize', {}, to);
      await reached;
      process.kill(hub.pid, 'SIGSTOP');
      await eventually('it stands still', () => / T /.test(readFileSync(`/proc/${hub.pid}/stat`, 'latin1')));
      go();
      await eventually('it has answered', () => emsp.holding === 0);
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      process.kill(hub.pid, 'SIGCONT');
      t.match(await answered, { status: 200, json: { data: { allowed: 'ALLOWED' } } });
    }
  },
);
