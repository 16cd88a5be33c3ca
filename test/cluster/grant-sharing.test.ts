/** What nodes tell each other of the requests that they granted takes few messages, and reaches the nodes that need it. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { ChannelDoor } from '../../src/cluster/channel.ts';
import { type Grant, GrantSharing, readGrants } from '../../src/cluster/grant-sharing.ts';
import { peersPath, type Target } from '../../src/cluster/node-auth.ts';
import { Passing } from '../../src/cluster/passing.ts';
import { createFrontServer } from '../../src/ocpi/http-server.ts';
import { clientAddresses } from '../../src/transport/client-connection.ts';
import { eventually } from '../support/plain-partner.ts';
import { type Test, t } from '../support/tap.ts';

const secret = 'of-the-nodes';
const told = `${peersPath}granted/`;

/** A node that keeps each message that it gets. */
async function nodeThatIsTold(t: Test, id: string): Promise<{ target: Target; messages: (readonly Grant[] | null)[] }> {
  const messages: (readonly Grant[] | null)[] = [];
  const inside = createFrontServer({ isAmongNodes: true }, ({ url = '' }, response) => {
    messages.push(url.startsWith(told) ? readGrants(url.slice(told.length)) : null);
    response.end();
  });
  const channels = new ChannelDoor([secret], inside, () => {});
  const server = createFrontServer({}, (_, response) => void response.writeHead(404).end()).listen(0, '127.0.0.1');
  server.on('upgrade', (request, socket, head) => channels.accept(request, socket, head));
  await once(server, 'listening');
  t.teardown(() => {
    channels.destroy();
    server.close();
  });
  return { target: { id, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }, messages };
}

t.test('grants go to every node, token uses to the owner alone, many of them in one message', async (t) => {
  const [first, second] = [await nodeThatIsTold(t, 'first'), await nodeThatIsTold(t, 'second')];
  const visitors = clientAddresses(['127.0.0.1']);
  const passing = new Passing({ secrets: [secret], visitors, passed() {}, log: { warn() {} } });
  t.teardown(() => passing.close());
  let owner: Target | null = first.target;
  const grants = new GrantSharing({ peers: () => [first.target, second.target], owner: () => owner, passing });
  const uses = Array.from({ length: 40 }, (_, i) => ({ party: `NL-C${i}`, budget: 'digest', count: 1, ageMs: i }));
  for (const use of uses) grants.tellOwner({ ...use, address: '127.0.0.1' });
  await eventually('the owner has a message', async () => first.messages.length > 0);
  grants.tell({ party: 'NL-CPO', budget: 'other', count: 7, ageMs: 0 });
  const isTold = ({ messages }: typeof first) => messages.flat().some((grant) => grant?.party === 'NL-CPO');
  await eventually('both have the budget', async () => isTold(first) && isTold(second));
  t.strictSame(
    first.messages.map((grants) => grants?.length),
    [40, 1],
  );
  t.strictSame(
    second.messages.flat().map((grant) => grant?.party),
    ['NL-CPO'],
  );
  owner = null;
  grants.tellOwner({ party: 'NL-CPO', budget: 'digest', count: 1, ageMs: 0, address: '127.0.0.1' });
  grants.tell({ party: 'NL-CPO', budget: 'commands', count: 1, ageMs: 0 });
  await eventually('and of the next one', async () => first.messages.length + second.messages.length === 5);
  t.equal(first.messages.at(-1)?.at(0)?.budget, 'commands', 'without an owner no use is sent');
});
