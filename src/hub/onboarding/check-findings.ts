/**
 * What a check of a partner may find: the habits that reports count as quirks, under the same names, and what no
 * leniency of the hub makes up for.
 */
import type { FindingView } from '../../api/checks.ts';
import type { ReportView } from '../../api/report.ts';
import { type Habit, habitCounted, habits, healedBy, isSet } from '../../domain/habits.ts';
import { type PartnerChoices, settingText } from '../../domain/partner-settings.ts';
import type { Quirk } from '../../domain/quirks.ts';

type Seen = Pick<FindingView, 'name' | 'module' | 'tried' | 'seen'>;
type Kind = Omit<FindingView, keyof Seen>;

const transport = 'transport_and_format';
const pagination = `${transport}, Pagination`;

const kinds = {
  unreachable: {
    severity: 'error',
    expected: 'its versions can be read with its token',
    source: 'version_information_endpoint, Version information endpoint',
  },
  'versions-unusable': {
    severity: 'error',
    expected: 'version 2.2.1 with the endpoints of its modules',
    source: 'version_information_endpoint, Version details endpoint',
  },
  'endpoint-missing': {
    severity: 'error',
    expected: 'an endpoint for what its role is asked or sent',
    source: 'version_information_endpoint, Endpoint',
  },
  'endpoint-changed': {
    severity: 'warning',
    expected: 'the endpoints that it registered with; PUT /credentials tells the hub of new ones',
    source: 'credentials, PUT method',
  },
  'list-failed': { severity: 'error', expected: 'a list of objects', source: `${pagination}` },
  'no-total': { severity: 'warning', expected: 'X-Total-Count says how many objects match', source: pagination },
  'no-limit': { severity: 'note', expected: 'X-Limit says how many objects a page can have', source: pagination },
  'limit-ignored': { severity: 'warning', expected: 'no more objects than limit asks for', source: pagination },
  'same-page': { severity: 'error', expected: 'the next page has the next objects', source: pagination },
  'object-refused': {
    severity: 'error',
    expected: 'an object that a push with the same body would be taken for',
    source: 'the module of the object',
  },
  'object-warning': {
    severity: 'warning',
    expected: 'fields as OCPI defines them',
    source: 'the module of the object',
  },
  'foreign-object': {
    severity: 'error',
    expected: 'objects of its own parties',
    source: `${transport}, Client owned object push`,
  },
  'no-envelope': {
    severity: 'warning',
    expected: 'every answer is an envelope',
    source: `${transport}, Response format`,
  },
  'unknown-found': {
    severity: 'warning',
    expected: '404 for an object that it does not have',
    source: 'status_codes, 404 for GET of what is not there',
  },
  'get-failed': { severity: 'warning', expected: 'GET at a receiver, to see what it has', source: `${transport}, GET` },
  'allows-anyone': {
    severity: 'error',
    expected: '404 with 2004 for an unknown token',
    source: 'mod_tokens, Real-time authorization request',
  },
  'authorize-failed': {
    severity: 'error',
    expected: 'an answer to the authorization of an unknown token',
    source: 'mod_tokens, Real-time authorization request',
  },
  'write-refused': { severity: 'error', expected: 'an object that OCPI allows is taken', source: `${transport}, PUT` },
  'command-failed': {
    severity: 'error',
    expected: 'a CommandResponse within the time-out',
    source: 'mod_commands, CommandResponse object',
  },
  'command-accepted': {
    severity: 'warning',
    expected: 'REJECTED for a location that it does not have',
    source: 'mod_commands, CommandResponseType',
  },
  'push-refused': { severity: 'error', expected: 'pushes that the hub can take', source: 'the module of the object' },
  'dead-letters': { severity: 'error', expected: 'deliveries are taken', source: `${transport}, Push` },
  unfinished: {
    severity: 'error',
    expected: 'answers within the time of a check',
    source: `${transport}, Response format`,
  },
} as const satisfies Readonly<Record<string, Kind>>;

/**
 * The finding of this name; a quirk that no habit explains is one all the same. What a setting heals is an error until
 * the setting is in force.
 */
export function findingOf(seen: Seen, settings: PartnerChoices): FindingView {
  return { ...seen, ...kindOf(seen.name, settings) };
}

function kindOf(name: string, settings: PartnerChoices): Kind {
  if (Object.hasOwn(kinds, name)) return kinds[name as keyof typeof kinds];
  const habit = habitCounted(name);
  if (!habit) return { severity: 'warning', expected: 'what OCPI 2.2.1 says', source: 'docs/RUNBOOK.md' };
  const { expected, source } = habit;
  const inForce = healedBy(habit, settings);
  const heals = inForce ?? habit.healsAtOnce ?? habit.heals;
  if (!heals) return { severity: 'warning', expected, source };
  const healed = inForce !== null;
  const severity = healed ? 'warning' : 'error';
  return { severity, expected, source, heals: settingText(heals), settings: heals, healed };
}

/** The habit for which a request was refused that a setting would make up for; undefined when none would. */
export function habitRefused({ method, path, reason, body }: ReportView['refused'][number]): Quirk | undefined {
  if (method === 'PATCH' && reason.startsWith('last_updated: ') && !/"last_updated"\s*:\s*[^\sn]/.test(body))
    return 'patch-without-date';
  return path.endsWith('/authorize') && reason.startsWith('OCPI-to-party-id: ') ? 'authorize-to-hub' : undefined;
}

/** The habits that an operator's settings say the partner has: some of them no call can find. */
export function habitsSet(settings: PartnerChoices): Habit[] {
  return Object.values(habits).filter((habit) => isSet(habit, settings));
}

const order: Readonly<Record<FindingView['severity'], number>> = { error: 0, warning: 1, note: 2 };

export const worstFirst = (a: FindingView, b: FindingView): number => order[a.severity] - order[b.severity];
