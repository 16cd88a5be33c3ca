/**
 * `ocpi-hub parties set`: changes the settings of a partner, or lists all that there are. `parties endpoints` and `roles`:
 * print a partner's endpoints and roles; set and remove operators' overrides of discovered endpoints, and roles. [D13]
 */
import type { Command } from 'commander';
import type { EndpointView, PartyView } from '../api/parties.ts';
import { type SettingName, settingRows } from '../domain/partner-settings.ts';
import { Failure } from './client.ts';
import { partyPath } from './complete.ts';
import { type Column, type Page, table } from './table.ts';
import { repeated, verb } from './verb.ts';

type Row = (typeof settingRows)[number][1];

type Shown = PartyView & { hub_token?: string };

interface Line {
  readonly name: SettingName;
  readonly value: string;
  readonly row: Row;
}

const settingColumns: readonly Column<Line>[] = [
  { title: 'setting', of: ({ name }) => name },
  { title: 'value', of: ({ value }) => value },
  { title: 'one of', of: ({ row }) => formOf(row), shrinksTo: 12 },
  { title: 'meaning', of: ({ row }) => row.means, shrinksTo: 24 },
];

export function setVerb(): Command {
  return verb<{ name?: string }>({
    usage: 'set <id> [setting=value...]',
    summary: 'change settings of a partner; without any, list them with their meaning',
    options: [['--name <name>', 'its business name, until its next PUT of credentials names another']],
    examples: [
      'parties set NL-CPO',
      'parties set NL-CPO patch_without_last_updated=accept link_prev=false',
      'parties set NL-EMS hidden_modules=tariffs,hubclientinfo',
      'parties set NL-EMS hidden_modules=default',
      'parties set NL-EMS --name "Example Mobility"',
    ],
    run: async ({ hub, screen }, [given = '', ...changes], { name }) => {
      const chosen = Object.fromEntries(changes.map(changeOf));
      const path = await partyPath(hub, given);
      const named = name !== undefined && { business_details: renamed(await hub.get<Shown>(path), name) };
      const body = { ...named, ...chosen };
      const isAsked = Object.keys(body).length === 0;
      const party = isAsked ? await hub.get<Shown>(path) : await hub.send<Shown>('PATCH', path, body);
      screen.answer(party, ({ id, settings, hub_token }, page) => {
        const lines = settingRows.map(([name, row]) => ({ name, row, value: settingText(settings[name]) }));
        const issued =
          hub_token === undefined ? [] : [`hub token of ${id}, shown only once:`, '', `  ${hub_token}`, ''];
        return [...issued, ...table(settingColumns, lines, page)];
      });
    },
  });
}

/** The hub gives all parties of a partner the same details: what one of them has alone would be lost. */
function renamed({ id, roles }: Shown, name: string): object {
  const details = new Map(roles.flatMap(({ business_details: its }) => (its ? [[JSON.stringify(its), its]] : [])));
  const [only] = details.values();
  if (details.size < 2) return { ...only, name };
  const names = [...details.values()].map((its) => its.name).join(', ');
  throw new Failure(
    `nothing was changed: parties of ${id} have business details of their own (${names}), which one name for all would replace; its next PUT of credentials can rename one`,
  );
}

/** A value as it is set. */
export const settingText = (value: PartyView['settings'][SettingName]): string => String(value ?? '') || 'none';

function formOf(row: Row): string {
  if (row.form === 'choice') return row.of.join(', ');
  if (row.form === 'flag') return 'true, false';
  if (row.form === 'hours') return 'hours, none';
  return row.form === 'instant' ? 'RFC 3339, none' : 'a,b,c or none';
}

/** Refuses an unknown name here; the hub judges the value. */
function changeOf(text: string): readonly [SettingName, unknown] {
  const at = text.indexOf('=');
  const found = settingRows.find(([name]) => name === text.slice(0, at));
  if (!found) {
    const names = settingRows.map(([name]) => name).join(', ');
    throw new Failure(`"${text}": expected setting=value; settings are ${names}`, { exitCode: 2 });
  }
  const [name, row] = found;
  return [name, readValue(row, text.slice(at + 1))];
}

/** A text that is no number is left to the hub, which says what it expects. */
const hoursOf = (text: string): number | string => (Number.isNaN(Number(text)) ? text : Number(text));

function readValue(row: Row, text: string): unknown {
  if (text === 'default') return row.preset;
  if (row.form === 'flag') return text === 'true' || (text === 'false' ? false : text);
  if (row.form === 'choice') return text;
  const isNone = text === '' || text === 'none';
  if (row.form === 'instant') return isNone ? null : text;
  if (row.form === 'hours') return isNone ? null : hoursOf(text);
  return isNone ? [] : text.split(',');
}

interface EndpointFlags {
  readonly set?: readonly string[];
  readonly unset?: readonly string[];
}

type Wanted = Omit<EndpointView, 'source'>;

const endpointColumns: readonly Column<EndpointView>[] = [
  { title: 'module', of: ({ identifier }) => identifier },
  { title: 'role', of: ({ role }) => role },
  { title: 'url', of: ({ url }) => url, shrinksTo: 24 },
  { title: 'source', of: ({ source }) => source, colour: ({ source }) => (source === 'operator' ? 'cyan' : null) },
];

export function endpointTable(endpoints: readonly EndpointView[], page: Page): string[] {
  return table(endpointColumns, endpoints, page);
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
        party = await hub.send<PartyView>('PUT', `${path}/endpoints`, { endpoints: endpointsAfter(party, set, unset) });
      }
      if (screen.isJson) return screen.json(party.endpoints);
      if (party.endpoints.length > 0) return screen.lines(endpointTable(party.endpoints, screen.page));
      screen.say(`${party.id} has no endpoints. It tells them when it registers, or --set module=url sets one.`);
    },
  });
}

/** PUT replaces all endpoints that operators have set, so the body repeats those that stay. */
function endpointsAfter({ endpoints }: PartyView, set: readonly string[], unset: readonly string[]): Wanted[] {
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

interface RolesFlags {
  readonly add?: readonly string[];
  readonly remove?: readonly string[];
  readonly name?: string;
}

type Role = PartyView['roles'][number];

const partyOf = ({ country_code, party_id }: Role): string => `${country_code}-${party_id}`;
export const roleName = (role: Role): string => `${role.role} ${partyOf(role)}`;

const roleColumns: readonly Column<Role>[] = [
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
      const roles = rolesAfter(before, added ?? [], removed ?? []);
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
        return [...table(roleColumns, shown.roles, page), ...next];
      });
    },
  });
}

/** PUT replaces all roles, so the body repeats those that stay, without the details that they keep: a partner may have sent others than PUT takes. */
function rolesAfter({ id, roles }: PartyView, added: readonly Role[], removed: readonly Role[]): object[] {
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
