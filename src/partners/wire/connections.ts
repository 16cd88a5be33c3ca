/**
 * The connections to all servers for one kind of call, by origin.
 *
 * WIRE-CONNECTIONS-1  A partner has at most `perOrigin` exchanges under way with an origin, but for those of WIRE-CONNECTIONS-4; further ones wait. Partners
 *     whose servers share an origin, as tenants of one platform do, share no connection: else calls of one that hang would hold up
 *     the calls of the other.
 * WIRE-CONNECTIONS-2  A connection that cannot be opened fails the exchange for which it was opened, and no other.
 * WIRE-CONNECTIONS-3  Nothing is kept of an origin without connections.
 * WIRE-CONNECTIONS-4  Of the `perOrigin` exchanges at most half are on behalf of one source, and a source of which none is under way has one beside
 *     them: it waits for no calls of others, however many hang. Of those that wait, the source with the fewest under way goes
 *     first, of several the one that went longest ago, and each in the order in which its own came.
 * WIRE-CONNECTIONS-5  After `destroy` none is opened, and every exchange has failed or does so when its connection is closed: with
 *     `ClientDestroyedError` when its request may have been sent, else with `ClientClosedError`.
 */
import type { Socket } from 'node:net';
import errors from 'undici/lib/core/errors.js';
import { Connection, type Load, type Owner } from './connection.ts';
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
    if (this.#isDestroyed) return exchange.failed(new errors.ClientClosedError(), false);
    if (sent.fields === null)
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
  /** Exchanges under way at most, and those on behalf of one source. */
  readonly #most: number;
  readonly #half: number;
  readonly #count: Count;
  readonly #onEmpty: () => void;
  readonly #open = new Set<Connection>();
  /** Those without an exchange; the one that was used last is used next, so that the others end when they are not needed. */
  readonly #idle: Connection[] = [];
  /** By source; the one that went last is the last. */
  readonly #waiting = new Map<string | undefined, Load[]>();
  /** Those for which a connection is being opened. */
  readonly #opening = new Set<Load>();
  #isDestroyed = false;

  constructor(origin: string, options: ConnectionsOptions, count: Count, onEmpty: () => void) {
    const { protocol, hostname, host, port } = new URL(origin);
    // Without the brackets of an IPv6 address.
    this.#target = { protocol, host, port, hostname: hostname.replace(/^\[(.*)\]$/, '$1') };
    this.#options = options;
    this.#most = options.perOrigin ?? Number.POSITIVE_INFINITY;
    this.#half = Math.ceil(this.#most / 2);
    this.#count = count;
    this.#onEmpty = onEmpty;
  }

  get #size(): number {
    return this.#open.size + this.#opening.size;
  }

  get #busy(): number {
    return this.#size - this.#idle.length;
  }

  take(load: Load): void {
    if (this.#mayGo(load[0].source)) this.#go(load);
    else this.#waitingOf(load).push(load);
  }

  free(connection: Connection): void {
    this.#idle.push(connection);
    this.#carryOn();
  }

  closed(connection: Connection, unwritten: Load | null): void {
    this.#open.delete(connection);
    this.#count.open--;
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
    if (this.#isDestroyed) return unwritten?.[1].failed(new errors.ClientClosedError(), false);
    if (unwritten) this.#waitingOf(unwritten).unshift(unwritten);
    this.#carryOn();
  }

  destroy(): void {
    this.#isDestroyed = true;
    for (const connection of this.#open) connection.destroy(new errors.ClientDestroyedError());
    const waiting = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    for (const [, exchange] of [...this.#opening, ...waiting]) exchange.failed(new errors.ClientClosedError(), false);
  }

  #go(load: Load): void {
    const connection = this.#idleOne();
    if (connection) connection.carry(load);
    else this.#openFor(load);
  }

  #idleOne(): Connection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || connection.isOpen) return connection;
    }
  }

  /** Those that wait on behalf of the same source. */
  #waitingOf([{ source }]: Load): Load[] {
    const known = this.#waiting.get(source);
    if (known) return known;
    const waiting: Load[] = [];
    this.#waiting.set(source, waiting);
    return waiting;
  }

  /** The next that waits, still has time, and may go. [WIRE-CONNECTIONS-4] */
  #next(): Load | undefined {
    let next: Load[] = [];
    let fewest = Number.POSITIVE_INFINITY;
    for (const [source, loads] of this.#waiting) {
      while (loads[0]?.[1].isOver) loads.shift();
      if (loads.length === 0) this.#waiting.delete(source);
      const own = loads.length === 0 ? fewest : this.#underWay(source);
      if (own < fewest && this.#isFree(source, own)) [next, fewest] = [loads, own];
    }
    const load = next.shift();
    if (load === undefined) return undefined;
    this.#waiting.delete(load[0].source);
    if (next.length > 0) this.#waiting.set(load[0].source, next);
    return load;
  }

  /** While so few are under way that no source can have too many, none is counted. */
  #mayGo(source: string | undefined): boolean {
    return this.#busy < this.#half || this.#isFree(source, this.#underWay(source));
  }

  /** Whether a source that has so many exchanges under way may have one more. [WIRE-CONNECTIONS-1, WIRE-CONNECTIONS-4] */
  #isFree(source: string | undefined, own: number): boolean {
    return own === 0 || (this.#busy < this.#most && (source === undefined || own < this.#half));
  }

  /** How many exchanges on behalf of a source are under way. */
  #underWay(source: string | undefined): number {
    let own = 0;
    for (const connection of this.#open) if (connection.isFor(source)) own++;
    for (const [sent] of this.#opening) if (sent.source === source) own++;
    return own;
  }

  /** There is one exchange less: the next that waits goes. */
  #carryOn(): void {
    const next = this.#next();
    if (next) this.#go(next);
    else if (this.#size === 0) this.#onEmpty();
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
