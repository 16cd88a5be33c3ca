/**
 * Nodes that speak TLS with each other: what is passed on comes to the owner over it, WebSockets too, and nothing is passed to a node
 * whose certificate is not trusted.
 */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { join } from 'node:path';
import { WebSocket } from 'ws';
import { freePort } from '../../src/sandbox/free-port.ts';
import { browserProtocols, path } from '../console/inspected.ts';
import { type ChildHub, startChildHub } from '../support/child-hub.ts';
import { eventually } from '../support/plain-partner.ts';
import { newSchema, sharedPostgres } from '../support/postgres.ts';
import { type Test, t } from '../support/tap.ts';
import { otherCert, otherKey, testCert, testKey } from '../support/tls.ts';
import { adminToken, longer, settingsOf } from './nodes.ts';

/** Of both, so that every node can be asked; what nodes trust of each other is theirs. */
const ca = [testCert, otherCert];
const authorization = `Bearer ${adminToken}`;

interface Reply {
  readonly status: number;
  readonly text: string;
}

async function ask({ url }: ChildHub, method: string, path: string, body?: object): Promise<Reply> {
  const headers = { authorization, ...(body && { 'content-type': 'application/json' }) };
  const sent = request(`${url}${path}`, { method, ca, headers, agent: false });
  sent.end(body && JSON.stringify(body));
  const [answer] = (await once(sent, 'response')) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of answer) chunks.push(chunk as Buffer);
  return { status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString() };
}

const isOwner = async (hub: ChildHub) =>
  /^ocpi_hub_node_role\{role="owner"\} 1$/m.test((await ask(hub, 'GET', '/metrics')).text);

const party = (party_id: string) => ({
  roles: [{ role: 'CPO', country_code: 'NL', party_id, business_details: { name: party_id } }],
});

t.test('nodes that speak TLS to each other', longer, async (t) => {
  const server = await sharedPostgres();
  const files = t.testdir({
    'one.pem': testCert,
    'one.key': testKey,
    'other.pem': otherCert,
    'other.key': otherKey,
    'both.pem': ca.join(''),
  });

  const schema = newSchema('tls');
  /** A node that shows one certificate and trusts those of a file. */
  const start = async (t: Test, shows: string, trusts: string) => {
    const port = await freePort();
    const url = `https://127.0.0.1:${port}`;
    const hub = await startChildHub({
      ...{ dataDir: '/nowhere', port },
      env: {
        ...settingsOf(url, port, server.url(schema), {}),
        ...{ HUB_NODE_URL: url, NODE_EXTRA_CA_CERTS: join(files, trusts) },
        ...{ HUB_TLS_CERT: join(files, `${shows}.pem`), HUB_TLS_KEY: join(files, `${shows}.key`) },
      },
    });
    t.teardown(() => hub.kill());
    return hub;
  };
  const owner = await start(t, 'one', 'both.pem');
  await eventually('it is the owner', () => isOwner(owner));

  t.test('a request to a standby is answered by the owner', async (t) => {
    const standby = await start(t, 'other', 'both.pem');
    t.equal((await ask(standby, 'POST', '/admin/v1/parties', party('AAA'))).status, 201);
    t.match((await ask(owner, 'GET', '/admin/v1/parties/NL-AAA')).text, /NL-AAA/);
    const address = `${standby.url.replace('https', 'wss')}${path}`;
    const watching = new WebSocket(address, browserProtocols(adminToken), { ca });
    t.teardown(() => watching.terminate());
    const [first] = (await once(watching, 'message')) as [Buffer];
    t.match(JSON.parse(first.toString()), { type: '@xstate.actor' }, 'the inspector of the owner, through the standby');
    t.match((await ask(standby, 'GET', '/metrics')).text, /^ocpi_hub_passed_on_total\{end="answered"\} [1-9]/m);
  });

  t.test('nothing is passed to an untrusted node', async (t) => {
    const standby = await start(t, 'other', 'other.pem');
    await eventually('it was refused on the way', async () => {
      const { status } = await ask(standby, 'POST', '/admin/v1/parties', party('BBB'));
      return status === 503 && /a request could not be passed on.*self-signed certificate/s.test(standby.log());
    });
    t.equal((await ask(owner, 'GET', '/admin/v1/parties/NL-BBB')).status, 404, 'nothing came there');
  });
});
