/**
 * The settings of a partner, in one table: API, command line, console and OpenAPI take name, form, default and meaning
 * from here.
 *
 * PARTNER-SETTINGS-1  A partner that was stored before a setting existed has its default.
 */

/** `modules`: identifiers of OCPI modules. `networks`: CIDR. `instant`: RFC 3339, or null. `hours`: a number, or null. */
type Form =
  | { readonly form: 'choice'; readonly of: readonly string[]; readonly preset: string }
  | { readonly form: 'flag'; readonly preset: boolean }
  | { readonly form: 'instant' | 'hours'; readonly preset: null }
  | { readonly form: 'modules' | 'networks'; readonly preset: readonly string[] };

type Setting = Form & {
  /** Label in forms. */
  readonly label: string;
  /** What it does, as OpenAPI and help texts say. */
  readonly means: string;
  /** The habit of a partner that it makes up for; absent when it is no matter of habits. */
  readonly heals?: string;
  /** The role that may change it, when operator is not enough: it may issue a token. */
  readonly role?: 'admin';
};

export const partnerSettings = {
  token_encoding: {
    form: 'choice',
    of: ['auto', 'base64', 'plain'],
    preset: 'auto',
    label: 'Token encoding',
    means: 'form in which the hub sends the token of the partner; auto: each exchange finds it out',
    heals: 'it takes its token only as it is',
  },
  identity_mode: {
    form: 'choice',
    of: ['COMPATIBILITY', 'COMPLIANT'],
    preset: 'COMPLIANT',
    label: 'Identity mode',
    means: 'COMPATIBILITY finds the eMSP of a session by its START_SESSION until compatibility_until',
  },
  compatibility_until: {
    form: 'instant',
    preset: null,
    label: 'Compatibility until',
    means: 'end of COMPATIBILITY; without an end it is not active',
  },
  silent_after_h: {
    form: 'hours',
    preset: null,
    label: 'Silent after, hours',
    means: 'hours without a push after which it counts as silent; 0: never, none: as HUB_SILENT_AFTER_H says',
  },
  paused: { form: 'flag', preset: false, label: 'Paused', means: 'deliveries to it wait' },
  empty_2xx_ok: {
    form: 'flag',
    preset: false,
    label: 'An empty 2xx answer counts as success',
    means: 'an empty 2xx answer of it is a success',
    heals: 'it answers pushes without a body',
  },
  allow_from: {
    form: 'networks',
    preset: [],
    label: 'Networks that may call',
    means: 'networks from which its requests are taken; none = any',
  },
  patch_without_last_updated: {
    form: 'choice',
    of: ['refuse', 'accept'],
    preset: 'refuse',
    label: 'PATCH without last_updated',
    means: 'accept: forwarded as it came; inside the hub the time of its arrival stands in for the date',
    heals: 'its PATCH has no last_updated',
  },
  hidden_modules: {
    form: 'modules',
    preset: [],
    label: 'Modules that it is not offered',
    means: 'modules left out of the version details that it gets',
    heals: 'it fails at modules that it does not know',
  },
  link_prev: {
    form: 'flag',
    preset: true,
    label: 'Link to the previous page',
    means: 'the Link of a list has rel="prev", too',
    heals: 'it follows the wrong link of two',
  },
  authorize_to_hub: {
    form: 'choice',
    of: ['refuse', 'resolve'],
    preset: 'refuse',
    label: 'Authorize without an eMSP',
    means: 'resolve: without OCPI-to the only routed eMSP that pushed the token is asked, else the only routed eMSP',
    heals: 'it sends authorize without OCPI-to, or to the hub',
  },
  pull_only: {
    form: 'flag',
    preset: false,
    label: 'Pull only',
    means:
      'it calls with a hub token that the operator got once, without an exchange; the hub never calls it and owes it nothing. To change it, suspend the partner first',
    heals: 'it has no server, and takes part in no exchange of credentials',
    role: 'admin',
  },
} as const satisfies Readonly<Record<string, Setting>>;

export type SettingName = keyof typeof partnerSettings;

type ValueOf<S> = S extends { form: 'choice'; of: readonly (infer Word)[] }
  ? Word
  : S extends { form: 'flag' }
    ? boolean
    : S extends { form: 'instant' }
      ? string | null
      : S extends { form: 'hours' }
        ? number | null
        : readonly string[];

/** Settings as operators give and see them. */
export type PartnerChoices = { readonly [Name in SettingName]: ValueOf<(typeof partnerSettings)[Name]> };

/** The form in which the hub sends a token. */
export type TokenEncoding = 'base64' | 'plain';

/** Settings as they are stored. */
export interface PartnerSettings extends Omit<PartnerChoices, 'token_encoding'> {
  readonly token_encoding: TokenEncoding;
  /** The form was found out, and an exchange may change it. Absent in rows of earlier versions: the form is fixed. [D58] */
  readonly token_encoding_auto?: boolean;
}

const rows: readonly [string, Setting][] = Object.entries(partnerSettings);

export const settingRows = rows as readonly [SettingName, Setting][];

export const settingNames = settingRows.map(([name]) => name);

export const presets = Object.fromEntries(
  rows.map(([name, { preset }]) => [name, preset]),
) as unknown as PartnerChoices;

export const defaultSettings: PartnerSettings = { ...presets, token_encoding: 'base64', token_encoding_auto: true };

/** [PARTNER-SETTINGS-1] */
export function withDefaults(stored: Partial<PartnerSettings>): PartnerSettings {
  return { ...defaultSettings, token_encoding_auto: false, ...stored };
}

/** `auto` begins with the form in use. */
export function storedSettings(choices: Partial<PartnerChoices>): Partial<PartnerSettings> {
  const { token_encoding: choice, ...rest } = choices;
  if (choice === undefined) return rest;
  const form = choice === 'auto' ? {} : { token_encoding: choice };
  return { ...rest, ...form, token_encoding_auto: choice === 'auto' };
}

export function choicesOf({ token_encoding_auto: isAuto, ...settings }: PartnerSettings): PartnerChoices {
  return { ...settings, token_encoding: isAuto ? 'auto' : settings.token_encoding };
}

/** Of a setting in hours: a year, as of `HUB_SILENT_AFTER_H`. */
export const hoursMax = 8760;

/** The modules that may be hidden: without `credentials` nobody could register. */
export const hideableModules = ['cdrs', 'commands', 'hubclientinfo', 'locations', 'sessions', 'tariffs', 'tokens'];

/** `hidden_modules: [tariffs, tokens]`, as texts name settings with their values. */
export function settingText(choices: Readonly<Partial<PartnerChoices>>): string {
  const all = Object.entries(choices).map(([name, value]) => {
    return `${name}: ${Array.isArray(value) ? `[${value.join(', ')}]` : String(value)}`;
  });
  return all.join(', ');
}

/** Whether all these settings have these values; of a list, whether it has these members. */
export function isInForce(choices: Readonly<Partial<PartnerChoices>>, settings: PartnerChoices): boolean {
  return Object.entries(choices).every(([name, value]) =>
    isSame(settings[name as SettingName], joined(name, value, settings)),
  );
}

/** These settings on top of those in force: a list keeps its members. */
export function onTopOf(settings: PartnerChoices, choices: Readonly<Partial<PartnerChoices>>): Partial<PartnerChoices> {
  return Object.fromEntries(Object.entries(choices).map(([name, value]) => [name, joined(name, value, settings)]));
}

function joined(name: string, value: unknown, settings: PartnerChoices): unknown {
  const present = settings[name as SettingName];
  return Array.isArray(value) && Array.isArray(present) ? [...new Set([...present, ...value])] : value;
}

export const isPreset = (name: SettingName, value: unknown): boolean => isSame(value, partnerSettings[name].preset);

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** Who found out that a partner has a habit: the hub by itself, or an operator who set what makes up for it. */
export type QuirkSource = 'learnt' | 'operator';

/** The settings that make up for a habit: those that an operator set, and the form of the token that the hub found out. */
export function quirksOf(settings: PartnerChoices, tokenSentAs: TokenEncoding) {
  const rowOf = (setting: SettingName, value: unknown, source: QuirkSource) => {
    const { heals }: Setting = partnerSettings[setting];
    return heals === undefined ? [] : [{ setting, value: String(value), heals, source }];
  };
  const set = settingRows.flatMap(([setting]) =>
    isPreset(setting, settings[setting]) ? [] : rowOf(setting, settings[setting], 'operator'),
  );
  const isLearnt = settings.token_encoding === 'auto' && tokenSentAs === 'plain';
  return isLearnt ? [...rowOf('token_encoding', tokenSentAs, 'learnt'), ...set] : set;
}
