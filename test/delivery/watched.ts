/**
 * What tests of deliveries look at: a receiver that holds its answers until it is told, and deliveries as operators see them.
 */
import { Lanes } from '../../src/hub/delivery/lanes.ts';
import { sessionBody } from '../support/bodies.ts';
import { itemsOf } from '../support/observed.ts';
import { admin, type PlainPartner, type Received, type Reply } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';

export interface HubAddress {
  readonly url: string;
  readonly adminToken: string;
}

export interface DeliveryItem {
  readonly id: string;
  readonly state: 'PENDING' | 'DELIVERED' | 'DEAD';
  readonly receiver: string;
  readonly module: string;
  readonly object: string;
  readonly method: string;
  readonly seq: number;
  readonly correlation_id: string | null;
  readonly due_at: string | null;
  readonly reason: string | null;
  readonly attempts: readonly { readonly at: string; readonly class: string }[];
}

/** An instant of the tests' day, so many minutes after 04:00. */
export const at = (minute: number) => `2026-01-02T04:${String(minute).padStart(2, '0')}:00Z`;

/** Throws unless the hub takes it. */
export async function putSession(cpo: PlainPartner, id: string, fields: object = {}, headers = {}): Promise<void> {
  await cpo.push('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, fields), headers);
}

/** Deliveries that match, newest first. */
export async function deliveriesOf(hub: HubAddress, query = ''): Promise<DeliveryItem[]> {
  return (await itemsOf(hub, `/deliveries${query}`)) as unknown as DeliveryItem[];
}

/** Deliveries in memory of the hubs of a test, without what only the log holds; `clear` forgets those of a hub that was closed. */
export function watchedMemory(t: Test): { readonly clear: () => void; readonly size: () => number } {
  const lanes = new Set<Lanes>();
  const { add } = Lanes.prototype;
  Lanes.prototype.add = function (this: Lanes, item) {
    lanes.add(this);
    return add.call(this, item);
  };
  t.teardown(() => {
    Lanes.prototype.add = add;
  });
  const clear = () => lanes.clear();
  t.beforeEach(clear);
  return { clear, size: () => [...lanes].reduce((sum, { size }) => sum + size, 0) };
}

/** Holds every call until it is released; `answer` of a release goes back to the hub. */
export class Holding {
  readonly held: { readonly received: Received; readonly release: (reply: Reply) => void }[] = [];
  /** Most calls that were held at the same time. */
  most = 0;
  /** Answers at once when set. */
  open: Reply | null = null;

  readonly answer = (received: Received): Reply | Promise<Reply> => {
    if (this.open) return this.open;
    return new Promise((resolve) => {
      this.held.push({ received, release: resolve });
      this.most = Math.max(this.most, this.held.length);
    });
  };

  /** Answers the call that came first. */
  releaseOne(reply: Reply = {}): void {
    this.held.shift()?.release(reply);
  }

  /** Answers all that is held and all that will come. */
  releaseAll(reply: Reply = {}): void {
    this.open = reply;
    for (const { release } of this.held.splice(0)) release(reply);
  }
}

/** `kwh` of a session, PUT or PATCH. */
export const kwhOf = ({ body }: Pick<Received, 'body'>): number => (JSON.parse(body) as { kwh: number }).kwh;

/** Last segment of the path, without the query. */
export const idOf = ({ path }: Pick<Received, 'path'>): string => path.split('?')[0]?.split('/').at(-1) ?? '';

/** State of the circuit that deliveries pass. */
export async function asyncCircuit(hub: HubAddress, id: string): Promise<string> {
  const { circuits } = (await admin(hub, 'GET', `/parties/${id}`)) as {
    circuits: { circuit: string; state: string }[];
  };
  return circuits.find(({ circuit }) => circuit === 'async')?.state ?? '';
}
