/**
 * Counts what the clients of partners made up for, in the report of the partner. All calls of the hub pass here, so
 * that no part of it has to count. [D70]
 *
 * COUNTED-PORTS-1  What one call made up for is counted once, whatever the call is for and however it ends.
 */
import type { Quirk } from '../../domain/quirks.ts';
import type { CallSubject, HubPorts } from '../ports/ports.ts';

export function countedPorts(ports: HubPorts, used: (about: CallSubject, quirks: readonly Quirk[]) => void): HubPorts {
  const { client, versions, lists } = ports;
  const count = (about: CallSubject | undefined, quirks: readonly Quirk[] | undefined) => {
    if (about && quirks && quirks.length > 0) used(about, quirks);
  };
  return {
    ...ports,
    client: {
      refusal: (url) => client.refusal(url),
      async call(call) {
        const outcome = await client.call(call);
        count(call.about, outcome.quirks);
        return outcome;
      },
    },
    versions: {
      async discover(partner) {
        const discovered = await versions.discover(partner);
        count(partner.about, discovered.quirks);
        return discovered;
      },
    },
    lists: {
      pages(list) {
        const pages = lists.pages(list);
        return {
          async next() {
            const page = await pages.next();
            if (page.value?.kind === 'page') count(list.about, page.value.quirks);
            return page;
          },
        };
      },
    },
  };
}
