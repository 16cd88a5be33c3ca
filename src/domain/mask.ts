/**
 * Hides what names a person from operators who only read: token uids, contract ids and visual numbers, down to their
 * last characters. Answers of the admin API and messages of the inspector pass through here before a viewer gets them.
 *
 * MASK-1  A name is hidden wherever OCPI or the hub puts one: in fields of tokens, in bodies and excerpts that are texts
 *     of JSON, in paths below `/tokens/`, and in keys of token objects.
 * MASK-2  A name that was hidden in one place of a value is hidden in every other text of it.
 */

/** Fields that hold a name. An EVSE has a `uid`, too, which names no person. */
const naming: ReadonlySet<string> = new Set([
  ...['uid', 'contract_id', 'visual_number'],
  ...['tokenUid', 'contractId', 'visualNumber', 'token_uid', 'contract'],
]);
/** A shorter name is hidden only where it is the whole text, since it occurs in others by chance. [MASK-2] */
const replacedFrom = 4;

const inJson = /("(?:uid|contract_id|visual_number)\\*"\s*:\s*\\*")((?:[^"\\]|\\[^"])+)/g;
const inPath = /(\/tokens\/(?:[A-Za-z]{2}\/[A-Za-z0-9]{1,3}\/)?)([^/?#\s"\\]+)/g;
const inKey = /^((?:tokens?:)?[A-Z]{2}-[A-Z0-9]{1,3}\/)(.+)$/i;
/** Fields whose value is the key of an object, beside a `module` or in a tally of one. */
const keys: ReadonlySet<string> = new Set(['object', 'key', 'stream', 'about', 'id']);

/** `NL-TNM-C12345-6` → `…45-6`. */
function maskedName(name: string): string {
  const shown = Math.min(4, Math.floor(name.length / 3));
  return `…${shown === 0 ? '' : name.slice(-shown)}`;
}

/** The value with every name hidden; texts, arrays and objects are copied, all else stays. */
export function masked(value: unknown): unknown {
  const names = new Set<string>();
  collect(value, names);
  return names.size === 0 ? value : replaced(value, replacerOf(names), names);
}

/** Finds the names in the value of the field `of`. `isEvse`: within `evses`, where a `uid` names no person. */
function collect(value: unknown, names: Set<string>, isEvse = false, of = ''): void {
  if (typeof value === 'string') return collectInText(value, names);
  if (typeof value !== 'object' || value === null) return;
  const fields = Object.entries(value);
  // A tally is named `tokens issuer`.
  const isToken = ('module' in value && value.module === 'tokens') || of.startsWith('tokens ');
  for (const [field, inner] of fields) {
    if (typeof inner === 'string') {
      if (naming.has(field) && !(field === 'uid' && isEvse)) names.add(inner);
      const key = keys.has(field) && (isToken || /^tokens?:/.test(inner)) ? inKey.exec(inner)?.[2] : undefined;
      if (key !== undefined) names.add(key);
    }
    collect(inner, names, isEvse || field === 'evses', field);
  }
}

function collectInText(text: string, names: Set<string>): void {
  if (/^\s*[[{]/.test(text)) {
    const json = parsed(text);
    if (json !== undefined) return collect(json, names);
  }
  if (!text.includes('/evses') && text.includes('"'))
    for (const [, , name = ''] of text.matchAll(inJson)) names.add(name);
  for (const [, , name = ''] of text.matchAll(inPath)) if (name !== 'authorize') names.add(decoded(name));
}

type Replacer = (text: string) => string;

function replacerOf(names: ReadonlySet<string>): Replacer {
  const known = [...names].filter((name) => name.length >= replacedFrom).sort((a, b) => b.length - a.length);
  if (known.length === 0) return (text) => text;
  const forms = new Map<string, string>();
  for (const name of known) {
    for (const form of [name, encodeURIComponent(name), JSON.stringify(name).slice(1, -1)]) {
      forms.set(form.toLowerCase(), maskedName(name));
    }
  }
  const pattern = new RegExp([...forms.keys()].map(escaped).join('|'), 'gi');
  return (text) => text.replace(pattern, (found) => forms.get(found.toLowerCase()) ?? found);
}

function replaced(value: unknown, inText: Replacer, names: ReadonlySet<string>): unknown {
  if (typeof value === 'string') return names.has(value) ? maskedName(value) : inText(value);
  if (Array.isArray(value)) return value.map((one) => replaced(one, inText, names));
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([field, inner]) => [field, replaced(inner, inText, names)] as const);
  return Object.fromEntries(fields);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&');
