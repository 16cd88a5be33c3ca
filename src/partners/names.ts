/**
 * Looks up the host names of partners. The look-up of the system (`getaddrinfo`) would block a thread of the process's
 * only pool for as long as a name server is silent, so that one partner's name servers could stop all look-ups and the
 * store; c-ares uses sockets and no thread.
 *
 * NAMES-1  A look-up ends within `lookupMs`, whatever the name servers do.
 * NAMES-2  The hosts file comes first, then the name servers with the name as it is given, without search domains.
 *     `localhost` is answered without either.
 * NAMES-3  Addresses are kept for their TTL, and while look-ups of the name fail for up to a day more. A failed look-up
 *     is not repeated for `failedMs`; a name that does not exist has no addresses from then on.
 * NAMES-4  A caller has at most `lookupsMax` look-ups in progress, and its others wait for them; nobody waits for those
 *     of another caller. Look-ups of the same name that are in progress are shared.
 * NAMES-5  At most `namesMax` names are kept, each with `addressesMax` addresses of a family: an answer may have thousands, which would take
 *     half a megabyte, and each connection would judge them all. It is kept `msPerAddress` for each address that came: to read it takes
 *     that part of the thread's time at most.
 */
import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { type Clock, dayMs, hourMs, withTimeout } from '../kit/clock.ts';
import { keepNewest } from '../kit/memo.ts';
import { systemClock } from '../kit/system-clock.ts';
import { turnstile } from '../kit/turns.ts';

export type Addresses = readonly LookupAddress[];

export interface Names {
  /** The addresses of a name that needs no look-up now, or its failure; null when it needs one. */
  known(name: string): Addresses | Error | null;
  /** Looks the name up unless it is known. Rejects with code ENOTFOUND or EAI_AGAIN. */
  find(name: string, caller: string): Promise<Addresses>;
  /** Ends every look-up. */
  close(): void;
}

export interface NamesOptions {
  /** `address` or `address:port`; empty: those of the system. */
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
  readonly clock?: Clock;
}

/** Longest a caller waits for one look-up, ms; half of what a driver's authorize may take by default. */
const lookupMs = 5_000;
/** First wait of c-ares for an answer, ms; it doubles at each of the tries. */
const tryMs = 1_500;
const tries = 2;
/** How much longer the IPv4 addresses of a name wait for its IPv6 addresses, ms. [RFC 8305, 3] */
const otherFamilyMs = 50;
const lookupsMax = 2;
/** Bounds of a TTL, ms: with less than a second each connection would need a look-up of its own. */
const [ttlMinMs, ttlMaxMs] = [1_000, hourMs];
const failedMs = 5_000;
const staleMaxMs = dayMs;
const namesMax = 10_000;
/** A connection tries three. [NAMES-5] */
const addressesMax = 16;
/** To read one takes 5 µs. [NAMES-5] */
const msPerAddress = 10;

const loopback: Addresses = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/** Codes of answers that a name does not exist, or has no addresses; any other failure is one of the name servers. */
const absent: ReadonlySet<string | undefined> = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME']);

/** Times are hub time. */
interface Entry {
  readonly addresses: Addresses;
  /** Set when there are no addresses. */
  readonly error: Error | null;
  /** The next look-up is due then. */
  readonly until: number;
  readonly answeredAt: number;
}

interface Found {
  readonly addresses: Addresses;
  readonly ttlMs: number;
}

export function createNames(options: NamesOptions = {}): Names {
  const { servers = [], hostsFile = '/etc/hosts', clock = systemClock } = options;
  const resolver = new Resolver({ timeout: tryMs, tries });
  if (servers.length > 0) resolver.setServers(servers);
  const entries = new Map<string, Entry>();
  const lookups = new Map<string, Promise<Addresses>>();
  /** [NAMES-4] */
  const turn = turnstile(Number.POSITIVE_INFINITY, lookupsMax);

  function known(name: string): Addresses | Error | null {
    const entry = entries.get(keyOf(name));
    if (entry === undefined || clock.now() >= entry.until) return null;
    return entry.error ?? entry.addresses;
  }

  async function find(name: string, caller: string): Promise<Addresses> {
    const work = inTurn(name, caller);
    if (!(await withTimeout(clock, lookupMs, work))) {
      work.catch(() => {});
      throw failed('EAI_AGAIN', `the look-up of ${name} took too long`);
    }
    return work;
  }

  async function inTurn(name: string, caller: string): Promise<Addresses> {
    const release = await turn(caller);
    try {
      const key = keyOf(name);
      const found = known(key);
      if (found instanceof Error) throw found;
      if (found !== null) return found;
      const shared = lookups.get(key) ?? lookUp(key).finally(() => lookups.delete(key));
      lookups.set(key, shared);
      return await shared;
    } finally {
      release();
    }
  }

  async function lookUp(name: string): Promise<Addresses> {
    const before = entries.get(name);
    const keep = (entry: Entry) => keepNewest(entries, name, entry, namesMax);
    try {
      const { addresses, ttlMs } = await ask(name);
      const now = clock.now();
      keep({ addresses, error: null, until: now + ttlMs, answeredAt: now });
      return addresses;
    } catch (failure) {
      const error = failure as NodeJS.ErrnoException;
      const now = clock.now();
      const { addresses = [], answeredAt = now } = before ?? {};
      const isStale = addresses.length > 0 && now - answeredAt < staleMaxMs && error.code !== 'ENOTFOUND';
      const until = now + failedMs;
      keep(isStale ? { addresses, error: null, until, answeredAt } : { addresses: [], error, until, answeredAt: now });
      if (isStale) return addresses;
      throw error;
    }
  }

  async function ask(name: string): Promise<Found> {
    if (/(?:^|\.)localhost$/.test(name)) return { addresses: loopback, ttlMs: ttlMaxMs };
    const inFile = await hostsOf(hostsFile, name);
    if (inFile.length > 0) return { addresses: inFile, ttlMs: failedMs };
    const [four, six] = [resolver.resolve4(name, { ttl: true }), resolver.resolve6(name, { ttl: true })];
    six.catch(() => {});
    const [ofFour] = await Promise.allSettled([four]);
    const isEnough = ofFour.status === 'fulfilled' && !(await withTimeout(clock, otherFamilyMs, settled(six)));
    const ofSix = isEnough ? null : (await Promise.allSettled([six]))[0];
    const answers = [ofFour, ofSix].map((answer) => (answer?.status === 'fulfilled' ? answer.value : []));
    const records = answers.flatMap((found) => found.slice(0, addressesMax));
    if (records.length === 0) throw failureOf(name, [ofFour, ofSix]);
    const ttlMs = Math.min(...records.map(({ ttl }) => ttl)) * 1000;
    const readMs = answers.flat().length * msPerAddress;
    return {
      addresses: records.map(({ address }) => ({ address, family: isIP(address) })),
      ttlMs: Math.min(ttlMaxMs, Math.max(ttlMinMs, readMs, ttlMs)),
    };
  }

  return { known, find, close: () => resolver.cancel() };
}

/** Names are compared without regard to case and to the dot of their end. */
const keyOf = (name: string) => name.toLowerCase().replace(/\.$/, '');

const settled = (work: Promise<unknown>) =>
  work.then(
    () => {},
    () => {},
  );

/** A failure with the code that the look-up of the system would give it. */
const failed = (code: 'ENOTFOUND' | 'EAI_AGAIN', message: string): NodeJS.ErrnoException =>
  Object.assign(new Error(message), { code });

/** The name does not exist only if no family's failure leaves that open. */
function failureOf(name: string, answers: readonly (PromiseSettledResult<unknown> | null)[]): Error {
  const errors = answers.flatMap((answer) =>
    answer?.status === 'rejected' ? [answer.reason as NodeJS.ErrnoException] : [],
  );
  const open = errors.find(({ code }) => !absent.has(code));
  return open ? failed('EAI_AGAIN', open.message) : failed('ENOTFOUND', `${name} does not exist or has no address`);
}

/** The addresses of a name in the hosts file; none when there is no file. */
async function hostsOf(path: string, name: string): Promise<Addresses> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const found = text.split('\n').flatMap((line): LookupAddress[] => {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/);
    const family = isIP(address);
    return family !== 0 && names.some((one) => keyOf(one) === name) ? [{ address, family }] : [];
  });
  return found.sort((a, b) => a.family - b.family);
}
