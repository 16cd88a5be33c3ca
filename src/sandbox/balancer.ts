/** A minimal load balancer in front of hub nodes on this machine, for the demo and the tests. */
import { once } from 'node:events';
import {
  Agent,
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { every } from '../kit/clock.ts';
import { systemClock } from '../kit/system-clock.ts';

export interface Balancer {
  readonly url: string;
  close(): void;
}

/**
 * Sends requests round robin to the ports whose `/readyz` answers 200, polled every 200 ms. A port that answers
 * `Connection: close` is about to stop and is left out until the next poll. A request whose connection is refused goes
 * to the next port, because no node has seen it. `took` is called before each attempt to send.
 */
export async function startBalancer(ports: readonly number[], took: Took = () => {}): Promise<Balancer> {
  const agent = new Agent({ keepAlive: true });
  let turn = 0;
  let ready: readonly number[] = ports;
  const leaving = new Set<number>();
  const left = (port: number) => {
    leaving.add(port);
    if (ready.length > 1) ready = ready.filter((other) => other !== port);
  };
  const look = async () => {
    leaving.clear();
    const states = await Promise.all(ports.map(isReady));
    const found = ports.filter((port, i) => states[i] && !leaving.has(port));
    ready = found.length > 0 ? found : ports;
  };
  const stopLooking = every(systemClock, 200, look);
  const server: Server = createServer((incoming, response) => {
    turn += 1;
    const order = ready.map((_, i) => ready[(turn + i) % ready.length] as number);
    passOn(incoming, response, order, { agent, left, took });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      stopLooking();
      agent.destroy();
      server.close();
      server.closeAllConnections();
    },
  };
}

async function isReady(port: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(1000) });
    return answer.status === 200;
  } catch {
    return false;
  }
}

type Took = (headers: IncomingHttpHeaders, port: number) => void;

interface Ways {
  readonly agent: Agent;
  readonly took: Took;
  readonly left: (port: number) => void;
}

function passOn(incoming: IncomingMessage, response: ServerResponse, ports: readonly number[], ways: Ways): void {
  const chunks: Buffer[] = [];
  incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
  incoming.on('end', () => send(incoming, response, Buffer.concat(chunks), ports, ways));
}

function send(
  incoming: IncomingMessage,
  response: ServerResponse,
  body: Buffer,
  [port = 0, ...others]: readonly number[],
  ways: Ways,
): void {
  const { method, url: path, headers } = incoming;
  ways.took(headers, port);
  const sent = request({ host: '127.0.0.1', port, method, path, headers, agent: ways.agent });
  sent.on('response', (answer) => {
    if (answer.headers.connection === 'close') ways.left(port);
    response.writeHead(answer.statusCode ?? 0, answer.headers);
    answer.on('error', () => response.destroy());
    answer.pipe(response);
  });
  sent.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'ECONNREFUSED' && others.length > 0) send(incoming, response, body, others, ways);
    else response.destroy();
  });
  sent.end(body);
}
