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
const versions = 'version_information_endpoint';
const authorization = 'mod_tokens, Real-time authorization request';
const ofObject = 'the module of the object';

/** How bad each is, what is expected instead, and where OCPI says so. */
const kinds = {
  unreachable: ['error', 'its versions can be read with its token', `${versions}, Version information endpoint`],
  'versions-unusable': [
    'error',
    'version 2.2.1 with the endpoints of its modules',
    `${versions}, Version details endpoint`,
  ],
  'endpoint-missing': ['error', 'an endpoint for what its role is asked or sent', `${versions}, Endpoint`],
  'endpoint-changed': [
    'warning',
    'the endpoints that it registered with; PUT /credentials tells the hub of new ones',
    'credentials, PUT method',
  ],
  'list-failed': ['error', 'a list of objects', pagination],
  'no-total': ['warning', 'X-Total-Count says how many objects match', pagination],
  'no-limit': ['note', 'X-Limit says how many objects a page can have', pagination],
  'limit-ignored': ['warning', 'no more objects than limit asks for', pagination],
  'same-page': ['error', 'the next page has the next objects', pagination],
  'object-refused': ['error', 'an object that a push with the same body would be taken for', ofObject],
  'object-warning': ['warning', 'fields as OCPI defines them', ofObject],
  'foreign-object': ['error', 'objects of its own parties', `${transport}, Client owned object push`],
  'no-envelope': ['warning', 'every answer is an envelope', `${transport}, Response format`],
  'unknown-found': [
    'warning',
    '404 for an object that it does not have',
    'status_codes, 404 for GET of what is not there',
  ],
  'get-failed': ['warning', 'GET at a receiver, to see what it has', `${transport}, GET`],
  'allows-anyone': ['error', '404 with 2004 for an unknown token', authorization],
  'authorize-failed': ['error', 'an answer to the authorization of an unknown token', authorization],
  'write-refused': ['error', 'an object that OCPI allows is taken', `${transport}, PUT`],
  'command-failed': ['error', 'a CommandResponse within the time-out', 'mod_commands, CommandResponse object'],
  'command-accepted': ['warning', 'REJECTED for a location that it does not have', 'mod_commands, CommandResponseType'],
  'push-refused': ['error', 'pushes that the hub can take', ofObject],
  'dead-letters': ['error', 'deliveries are taken', `${transport}, Push`],
  unfinished: ['error', 'answers within the time of a check', `${transport}, Response format`],
} as const satisfies Readonly<Record<string, readonly [Kind['severity'], expected: string, source: string]>>;

/**
 * The finding of this name; a quirk that no habit explains is one all the same. What a setting heals is an error until
 * the setting is in force.
 */
export function findingOf(seen: Seen, settings: PartnerChoices): FindingView {
  return { ...seen, ...kindOf(seen.name, settings) };
}

function kindOf(name: string, settings: PartnerChoices): Kind {
  if (Object.hasOwn(kinds, name)) {
    const [severity, expected, source] = kinds[name as keyof typeof kinds];
    return { severity, expected, source };
  }
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
