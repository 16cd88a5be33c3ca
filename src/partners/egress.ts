/**
 * Egress guard: decides which addresses the hub may call. Partners choose the URLs that the hub calls, so without the
 * guard a partner could make the hub send requests to machines inside the operator's network (SSRF).
 *
 * EGRESS-1  Public addresses are allowed; any other address only if it is in the operator's allow list (CIDR).
 * EGRESS-2  The address that is connected to is the address that was checked, so DNS rebinding has no effect: names are
 *     checked after resolution, in the same look-up that the socket uses; IP literals before the socket opens, since
 *     they cause no look-up.
 * EGRESS-3  An IPv6 address that embeds an IPv4 address (mapped, NAT64) is judged by the embedded address.
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
  /** Why a URL may not be called, regardless of what its host resolves to; null when it may. */
  urlRefusal(url: URL): string | null;
  /** Why an IP literal (without brackets) may not be called; null when it may be called, or when `host` is a name. */
  literalRefusal(host: string): string | null;
  /** Resolves like the system, without the addresses that may not be called; fails when none is left. */
  readonly lookup: LookupFunction;
}

/** Public addresses that must not be called: Azure serves virtual machines their metadata and secrets there. */
const metadataAddresses = new Set(['168.63.129.16']);

const globalUnicast: Range = [ipaddr.IPv6.parse('2000::'), 3];

/** Parses the allow list; a single address is a range of one. Throws when an entry is neither range nor address. */
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

/** The IPv4 address embedded in an IPv6 address, else the address itself (EGRESS-3). */
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

/**
 * Refuses URLs that the hub never calls, whatever the address: other schemes, and URLs with credentials. Null: allowed.
 */
export function urlRefusal(url: URL): string | null {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return `the scheme ${url.protocol} is not allowed`;
  if (url.username !== '' || url.password !== '') return 'a URL with credentials is not allowed';
  return null;
}

/** Host and port. A trailing dot of a name is dropped, since it denotes the same name. */
const hostOf = ({ hostname, port }: URL) => `${hostname.replace(/\.$/, '')}:${port}`;

/**
 * The guard for an allow list of CIDR ranges. Throws when the list cannot be parsed. `ownUrl` is the hub's own URL: a
 * partner that registers it as its own would make the hub call itself in an endless loop, authenticated by any token
 * that the partner supplies.
 */
export function egressGuard(allowed: readonly string[], ownUrl: () => string | null = () => null): Egress {
  const ranges = readRanges(allowed);

  let known: { readonly own: string; readonly host: string; readonly judged: WeakMap<URL, string | null> } | null =
    null;

  /** Cached per URL object: every call needs it, and `target.ts` yields the same few objects. */
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
