/**
 * A link between a client and a server on this machine that a test can slow down, hold up and cut: a TCP proxy of its own. What is held up is
 * delivered late, also after the client has let its connection go.
 */
import { createServer, type Server, Socket } from 'node:net';
import type { Test } from './tap.ts';

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  readonly held: { readonly to: Socket; readonly bytes: Buffer }[];
  /** Made while the link was held up, or held up since. */
  isHeld: boolean;
}

export class Link {
  readonly port: number;
  readonly #pairs = new Set<Pair>();
  readonly #server: Server;
  #holding: 'to server' | 'to client' | 'both' | null = null;
  #isPaused = false;
  #delayMs = 0;
  #isCut = false;

  private constructor(server: Server, port: number, target: number) {
    this.#server = server;
    this.port = port;
    server.on('connection', (client) => this.#connect(client, target));
  }

  static async to(t: Pick<Test, 'teardown'>, target: number): Promise<Link> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    const link = new Link(server, address.port, target);
    t.teardown(() => link.close());
    return link;
  }

  /** Bytes of the connections that stand now wait; new connections are not touched. */
  hold(direction: 'to server' | 'to client' | 'both'): void {
    this.#holding = direction;
    for (const pair of this.#pairs) pair.isHeld = true;
  }

  /** Nothing arrives on either side, also of connections that are made from now on. */
  pause(): void {
    this.hold('both');
    this.#isPaused = true;
  }

  /** From now on every byte takes so much longer each way, ms. */
  slow(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  /** How many connections have bytes that wait. */
  waiting(): number {
    return [...this.#pairs].filter(({ held }) => held.length > 0).length;
  }

  /** Whatever waited arrives, and nothing waits any more. */
  deliver(): void {
    this.#holding = null;
    this.#isPaused = false;
    for (const pair of this.#pairs) {
      pair.isHeld = false;
      for (const { to, bytes } of pair.held.splice(0)) if (!to.destroyed) to.write(bytes);
    }
  }

  /** The client loses the connections that are held up; the server knows nothing of it. */
  lose(): void {
    for (const { client, isHeld } of this.#pairs) if (isHeld) client.destroy();
  }

  /** Both sides lose every connection. */
  cut(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
    this.#pairs.clear();
  }

  /** Cut, and every new connection at once, until it is mended. */
  sever(): void {
    this.#isCut = true;
    this.cut();
  }

  mend(): void {
    this.#isCut = false;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #connect(client: Socket, target: number): void {
    if (this.#isCut) return void client.destroy();
    const server = new Socket().connect(target, '127.0.0.1');
    const pair: Pair = { client, server, held: [], isHeld: this.#isPaused };
    this.#pairs.add(pair);
    const pass = (from: Socket, to: Socket, direction: 'to server' | 'to client'): void => {
      const late: Buffer[] = [];
      const arrive = (bytes: Buffer): void => {
        if (pair.isHeld && (this.#holding === direction || this.#holding === 'both')) pair.held.push({ to, bytes });
        else if (!to.destroyed) to.write(bytes);
      };
      from.on('data', (bytes) => {
        if (this.#delayMs === 0 && late.length === 0) return arrive(bytes);
        late.push(bytes);
        // Whichever comes first takes what is first.
        setTimeout(() => arrive(late.shift() as Buffer), this.#delayMs);
      });
      from.on('error', () => {});
    };
    pass(client, server, 'to server');
    pass(server, client, 'to client');
    server.on('close', () => {
      this.#pairs.delete(pair);
      client.destroy();
    });
    // What the client sent before it went may still wait here.
    client.on('close', () => {
      if (!pair.isHeld) server.destroy();
    });
  }
}
