/**
 * The Hub Client Info module: the parties known to the hub and their connection status, the same for every caller.
 * [D30]
 */
import { anyParty } from '../caller.ts';
import { listedFor, listRequest } from '../objects.ts';
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
        const asked = listRequest(exchange, 'hubclientinfo');
        const found = hub.clientInfo(asked.page.request);
        const texts = found.items.map((info) => JSON.stringify(info));
        return listedFor(hub, exchange, asked, { ...found, items: texts });
      },
    },
  ],
};
