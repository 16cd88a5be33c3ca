/** Whether an address lies within one of several networks. */
import { BlockList, isIP } from 'node:net';

const known = new WeakMap<readonly string[], BlockList>();

/** `networks`: CIDR ranges or single addresses, which must be valid; a list is parsed once. */
export function isWithin(networks: readonly string[], address: string): boolean {
  const family = isIP(address);
  const list = known.get(networks) ?? parsed(networks);
  known.set(networks, list);
  // Also knows an IPv4 address that is written as IPv6 (`::ffff:192.0.2.1`).
  return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4');
}

function parsed(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', bits] = network.split('/');
    const isSix = isIP(address) === 6;
    list.addSubnet(address, Number(bits ?? (isSix ? 128 : 32)), isSix ? 'ipv6' : 'ipv4');
  }
  return list;
}
