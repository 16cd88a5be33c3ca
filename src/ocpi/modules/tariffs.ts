/**
 * The Tariffs module: CPOs push and delete, eMSPs pull. There is no PATCH. [interface, Tariffs]
 */
import type { Hub } from '../../hub/ports/hub.ts';
import { tariff } from '../../transport/shapes.ts';
import { emsp, owningCpo, owningCpoOrEmsp } from '../caller.ts';
import { listRoute, pathId, pushOf, readOf, wholeObject } from '../objects.ts';
import { type Answer, done, type Exchange, type OcpiModule, version } from '../route.ts';

const noFacts = () => ({});
const one = `/${version}/tariffs/:country_code/:party_id/:id`;

export const tariffs: OcpiModule = {
  identifier: 'tariffs',
  roles: ['SENDER', 'RECEIVER'],
  readWhole: wholeObject(tariff, noFacts),
  routes: [
    listRoute('tariffs', emsp),
    { method: 'GET', path: one, by: owningCpoOrEmsp, budget: 'other', handle: readOf('tariffs') },
    { method: 'PUT', path: one, by: owningCpo, budget: 'other', handle: pushOf('tariffs', 'PUT', tariff, noFacts) },
    { method: 'DELETE', path: one, by: owningCpo, budget: 'other', handle: deleteTariff },
  ],
};

async function deleteTariff(hub: Hub, { caller, params, reserve }: Exchange): Promise<Answer> {
  const id = pathId(params, 'id');
  const plain = { method: 'DELETE', within: [], lastUpdated: null, facts: {}, body: '' } as const;
  await hub.accept(caller, { module: 'tariffs', owner: caller.id, id, ...plain }, reserve);
  return done();
}
