/**
 * The Hub Client Info module: the parties known to the hub and their connection status, the same for every caller.
 * [D30]
 */
import { anyParty } from '../caller.ts';
import { listedFor, pageOf } from '../objects.ts';
import { type OcpiModule, version } from '../route.ts';

export const hubclientinfo: OcpiModule = {
  identifier: 'hubclientinfo',
  roles: ['SENDER'],
  routes: [
    {
      method: 'GET',
      path: `/${version}/hubclientinfo`,
      by: anyParty,
      budget: 'list:hubclientinfo',
      handle: (hub, exchange) => {
        const page = pageOf(exchange, 'hubclientinfo');
        const found = hub.clientInfo(page.request);
        const texts = found.items.map((info) => JSON.stringify(info));
        return listedFor(hub, exchange, 'hubclientinfo', page, { ...found, items: texts });
      },
    },
  ],
};
