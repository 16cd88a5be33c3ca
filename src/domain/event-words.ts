/** How a list of events says what each was about: on the command line, and in the console. */

type Data = Readonly<Record<string, unknown>>;

interface Shown {
  readonly type: string;
  readonly about: string;
  readonly object: string | null;
  readonly data?: unknown;
}

/** Fields of an event's data that are shown after its subject. */
const shownFields = [
  ...['command', 'result', 'reason', 'class', 'session', 'emsp', 'cpo', 'circuit', 'module', 'kind', 'state'],
  ...['from', 'to', 'allowed', 'note'],
];

/** Of an object: what was sent. Of anything else: its subject, the shown fields, and what an operator set. */
export function eventWords({ type, about, object, data }: Shown): string[] {
  const words = (data ?? {}) as Data;
  if (type.startsWith('object.')) return [[words.method, words.module, object].filter(Boolean).join(' ')];
  const named = shownFields.map((name) => words[name]).filter((word) => typeof word === 'string');
  return [about, ...named, ...changedIn(type, words)];
}

/** What an operator set: a rule active or not, settings of a partner. */
function changedIn(type: string, { active, settings }: Data): string[] {
  if (type === 'route.set') return [active === true ? 'active' : 'inactive'];
  if (type !== 'partner.changed') return [];
  return Object.entries(settings ?? {}).map(([name, value]) => `${name}=${value ?? 'none'}`);
}
