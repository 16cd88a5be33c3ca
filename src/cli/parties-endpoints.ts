/**
 * `ocpi-hub parties endpoints`: prints a partner's endpoints; sets and removes operators' overrides of discovered ones.
 * [D13]
 */
import type { Command } from 'commander';
import type { EndpointView, PartyView } from '../api/parties.ts';
import { Failure } from './client.ts';
import { partyPath } from './complete.ts';
import { type Column, type Page, table } from './table.ts';
import { repeated, verb } from './verb.ts';

interface EndpointFlags {
  readonly set?: readonly string[];
  readonly unset?: readonly string[];
}

type Wanted = Omit<EndpointView, 'source'>;

const columns: readonly Column<EndpointView>[] = [
  { title: 'module', of: ({ identifier }) => identifier },
  { title: 'role', of: ({ role }) => role },
  { title: 'url', of: ({ url }) => url, shrinksTo: 24 },
  { title: 'source', of: ({ source }) => source, colour: ({ source }) => (source === 'operator' ? 'cyan' : null) },
];

export function endpointTable(endpoints: readonly EndpointView[], page: Page): string[] {
  return table(columns, endpoints, page);
}

export function endpointsVerb(): Command {
  return verb<EndpointFlags>({
    usage: 'endpoints <id>',
    summary: "list a partner's endpoints; --set and --unset change those that operators set, which win",
    options: [
      ['--set <module=url>', 'set an endpoint, RECEIVER unless SENDER: stands before the module; repeatable', repeated],
      ['--unset <module>', 'withdraw one that was set; the discovered one counts again; repeatable', repeated],
    ],
    examples: [
      'parties endpoints NL-EMS',
      'parties endpoints NL-EMS --set sessions=https://emsp.example/ocpi/2.2.1/sessions',
      'parties endpoints NL-CPO --set SENDER:locations=https://cpo.example/ocpi/2.2.1/locations',
      'parties endpoints NL-EMS --unset sessions',
    ],
    run: async ({ hub, screen }, [given = ''], { set = [], unset = [] }) => {
      const path = await partyPath(hub, given);
      let party = await hub.get<PartyView>(path);
      if (set.length + unset.length > 0) {
        party = await hub.send<PartyView>('PUT', `${path}/endpoints`, { endpoints: changed(party, set, unset) });
      }
      if (screen.isJson) return screen.json(party.endpoints);
      if (party.endpoints.length > 0) return screen.lines(endpointTable(party.endpoints, screen.page));
      screen.say(`${party.id} has no endpoints. It tells them when it registers, or --set module=url sets one.`);
    },
  });
}

/** PUT replaces all endpoints that operators have set, so the body repeats those that stay. */
function changed({ endpoints }: PartyView, set: readonly string[], unset: readonly string[]): Wanted[] {
  const operators = endpoints.filter(({ source }) => source === 'operator');
  const own = new Map(
    operators.map(({ identifier, role, url }) => [`${role}:${identifier.toLowerCase()}`, { identifier, role, url }]),
  );
  for (const text of unset) {
    const { identifier, role } = moduleOf(text);
    if (!own.delete(`${role}:${identifier}`)) {
      throw new Failure(`no operator has set ${role} ${identifier}, so there is nothing to withdraw`);
    }
  }
  for (const text of set) {
    const [, named = '', url = ''] = /^([^=]+)=(.+)$/.exec(text) ?? [];
    if (url === '') throw new Failure(`--set is "${text}": expected module=url`, { exitCode: 2 });
    const { identifier, role } = moduleOf(named);
    own.set(`${role}:${identifier}`, { identifier, role, url });
  }
  return [...own.values()];
}

function moduleOf(text: string): Omit<Wanted, 'url'> {
  const [, role, identifier = ''] = /^(?:(SENDER|RECEIVER):)?(.+)$/i.exec(text) ?? [];
  return { identifier: identifier.toLowerCase(), role: role?.toUpperCase() === 'SENDER' ? 'SENDER' : 'RECEIVER' };
}
