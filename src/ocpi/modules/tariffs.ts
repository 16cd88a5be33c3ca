/**
 * The Tariffs module: CPOs push and delete, eMSPs pull. There is no PATCH. [interface, Tariffs]
 */
import { keyOf } from '../../domain/party.ts';
import type { Hub } from '../../hub/ports/hub.ts';
import { tariff } from '../../transport/shapes.ts';
import { emsp, owningCpo, owningCpoOrEmsp, pathParty } from '../caller.ts';
import { accept, answerObject, checkedBody, listRoute, pathId, sameIds, wholeObject } from '../objects.ts';
import { type Answer, done, type Exchange, type OcpiModule, version } from '../route.ts';

const one = `/${version}/tariffs/:country_code/:party_id/:id`;

export const tariffs: OcpiModule = {
  identifier: 'tariffs',
  roles: ['SENDER', 'RECEIVER'],
  readWhole: wholeObject(tariff, () => ({})),
  routes: [
    listRoute('tariffs', emsp),
    { method: 'GET', path: one, by: owningCpoOrEmsp, budget: 'other', handle: readTariff },
    { method: 'PUT', path: one, by: owningCpo, budget: 'other', handle: putTariff },
    { method: 'DELETE', path: one, by: owningCpo, budget: 'other', handle: deleteTariff },
  ],
};

async function putTariff(hub: Hub, exchange: Exchange): Promise<Answer> {
  const id = pathId(exchange.params, 'id');
  const checked = checkedBody(exchange, tariff);
  sameIds({ ...pathParty(exchange.params), id }, checked.body);
  await accept(hub, exchange, { module: 'tariffs', method: 'PUT', id, facts: {} }, checked);
  return done();
}

async function deleteTariff(hub: Hub, { caller, params, reserve }: Exchange): Promise<Answer> {
  const id = pathId(params, 'id');
  const plain = { method: 'DELETE', within: [], lastUpdated: null, facts: {}, body: '' } as const;
  await hub.accept(caller, { module: 'tariffs', owner: caller.id, id, ...plain }, reserve);
  return done();
}

async function readTariff(hub: Hub, exchange: Exchange): Promise<Answer> {
  const { params } = exchange;
  const owner = keyOf(pathParty(params));
  return answerObject(hub, exchange, { module: 'tariffs', owner, id: params.id ?? '', within: [] });
}
