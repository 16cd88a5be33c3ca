/** `ocpi-hub routes`: prints and sets routing rules, and explains why a party receives a module or not. */
import type { Command } from 'commander';
import type { DeliveryView } from '../api/deliveries.ts';
import type { RouteExplanation, RoutingRule, RuleSet } from '../api/routes.ts';
import { Failure, type HubClient } from './client.ts';
import { listVerb } from './list-verb.ts';
import { type Column, many, type Page } from './table.ts';
import { noun, pairOptions, partyOption, verb } from './verb.ts';

const columns: readonly Column<RoutingRule>[] = [
  { title: 'eMSP', of: ({ emsp }) => emsp },
  { title: 'CPO', of: ({ cpo }) => cpo },
  {
    title: 'active',
    of: ({ active }) => (active ? 'yes' : 'no'),
    colour: ({ active }) => (active ? 'green' : 'yellow'),
  },
];

const pathOf = (emsp: string, cpo: string) => `/routes/${encodeURIComponent(emsp)}/${encodeURIComponent(cpo)}`;

export function command(): Command {
  return noun('routes', 'which eMSP and CPO may exchange traffic', [
    listVerb<RoutingRule>({
      summary: 'list routing rules',
      options: [...pairOptions, partyOption],
      examples: ['routes', 'routes list --cpo NL-CPO', 'routes list --json'],
      path: '/routes',
      limit: 200,
      columns,
      whenEmpty: () => 'No routing rule. ocpi-hub routes set {emsp} {cpo} lets two parties exchange traffic.',
    }),
    verb<{ inactive?: boolean }>({
      usage: 'set <emsp> <cpo>',
      summary: 'let traffic pass between two parties, and release the sessions and CDRs that were kept for them',
      options: [['--inactive', 'keep the rule but let nothing pass']],
      examples: ['routes set NL-EMS NL-CPO', 'routes set NL-EMS NL-CPO --inactive'],
      run: async ({ hub, screen }, [emsp = '', cpo = ''], { inactive = false }) => {
        const rule = await hub.send<RuleSet>('PUT', pathOf(emsp, cpo), { active: !inactive });
        screen.answer(rule, () => [
          rule.active
            ? `${rule.emsp} and ${rule.cpo} are joined; ${kept(rule.released)}, and ocpi-hub parties resync ${rule.emsp} locations (or another module) sends the rest`
            : `the rule of ${rule.emsp} and ${rule.cpo} lets nothing pass`,
        ]);
        const remark = rule.active ? await deadWithout(hub, rule) : '';
        if (remark !== '') screen.say(remark);
      },
    }),
    verb({
      usage: 'remove <emsp> <cpo>',
      summary: 'remove the routing rule of two parties',
      examples: ['routes remove NL-EMS NL-CPO'],
      run: async ({ hub, screen }, [emsp = '', cpo = '']) => {
        const pair = `${emsp.toUpperCase()} and ${cpo.toUpperCase()}`;
        screen.answer(await hub.send<object>('DELETE', pathOf(emsp, cpo)), () => [`${pair} are no longer routed`]);
      },
    }),
    verb({
      usage: 'explain <from> <to> <module>',
      summary: 'say whether one party gets a module of another, and why or why not',
      examples: ['routes explain NL-CPO NL-EMS sessions', 'routes explain NL-EMS NL-CPO tokens'],
      run: async ({ hub, screen }, [from = '', to = '', module = '']) => {
        screen.answer(await hub.get<RouteExplanation>('/routes/explain', { from, to, module }), explained);
      },
    }),
  ]);
}

/** What to do about dead letters that what was owed over the rule became when it ended; of the newest thousand of their class. */
async function deadWithout(hub: HubClient, { emsp: receiver, cpo: sender }: RuleSet): Promise<string> {
  const dead = { receiver, sender, state: 'DEAD', class: 'not_found', limit: '1000' };
  const filter = `--receiver ${receiver} --sender ${sender} --class not_found`;
  try {
    const { items } = await hub.get<{ items: DeliveryView[] }>('/deliveries', dead);
    const ended = items.filter(({ reason }) => reason === 'no routing rule').length;
    if (ended === 0) return '';
    return `${many(ended, 'delivery', 'deliveries')} to ${receiver} became ${ended === 1 ? 'a dead letter' : 'dead letters'} while there was no rule: ocpi-hub redrive ${filter} sends what is dead`;
  } catch (error) {
    // The rule is set all the same.
    if (!(error instanceof Failure)) throw error;
    return `dead letters could not be looked for (${error.message}): ocpi-hub deliveries list --state DEAD ${filter} lists them`;
  }
}

const kept = (released: number) =>
  released === 0
    ? 'no session or CDR was kept'
    : `${many(released, 'kept session or CDR is on its way', 'kept sessions and CDRs are on their way')}`;

function explained({ from, to, module, delivers, conditions }: RouteExplanation, { paint }: Page): string[] {
  const verdict = delivers ? paint('green', 'are delivered') : paint('red', 'are not delivered');
  return [
    `${module} of ${from} to ${to} ${verdict}:`,
    ...conditions.map(({ holds, because }) =>
      holds ? `  ${paint('green', 'yes')}  ${because}` : `  ${paint('red', 'NO')}   ${because}`,
    ),
  ];
}
