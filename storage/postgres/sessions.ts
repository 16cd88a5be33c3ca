/** The sessions of a node for reads and rare writes, each for one caller at a time. */
import type { Client } from 'pg';
import { Limit } from '../../src/kit/concurrency.ts';
import { StoreUnavailable } from '../contract.ts';
import { destroy, isAlive, type Primary, translated } from './connect.ts';

const READERS_MAX = 8;

/** Pool of at most `READERS_MAX` sessions for reads and rare writes; a session serves one caller at a time. */
export class Sessions {
  readonly #primary: Primary;
  readonly #idle: Client[];
  readonly #used = new Set<Client>();
  readonly #lent = new Limit(READERS_MAX);

  constructor(primary: Primary, first: Client) {
    this.#primary = primary;
    this.#idle = [first];
  }

  /** `work` has the session to itself. Rejects with errors as `translated` makes them. */
  use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    return this.#lent.run(() => this.#use(work));
  }

  async #use<T>(work: (client: Client) => Promise<T>): Promise<T> {
    let client: Client | null = null;
    try {
      client = this.#taken() ?? (await this.#primary.connect());
      this.#used.add(client);
      const result = await work(client);
      this.#idle.push(client);
      return result;
    } catch (error) {
      // The session may be inside a failed transaction. [CONNECT-3]
      if (client !== null) destroy(client);
      throw translated(error);
    } finally {
      if (client !== null) this.#used.delete(client);
    }
  }

  /** A read, retried once: an idle session may have ended, which only its next statement shows. */
  async read<T>(work: (client: Client) => Promise<T>): Promise<T> {
    try {
      return await this.use(work);
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      return this.use(work);
    }
  }

  /** Ends every session; statements in flight reject here. */
  renew(): void {
    for (const client of [...this.#idle.splice(0), ...this.#used]) destroy(client);
  }

  #taken(): Client | null {
    for (let client = this.#idle.pop(); client !== undefined; client = this.#idle.pop()) {
      if (isAlive(client)) return client;
    }
    return null;
  }
}
