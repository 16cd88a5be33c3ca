/** `ocpi-hub parties roles`: prints the parties and roles of a partner; adds some and removes some. [D12, D16] */
import type { Command } from 'commander';
import type { PartyView } from '../api/parties.ts';
import { Failure } from './client.ts';
import { partyPath } from './complete.ts';
import { type Column, table } from './table.ts';
import { repeated, verb } from './verb.ts';

interface RolesFlags {
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
  readonly name?: string;
}

type Role = PartyView['roles'][number];

const partyOf = ({ country_code, party_id }: Role): string => `${country_code}-${party_id}`;
export const roleName = (role: Role): string => `${role.role} ${partyOf(role)}`;

const columns: readonly Column<Role>[] = [
  { title: 'role', of: ({ role }) => role },
  { title: 'party', of: partyOf },
  { title: 'name', of: ({ business_details }) => business_details?.name ?? '', shrinksTo: 12 },
  { title: 'in its credentials', of: ({ left_out }) => (left_out ? 'no: others see PLANNED' : 'yes') },
];

export function rolesVerb(): Command {
  return verb<RolesFlags>({
    usage: 'roles <id>',
    summary: 'list the parties and roles of a partner; --add and --remove change them',
    options: [
      ['--add <role>', 'CPO or EMSP of its own party, or of another one: EMSP:NL-XYZ; repeatable', repeated],
      ['--remove <role>', 'the same; refused while a rule, an object or a delivery needs it; repeatable', repeated],
      ['--name <name>', 'of the business, for those that are added'],
    ],
    examples: [
      'parties roles NL-TNM',
      'parties roles NL-TNM --add EMSP',
      'parties roles NL-TNM --add CPO:NL-XYZ --name "Another Brand"',
      'parties roles NL-TNM --remove CPO:NL-XYZ',
    ],
    run: async ({ hub, screen }, [given = ''], { add = [], remove = [], name }) => {
      const path = await partyPath(hub, given);
      const before = await hub.get<PartyView>(path);
      const [added, removed] = [add, remove].map((texts) => texts.map((text) => roleIn(text, before.id, name)));
      const isAsked = add.length + remove.length === 0;
      const roles = changed(before, added ?? [], removed ?? []);
      const party = isAsked ? before : await hub.send<PartyView>('PUT', `${path}/roles`, { roles });
      screen.answer(party, (shown, page) => {
        const news = shown.roles.filter(
          (role) => role.left_out && !before.roles.some((one) => roleName(one) === roleName(role)),
        );
        const next =
          news.length === 0
            ? []
            : [
                '',
                `Its next PUT of credentials has to name ${news.map(roleName).join(', ')}; the hub then reads its endpoints again.`,
                'ocpi-hub routes set lets eMSP and CPO exchange objects.',
              ];
        return [...table(columns, shown.roles, page), ...next];
      });
    },
  });
}

/** PUT replaces all roles, so the body repeats those that stay, without the details that they keep: a partner may have sent others than PUT takes. */
function changed({ id, roles }: PartyView, added: readonly Role[], removed: readonly Role[]): object[] {
  const names = new Set(roles.map((role) => roleName(role).toUpperCase()));
  for (const role of added)
    if (names.has(roleName(role))) throw new Failure(`${id} has ${roleName(role)} already: nothing was changed`);
  for (const role of removed)
    if (!names.has(roleName(role))) throw new Failure(`${id} does not have ${roleName(role)}: nothing was changed`);
  const gone = new Set(removed.map(roleName));
  const stay = roles.filter((role) => !gone.has(roleName(role).toUpperCase()));
  return [...stay.map(({ role, country_code, party_id }) => ({ role, country_code, party_id })), ...added];
}

function roleIn(text: string, own: string, name: string | undefined): Role {
  const [, role = '', party = own] = /^(CPO|EMSP)(?::([A-Za-z]{2}-[A-Za-z0-9]{1,3}))?$/i.exec(text) ?? [];
  if (role === '')
    throw new Failure(`"${text}": expected CPO or EMSP, or one with a party such as EMSP:NL-XYZ`, { exitCode: 2 });
  const [country_code = '', party_id = ''] = party.toUpperCase().split('-');
  return {
    role: role.toUpperCase() === 'CPO' ? 'CPO' : 'EMSP',
    country_code,
    party_id,
    business_details: name === undefined ? undefined : { name },
  };
}
