/** The types of setting values: the schema that parses each, its unit, and the text that tells what is expected. */
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import * as z from 'zod';
import { parsedUrl } from '../kit/url.ts';

/** A type of setting value: schema, unit, and the expectation in words for error messages. */
export interface Kind<T> {
  readonly schema: z.ZodType<T, string>;
  readonly expected: string;
  readonly unit: string;
}

/** The longest timeout that a Node timer supports, ms. */
const timerMsMax = 2 ** 31 - 1;
export const timerSMax = Math.floor(timerMsMax / 1000);

const digits = /^\d+$/;
const decimal = /^(\d+(\.\d+)?|\.\d+)$/;
const toNumber = (text: string) => Number(text);
const partsOf = (list: string) => list.split(',').map((part) => part.trim());
const commaList = z.string().transform(partsOf);

export function whole(unit: string, min: number, max: number): Kind<number> {
  const schema = z.string().regex(digits).transform(toNumber).pipe(z.number().min(min).max(max));
  return { schema, unit, expected: `a whole number from ${min} to ${max}` };
}

export function number(unit: string, min: number, max: number): Kind<number> {
  const schema = z.string().regex(decimal).transform(toNumber).pipe(z.number().min(min).max(max));
  return { schema, unit, expected: `a number from ${min} to ${max}, decimals allowed` };
}

/** A duration above 0. */
export function span(unit: string, max: number): Kind<number> {
  const schema = z.string().regex(decimal).transform(toNumber).pipe(z.number().gt(0).max(max));
  return { schema, unit, expected: `a number above 0 and up to ${max}, decimals allowed` };
}

export function text(unit: string, pattern: RegExp, expected: string): Kind<string> {
  return { schema: z.string().regex(pattern), unit, expected };
}

export function oneOf<const T extends string>(...values: T[]): Kind<T> {
  return {
    schema: z.string().toLowerCase().pipe(z.enum(values)),
    unit: 'word',
    expected: `one of ${values.join(', ')}`,
  };
}

export const flag: Kind<boolean> = {
  schema: z
    .string()
    .toLowerCase()
    .pipe(z.enum(['true', 'false']))
    .transform((value) => value === 'true'),
  unit: 'true or false',
  expected: 'true or false',
};

export const milliseconds = whole('ms', 1, timerMsMax);
export const perMinute = whole('requests per minute', 1, 1_000_000_000);
export const file = text('file', /\S/, 'a path');
export const bearer = text('token', /^[\x21-\x7e]{24,256}$/, '24 to 256 printable ASCII characters without spaces');

export const nodeSecret = text('text', /^[\x21-\x7e]{32,256}$/, '32 to 256 printable ASCII characters without spaces');

export const secretKey = text('text', /^[\x21-\x7e]{16,1024}$/, '16 to 1024 printable ASCII characters without spaces');

export const keys: Kind<string[]> = {
  schema: z
    .string()
    .transform((value) => value.split(/\s+/))
    .pipe(z.array(z.string().regex(/^[\x21-\x7e]{16,1024}$/))),
  unit: 'text, separated by spaces',
  expected: 'one or more keys as HUB_SECRET_KEY takes them, separated by spaces',
};

export const upperCase = (kind: Kind<string>): Kind<string> => ({
  ...kind,
  schema: kind.schema.transform((value) => value.toUpperCase()),
});

export const nameServers: Kind<string[]> = {
  schema: commaList.pipe(z.array(z.string().refine(isServer))),
  unit: 'addresses, comma-separated',
  expected: 'a comma-separated list of IP addresses, each with or without a port: 192.0.2.53,[2001:db8::53]:5353',
};

function isServer(text: string): boolean {
  const [, address = text, port = '53'] = /^(?:\[(.+)\]|([\d.]+)):(\d{1,5})$/.exec(text)?.filter(Boolean) ?? [];
  return isIP(address) !== 0 && Number(port) > 0 && Number(port) < 65536;
}

export const schedule: Kind<number[]> = {
  schema: commaList.pipe(
    z.array(z.string().regex(decimal).transform(toNumber).pipe(z.number().gt(0).max(timerSMax))).max(100),
  ),
  unit: 's, comma-separated',
  expected: 'a comma-separated list of numbers above 0, for example 1,2.5,10',
};

/** Unchanged: an issuer is compared letter by letter. */
export const issuerUrl: Kind<string> = {
  schema: z.url({ protocol: /^https?$/ }).refine((value) => parsedUrl(value) !== null && !/[?#@]/.test(value)),
  unit: 'URL',
  expected: 'an http or https URL without user, query or fragment',
};

/** A base URL to which paths are appended: without trailing `/`. */
export const httpUrl: Kind<string> = {
  ...issuerUrl,
  schema: issuerUrl.schema.transform((value) => value.replace(/\/+$/, '')),
};

export const store = text(
  'word or URL',
  /^(level|postgres(ql)?:\/\/\S+)$/,
  'level, or the address of a database: postgres://user@host:port/database',
);

/** The address of a mail server, with or without user and password. */
export const smtpUrl: Kind<string> = {
  schema: z
    .string()
    .regex(/^smtps?:\/\/\S+$/)
    .refine((value) => {
      const url = parsedUrl(value);
      return url !== null && url.hostname !== '' && /^\/?$/.test(url.pathname) && url.search === '' && isDecodable(url);
    }),
  unit: 'URL',
  expected: 'the address of a mail server: smtp://user:password@host:587 or smtps://user:password@host:465',
};

/** A password may contain what a URL must encode. */
function isDecodable({ username, password }: URL): boolean {
  try {
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

const address = /^[^\s@,;<>"]+@[^\s@,;<>"]+$/;

export const mailAddress = text('address', address, 'a mail address such as hub@example.com');

export const mailAddresses: Kind<string[]> = {
  schema: commaList.pipe(z.array(z.string().regex(address)).max(20)),
  unit: 'addresses, comma-separated',
  expected: 'a comma-separated list of at most 20 mail addresses such as ops@example.com',
};

/** A network such as `10.0.0.0/8`; a single address becomes a network of one. Undefined when it is neither. */
function toNetwork(value: string): string | undefined {
  if (ipaddr.isValidCIDR(value)) return value;
  const family = isIP(value);
  return family === 0 ? undefined : `${value}/${family === 6 ? 128 : 32}`;
}

export const loopbackNetworks: readonly string[] = ['127.0.0.0/8', '::1/128'];

export const networks: Kind<string[]> = {
  schema: z.string().transform((value, context) => {
    if (value === 'none') return [];
    if (value === 'loopback') return [...loopbackNetworks];
    const found = partsOf(value).map(toNetwork);
    const known = found.filter((network) => network !== undefined);
    if (known.length < found.length) context.addIssue('not a network');
    return known;
  }),
  unit: 'CIDR, comma-separated',
  expected: 'a comma-separated list of networks such as 10.0.0.0/8,fd00::/8, or the word none or loopback',
};

/** `DATA_DIR` → `dataDir`. */
export type CamelCase<Text extends string> = Text extends `${infer Head}_${infer Rest}`
  ? `${Lowercase<Head>}${Capitalize<CamelCase<Rest>>}`
  : Lowercase<Text>;

interface About {
  readonly meaning: string;
  /** The interface specifies the default; absent: the project chose it. */
  readonly source?: 'requirement';
  readonly consequence: string;
  /** The value must never be shown, not even in an error. */
  readonly secret?: boolean;
  /** The value that applies without a default, in words; absent: none. */
  readonly otherwise?: string;
}

export interface Setting<T> extends Kind<T>, About {
  /** The default as text, as an operator would write it; null when there is none. */
  readonly fallback: string | null;
}

export function setting<T>(kind: Kind<T>, fallback: string, about: About): Setting<T>;
export function setting<T>(kind: Kind<T>, fallback: null, about: About): Setting<T | null>;
export function setting<T>(kind: Kind<T>, fallback: string | null, about: About): Setting<T | null> {
  return { ...kind, fallback, ...about };
}
