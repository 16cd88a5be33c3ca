/**
 * Egress guard: decides which addresses the hub may call. Partners choose the URLs that the hub calls, so without the
 * guard a partner could make the hub send requests to machines inside the operator's network (SSRF).
 *
 * EGRESS-1  Public addresses are allowed; any other address only if it is in the operator's allow list (CIDR).
 * EGRESS-2  The address that is connected to is the address that was checked, so DNS rebinding has no effect: names are
 *     checked after resolution, in the same look-up that the socket uses; IP literals before the socket opens, since
 *     they cause no look-up.
 * EGRESS-3  An IPv6 address that embeds an IPv4 address (mapped, NAT64) is judged by the embedded address.
 * EGRESS-4  The hub does not call itself: neither its public URL, nor a listener of its own or of another node, by
 *     whatever name. The addresses of each connection are compared before anything is sent: on a listener of all
 *     interfaces, a connection that begins and ends at one address comes from this machine. The address of the public
 *     URL is not compared, since a proxy there may serve others, too; what comes back through it, or through a further
 *     address that the system calls from its first one, bears the hub's own `X-Hub-Instance` and is refused.
 */
import { isIP, type LookupFunction, type Socket } from 'node:net';
import ipaddr from 'ipaddr.js';
import { bareHost, parsedHttpUrl, portOf } from '../kit/url.ts';
import { createNames, type Names } from './names.ts';

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
  /** Resolves without the addresses that may not be called; fails when none is left. */
  readonly lookup: LookupFunction;
  /** Why this connection may not be used; null when it may. [EGRESS-4] */
  connectionRefusal(ends: Ends): string | null;
  readonly names: Names;
}

/** Both ends of a connection. */
export type Ends = Pick<Socket, 'localAddress' | 'remoteAddress' | 'remotePort'>;

/** Address and port; a listener's address may be that of all interfaces. */
export interface Place {
  readonly address: string;
  readonly port: number;
}

/** What the hub itself is reached by. [EGRESS-4] */
export interface OwnPlaces {
  /** Null: none is known. */
  readonly publicUrl: string | null;
  readonly listeners: () => readonly Place[];
  /** URLs of the other nodes. */
  readonly nodes: () => readonly string[];
}

const noPlaces: OwnPlaces = { publicUrl: null, listeners: () => [], nodes: () => [] };
const itself = "the hub's own address is not allowed";

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
 * Whether a connection reaches a listener on `place`. The list of interfaces is not read, since a sandbox may forbid it:
 * a connection to an address of this machine begins there, except in 127.0.0.0/8, where it begins at 127.0.0.1, and at
 * a further address of an interface.
 */
function reaches(place: Place, { localAddress = '', remoteAddress = '', remotePort }: Ends): boolean {
  if (place.port !== remotePort) return false;
  const [listening, called] = [carried(ipaddr.parse(place.address)), carried(ipaddr.parse(remoteAddress))];
  if (listening.range() !== 'unspecified') return listening.toString() === called.toString();
  return called.range() === 'loopback' || carried(ipaddr.parse(localAddress)).toString() === called.toString();
}

/**
 * The guard for an allow list of CIDR ranges. Throws when the list cannot be parsed. A partner that registers the hub's
 * own address as its own would make the hub call itself in an endless loop, authenticated by any token that the partner
 * supplies; hence `own`.
 */
export function egressGuard(allowed: readonly string[], own = noPlaces, names: Names = createNames()): Egress {
  const ranges = readRanges(allowed);

  const ownHost = own.publicUrl === null ? null : hostOf(new URL(own.publicUrl));
  const judged = new WeakMap<URL, string | null>();

  /** Cached per URL object: every call needs it, and `targetOf` yields the same few objects. */
  function refusalOf(url: URL): string | null {
    const before = judged.get(url);
    if (before !== undefined) return before;
    const refusal = urlRefusal(url) ?? (hostOf(url) === ownHost ? itself : null);
    judged.set(url, refusal);
    return refusal;
  }

  const lookup: LookupFunction = (hostname, options, callback) => {
    const judge = (addresses: Awaited<ReturnType<Names['find']>>) => {
      const usable = addresses.filter(({ address }) => addressRefusal(address, ranges) === null);
      const first = usable[0];
      if (first === undefined) {
        const why = addressRefusal(addresses[0]?.address ?? '', ranges);
        return callback(new EgressRefused(`${hostname} cannot be called: ${why ?? 'it has no address'}`), '', 0);
      }
      if (options.all === true) return callback(null, usable);
      callback(null, first.address, first.family);
    };
    names.find(hostname, hostname).then(judge, (error: NodeJS.ErrnoException) => callback(error, '', 0));
  };

  /** The places of another node, as far as the addresses of its name are known; asks for them otherwise. */
  function placesOf(node: string): Place[] {
    const url = parsedHttpUrl(node);
    // What cannot be read leads nowhere. [CHANNEL-4]
    if (url === null) return [];
    const [host, port] = [bareHost(url), portOf(url)];
    if (isIP(host) !== 0) return [{ address: host, port }];
    const found = names.known(host);
    // A failure shows when the node itself is called.
    if (found === null) names.find(host, 'nodes').catch(() => {});
    return Array.isArray(found) ? found.map(({ address }) => ({ address, port })) : [];
  }

  function connectionRefusal(ends: Ends): string | null {
    const places = [...own.listeners(), ...own.nodes().flatMap(placesOf)];
    return places.some((place) => reaches(place, ends)) ? itself : null;
  }

  return {
    urlRefusal: refusalOf,
    literalRefusal: (host) => (isIP(host) === 0 ? null : addressRefusal(host, ranges)),
    lookup,
    connectionRefusal,
    names,
  };
}
