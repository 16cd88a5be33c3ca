/**
 * A node stands still with requests in its sockets whose senders have gone, and which others have overtaken meanwhile through another node:
 * they are stored nowhere and delivered to nobody, and no object has two deliveries at a time.
 */
import { connect, type Socket } from 'node:net';
import { sessionBody } from '../support/bodies.ts';
import { eventually, type PlainPartner } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { t } from '../support/tap.ts';
import { mustAddUp } from './load.ts';
import { longer, type Node, startNodes, untilJoined } from './nodes.ts';
import { startTraffic } from './traffic.ts';

/** Longer than busy cores make a node stand still. */
const env = { HUB_LEASE_S: '6', HUB_RATE_OTHER_PER_MIN: '1000000', HUB_RATE_COMMANDS_PER_MIN: '1000000' };
const objects = 40;

const idOf = (i: number) => `STILL-${i}`;
const old = (i: number) => sessionBody(idOf(i), { location_id: 'OVERTAKEN', last_updated: '2026-01-05T00:00:00Z' });
const completed = (i: number) => sessionBody(idOf(i), { status: 'COMPLETED', last_updated: '2026-01-06T00:00:00Z' });

async function opened({ port }: Node): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('connect', resolve));
  return socket;
}

function put(socket: Socket, { hubToken }: PlainPartner, body: { readonly id?: unknown }): void {
  const text = JSON.stringify(body);
  const head = [`PUT /ocpi/2.2.1/sessions/NL/CPO/${body.id} HTTP/1.1`, 'Host: hub', 'Content-Type: application/json'];
  const authorization = `Authorization: Token ${Buffer.from(hubToken).toString('base64')}`;
  socket.write(`${[...head, authorization, `Content-Length: ${text.length}`].join('\r\n')}\r\n\r\n${text}`);
}

t.test('a node freezes', longer, async (t) => {
  const server = await sharedPostgres();
  for (const which of ['owner', 'door'] as const) {
    for (const seconds of [10, 60]) {
      t.test(`the ${which}, for ${seconds} s`, async (t) => {
        const schema = newSchema('still');
        const nodes = await startNodes(t, server, schema, { count: 3, env });
        await untilJoined(nodes.all);
        const owner = await nodes.owner();
        const [door] = (await nodes.standbys()) as [Node];
        const still = which === 'owner' ? owner : door;
        const urls = nodes.all.filter((node) => node !== still).map(({ url }) => url);
        let turn = 0;
        const traffic = await startTraffic(t, nodes, { choose: () => urls[turn++ % urls.length] ?? '' });
        const { cpo, emsp, pushes } = traffic;
        await traffic.goesOn();
        const early = await Promise.all(Array.from({ length: objects / 2 }, () => opened(still)));
        const begun = performance.now();
        process.kill(still.hub.pid, 'SIGSTOP');
        const late = await Promise.all(Array.from({ length: objects / 2 }, () => opened(still)));
        const sockets = [...early, ...late];
        for (const [i, socket] of sockets.entries()) put(socket, cpo, old(i));
        await traffic.goesOn();
        cpo.moveTo({ url: urls[0] ?? '' });
        for (const i of sockets.keys()) {
          const { status } = await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${idOf(i)}`, completed(i));
          if (status !== 200) t.fail(`${idOf(i)} was not taken: ${status}`);
        }
        for (const socket of sockets) socket.destroy();
        await new Promise((resolve) => setTimeout(resolve, seconds * 1000 - (performance.now() - begun)));
        t.comment(`${which} ${seconds} s, through the others meanwhile: ${traffic.summary(begun)}`);
        const failed = traffic.failed(begun).filter(({ kind }) => kind === 'push' || kind === 'authorize');
        t.strictSame(failed, [], 'no push and no authorization through another node fails');
        process.kill(still.hub.pid, 'SIGCONT');
        await untilJoined(nodes.all);
        // What it had in its sockets comes before these.
        urls.splice(0, urls.length, still.url);
        await traffic.goesOn(60);
        await traffic.stop();
        for (const i of sockets.keys()) {
          await emsp.got(`${idOf(i)} completed`, ({ body }) => body === JSON.stringify(completed(i)));
        }
        const written = await server.query(`select seq, stream from ${schema}.events where body like '%OVERTAKEN%'`);
        t.strictSame(written, [], `of ${sockets.length} requests that were overtaken none is in the log`);
        t.strictSame(
          emsp.received.filter(({ body }) => body.includes('OVERTAKEN')),
          [],
          'and none was delivered',
        );
        t.strictSame(traffic.doubled, [], 'no object had two deliveries at a time');
        t.equal((await nodes.token()) > 1, which === 'owner', 'the lease moves when it is the owner, and only then');
        await eventually('all is acknowledged or refused', () => pushes.writes.every(({ endedAt }) => endedAt > 0));
        await mustAddUp(t, server, schema, [pushes], emsp);
      });
    }
  }
});
