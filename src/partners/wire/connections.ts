/**
 * The connections to all servers for one kind of call, by origin.
 *
 * WIRE-CONNECTIONS-1  A partner has at most `perOrigin` connections to an origin; its further exchanges wait for one in the order in which they
 *     came. Partners whose servers share an origin, as tenants of one platform do, share no connection: else calls of one that hang
 *     would hold up the calls of the other.
 * WIRE-CONNECTIONS-2  A connection that cannot be opened fails the exchange for which it was opened, and no other.
 * WIRE-CONNECTIONS-3  Nothing is kept of an origin without connections.
 * WIRE-CONNECTIONS-4  Of the `perOrigin` exchanges at most half are on behalf of one source: those of others do not wait for calls of one that hang.
 * WIRE-CONNECTIONS-5  After `destroy` none is opened, and every exchange has failed or does so when its connection is closed.
 */
import type { Socket } from 'node:net';
import { errors } from 'undici';
import { Connection, isWritable, type Load, type Owner } from './connection.ts';
import type { Carrier, Exchange, Sent } from './exchange.ts';

/** Opens a socket whose `onread` is that of `connection.ts`. */
export type Connector = (
  target: { readonly hostname: string; readonly host: string; readonly protocol: string; readonly port: string },
  callback: (...result: [error: null, socket: Socket] | [error: Error, socket: null]) => void,
) => void;

export interface ConnectionsOptions {
  readonly connect: Connector;
  /** How long a connection without an exchange is kept when the server does not say, ms. */
  readonly keepAliveMs: number;
  /** Null: as many as there are exchanges. */
  readonly perOrigin: number | null;
}

export class Connections implements Carrier {
  readonly #options: ConnectionsOptions;
  readonly #origins = new Map<string, Origin>();
  readonly #count: Count = { open: 0 };
  #isDestroyed = false;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
  }

  /** How many are open. */
  get open(): number {
    return this.#count.open;
  }

  dispatch(sent: Sent, exchange: Exchange): void {
    if (this.#isDestroyed) return exchange.failed(new errors.ClientDestroyedError(), false);
    if (!isWritable(sent))
      return exchange.failed(new errors.InvalidArgumentError('a header field has a line break'), false);
    // Without a limit there is no place that one could take from another.
    const isLimited = this.#options.perOrigin !== null && sent.partner !== undefined;
    const key = isLimited ? `${sent.origin} ${sent.partner}` : sent.origin;
    let origin = this.#origins.get(key);
    if (origin === undefined) {
      origin = new Origin(sent.origin, this.#options, this.#count, () => this.#origins.delete(key));
      this.#origins.set(key, origin);
    }
    origin.take([sent, exchange]);
  }

  /** Closes all; exchanges that wait or are under way fail. */
  destroy(): void {
    this.#isDestroyed = true;
    for (const origin of this.#origins.values()) origin.destroy();
  }
}

/** Of all origins. */
interface Count {
  open: number;
}

class Origin implements Owner {
  readonly #target: Parameters<Connector>[0];
  readonly #options: ConnectionsOptions;
  readonly #count: Count;
  readonly #onEmpty: () => void;
  readonly #open = new Set<Connection>();
  /** Those without an exchange; the one that was used last is used next, so that the others end when they are not needed. */
  readonly #idle: Connection[] = [];
  readonly #waiting: Load[] = [];
  /** Those for which a connection is being opened. */
  readonly #opening = new Set<Load>();
  #isDestroyed = false;

  constructor(origin: string, options: ConnectionsOptions, count: Count, onEmpty: () => void) {
    const { protocol, hostname, host, port } = new URL(origin);
    // Without the brackets of an IPv6 address.
    this.#target = { protocol, host, port, hostname: hostname.replace(/^\[(.*)\]$/, '$1') };
    this.#options = options;
    this.#count = count;
    this.#onEmpty = onEmpty;
  }

  get #size(): number {
    return this.#open.size + this.#opening.size;
  }

  take(load: Load): void {
    if (this.#isCrowded(load[0].source)) return void this.#waiting.push(load);
    const connection = this.#idleOne();
    if (connection) connection.carry(load);
    else if (this.#size < (this.#options.perOrigin ?? Number.POSITIVE_INFINITY)) this.#openFor(load);
    else this.#waiting.push(load);
  }

  free(connection: Connection): void {
    const next = this.#next();
    if (next) connection.carry(next);
    else this.#idle.push(connection);
  }

  closed(connection: Connection, unwritten: Load | null): void {
    this.#open.delete(connection);
    this.#count.open--;
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#isDestroyed) return unwritten?.[1].failed(new errors.ClientDestroyedError(), false);
    if (unwritten && !unwritten[1].isOver) this.#waiting.unshift(unwritten);
    this.#carryOn();
  }

  destroy(): void {
    this.#isDestroyed = true;
    for (const connection of this.#open) connection.destroy();
    for (const [, exchange] of [...this.#opening, ...this.#waiting.splice(0)])
      exchange.failed(new errors.ClientDestroyedError(), false);
  }

  #idleOne(): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || connection.isOpen) return connection;
    }
  }

  /** The first that waits, still has time, and is not kept out by others of its source. */
  #next(): Load | undefined {
    const crowded = new Set<string | undefined>();
    for (let place = 0; place < this.#waiting.length; ) {
      const load = this.#waiting[place] as Load;
      const [{ source }, { isOver }] = load;
      if (!isOver && !crowded.has(source) && this.#isCrowded(source)) crowded.add(source);
      if (!isOver && crowded.has(source)) {
        place++;
        continue;
      }
      this.#waiting.splice(place, 1);
      if (!isOver) return load;
    }
    return undefined;
  }

  /** Whether as many exchanges of the source are under way as one may have. [WIRE-CONNECTIONS-4] */
  #isCrowded(source: string | undefined): boolean {
    const most = Math.ceil((this.#options.perOrigin ?? Number.POSITIVE_INFINITY) / 2);
    if (source === undefined || this.#size - this.#idle.length < most) return false;
    let own = 0;
    for (const connection of this.#open) if (connection.source === source) own++;
    for (const [sent] of this.#opening) if (sent.source === source) own++;
    return own >= most;
  }

  /** There is one connection less: the next that waits gets one of its own. */
  #carryOn(): void {
    const next = this.#next();
    if (next) return this.take(next);
    if (this.#size === 0) this.#onEmpty();
  }

  #openFor(load: Load): void {
    const [, exchange] = load;
    this.#opening.add(load);
    this.#options.connect(this.#target, (error, socket) => {
      this.#opening.delete(load);
      if (this.#isDestroyed) return void socket?.on('error', () => {}).destroy();
      if (error) {
        exchange.failed(error, false);
        return this.#carryOn();
      }
      const connection = new Connection(socket, this, this.#options.keepAliveMs);
      this.#open.add(connection);
      this.#count.open++;
      if (exchange.isOver) this.free(connection);
      else connection.carry(load);
    });
  }
}
