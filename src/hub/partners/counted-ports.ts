/**
 * Counts what the clients of partners made up for, in the report of the partner. All calls of the hub pass here, so
 * that no part of it has to count. [D70]
 *
 * COUNTED-PORTS-1  What one call made up for is counted once, whatever the call is for and however it ends.
 * COUNTED-PORTS-2  A call is in flight to its partner until it has ended, whatever it is for; a partner without calls has
 *     no entry.
 */
import type { PartyId } from '../../domain/party.ts';
import type { Quirk } from '../../domain/quirks.ts';
import type { CallSubject, HubPorts } from '../ports/ports.ts';

/** `inFlight`: where calls are counted by partner. */
export function countedPorts(
  ports: HubPorts,
  used: (about: CallSubject, quirks: readonly Quirk[]) => void,
  inFlight: Map<PartyId, number>,
): HubPorts {
  const { client, versions, lists } = ports;
  /** [COUNTED-PORTS-2] */
  const during = async <T>(about: CallSubject | undefined, call: Promise<T>): Promise<T> => {
    if (!about) return call;
    const add = (more: 1 | -1) => {
      const now = (inFlight.get(about.partner) ?? 0) + more;
      if (now === 0) inFlight.delete(about.partner);
      else inFlight.set(about.partner, now);
    };
    add(1);
    try {
      return await call;
    } finally {
      add(-1);
    }
  };
  const count = (about: CallSubject | undefined, quirks: readonly Quirk[] | undefined) => {
    if (about && quirks && quirks.length > 0) used(about, quirks);
  };
  return {
    ...ports,
    client: {
      refusal: (url) => client.refusal(url),
      async call(call) {
        const outcome = await during(call.about, client.call(call));
        count(call.about, outcome.quirks);
        return outcome;
      },
    },
    versions: {
      async discover(partner) {
        const discovered = await during(partner.about, versions.discover(partner));
        count(partner.about, discovered.quirks);
        return discovered;
      },
    },
    lists: {
      pages(list) {
        const pages = lists.pages(list);
        return {
          async next() {
            const page = await during(list.about, pages.next());
            if (page.value?.kind === 'page') count(list.about, page.value.quirks);
            return page;
          },
        };
      },
    },
  };
}
