/**
 * What flows while a test looks at the console: a CPO and an eMSP, where the eMSP refuses what the test says.
 */
import { sessionBody } from '../support/bodies.ts';
import { routedPair } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin, type PlainPartner, type Reply } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';

export interface Traffic {
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  /** The eMSP answers so when the path of a call holds the text; by itself it takes everything. */
  readonly answers: Map<string, Reply>;
  /** A session that is pushed and, unless it is refused for good, has arrived when this resolves. */
  push(id: string, fields?: object): Promise<void>;
  /** Many at once. */
  pushAll(ids: readonly string[]): Promise<void>;
}

interface HubAddress {
  readonly url: string;
  readonly adminToken: string;
}

/** Of an eMSP that does not know the object: the delivery is dead at once. */
export const unknownThere: Reply = {
  status: 404,
  text: JSON.stringify({ status_code: 2003, status_message: 'Unknown session', timestamp: '2026-01-02T03:04:05Z' }),
};

export async function traffic(t: Test, hub: HubAddress): Promise<Traffic> {
  const answers = new Map<string, Reply>();
  const { cpo, emsp } = await routedPair(t, hub, {
    emsp: ({ path }) => [...answers].find(([text]) => path.includes(text))?.[1] ?? {},
  });
  async function taken(id: string, fields: object): Promise<void> {
    const { json } = await cpo.call('PUT', `/2.2.1/sessions/NL/CPO/${id}`, sessionBody(id, fields));
    if (json.status_code !== 1000) throw new Error(`pushing ${id}: ${JSON.stringify(json)}`);
  }
  async function push(id: string, fields: object = {}): Promise<void> {
    await taken(id, fields);
    await quiet(hub);
  }
  async function pushAll(ids: readonly string[]): Promise<void> {
    await Promise.all(ids.map((id) => taken(id, {})));
    await quiet(hub);
  }
  return { cpo, emsp, answers, push, pushAll };
}

/** Id of the newest delivery of an object of NL-CPO to NL-EMS. */
export async function deliveryOf(hub: HubAddress, id: string): Promise<string> {
  const { items } = await admin(hub, 'GET', `/deliveries?object=NL-CPO/${id}`);
  return (items as { id: string }[])[0]?.id ?? '';
}
