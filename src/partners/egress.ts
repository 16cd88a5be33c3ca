/**
 * Which addresses the hub may call. A partner chooses the URLs that the hub calls, so without this guard it could make the
 * hub knock on machines inside the operator's own network.
 *
 * EGRESS-1  Public addresses are allowed; every other one only when it lies in the operator's allow list (CIDR).
 * EGRESS-2  The address that is connected to is the address that was checked: names are checked after they were resolved, in
 *     the same look-up that the socket uses, and literals before the socket is made (a look-up never sees them).
 * EGRESS-3  An IPv6 address that carries an IPv4 one (mapped, NAT64) is judged by the address it carries.
 */
import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import ipaddr from 'ipaddr.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Range = readonly [Address, number];

export class EgressRefused extends Error {
  override readonly name = 'EgressRefused';
  readonly code = 'EGRESS_REFUSED';
}

export interface Egress {
  /** Why a URL may not be called, whatever its host resolves to; null when it may. */
  urlRefusal(url: URL): string | null;
  /** Why the host of a URL, when it is an IP literal (without brackets), may not be called; null when it may, and for names. */
  literalRefusal(host: string): string | null;
  /** Resolves like the system, and leaves out the addresses that may not be called; fails when none is left. */
  readonly lookup: LookupFunction;
}

/** Addresses that look public and still are not: Azure answers virtual machines there with their secrets. */
const metadataAddresses = new Set(['168.63.129.16']);

const globalUnicast: Range = [ipaddr.IPv6.parse('2000::'), 3];

/** Reads the allow list; a single address counts as the range of itself. Throws when an entry is neither. */
export function readRanges(entries: readonly string[]): Range[] {
  return entries.map((entry) => {
    const text = entry.trim();
    if (ipaddr.isValidCIDR(text)) return ipaddr.parseCIDR(text);
    if (isIP(text) !== 0) return [ipaddr.parse(text), text.includes(':') ? 128 : 32];
    throw new Error(`"${entry}" is not a network: expected a CIDR range such as 10.0.0.0/8 or fd00::/8`);
  });
}

function within(address: Address, [network, bits]: Range): boolean {
  return address.kind() === network.kind() && address.match(network as ipaddr.IPv4 & ipaddr.IPv6, bits);
}

/** The IPv4 address inside an IPv6 one (EGRESS-3). */
function carried(address: Address): Address {
  if (!(address instanceof ipaddr.IPv6)) return address;
  if (address.isIPv4MappedAddress()) return address.toIPv4Address();
  if (within(address, [ipaddr.IPv6.parse('64:ff9b::'), 96])) return new ipaddr.IPv4(address.toByteArray().slice(12));
  return address;
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast' || metadataAddresses.has(address.toString())) return false;
  return address.kind() === 'ipv4' || within(address, globalUnicast);
}

/** Why this address may not be called, or null. */
export function addressRefusal(text: string, allow: readonly Range[]): string | null {
  if (!ipaddr.isValid(text)) return `${text} is not an address`;
  const written = ipaddr.parse(text);
  const address = carried(written);
  if (isPublic(address) || allow.some((range) => within(address, range) || within(written, range))) return null;
  return `the address ${text} is not allowed (${address.range()})`;
}

/** What the hub never calls, whatever the address: other schemes, and URLs that carry a password. Null when it is fine. */
export function urlRefusal(url: URL): string | null {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return `the scheme ${url.protocol} is not allowed`;
  if (url.username !== '' || url.password !== '') return 'a URL with credentials is not allowed';
  return null;
}

/** A name that ends in a dot is the same name. */
const hostOf = ({ hostname, port }: URL) => `${hostname.replace(/\.$/, '')}:${port}`;

/**
 * The guard over an allow list of CIDR ranges. Throws when the list cannot be read. `ownUrl` is where the hub itself is reached: a
 * partner that names it as its own would have the hub call itself, in the name of whoever's token it gave, without end.
 */
export function egressGuard(allowed: readonly string[], ownUrl: () => string | null = () => null): Egress {
  const ranges = readRanges(allowed);

  let known: { readonly own: string; readonly host: string; readonly judged: WeakMap<URL, string | null> } | null =
    null;

  /** Each call asks, and nearly all bring the same few URLs. [target.ts] */
  function refusalOf(url: URL): string | null {
    const own = ownUrl();
    if (own === null) return urlRefusal(url);
    if (known?.own !== own) known = { own, host: hostOf(new URL(own)), judged: new WeakMap() };
    const { host, judged } = known;
    const before = judged.get(url);
    if (before !== undefined) return before;
    const refusal = urlRefusal(url) ?? (hostOf(url) === host ? "the hub's own address is not allowed" : null);
    judged.set(url, refusal);
    return refusal;
  }

  const lookup: LookupFunction = (hostname, options, callback) => {
    const query: LookupOptions = { ...options, all: true };
    systemLookup(hostname, query, (error, found) => {
      if (error) return callback(error, '', 0);
      const addresses = found as LookupAddress[];
      const usable = addresses.filter(({ address }) => addressRefusal(address, ranges) === null);
      const first = usable[0];
      if (first === undefined) {
        const why = addressRefusal(addresses[0]?.address ?? '', ranges);
        return callback(new EgressRefused(`${hostname} cannot be called: ${why ?? 'it has no address'}`), '', 0);
      }
      if (options.all === true) return callback(null, usable);
      callback(null, first.address, first.family);
    });
  };

  return {
    urlRefusal: refusalOf,
    literalRefusal: (host) => (isIP(host) === 0 ? null : addressRefusal(host, ranges)),
    lookup,
  };
}
