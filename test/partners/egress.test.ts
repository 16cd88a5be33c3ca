import { addressRefusal, egressGuard, readRanges, urlRefusal } from '../../src/partners/egress.ts';
import { t } from '../support/tap.ts';

const none = readRanges([]);

const publicAddresses = [
  '93.184.215.14',
  '8.8.8.8',
  '2606:4700:4700::1111',
  '2a00:1450:4001::1',
  '::ffff:8.8.8.8',
  '64:ff9b::808:808',
];

const refusedAddresses: Readonly<Record<string, readonly string[]>> = {
  loopback: ['127.0.0.1', '127.255.255.254', '::1'],
  private: ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1'],
  'link-local and metadata': ['169.254.169.254', '169.254.0.1', 'fe80::1', 'fe80::1%eth0', '168.63.129.16'],
  'unique local': ['fc00::1', 'fd00:ec2::254'],
  'carrier-grade NAT': ['100.64.0.1', '100.100.100.200'],
  multicast: ['224.0.0.1', '239.255.255.255', 'ff02::1'],
  unspecified: ['0.0.0.0', '0.1.2.3', '::'],
  broadcast: ['255.255.255.255'],
  reserved: ['240.0.0.1', '192.0.2.1', '198.18.0.1', '203.0.113.9', '2001:db8::1'],
  'IPv4 inside IPv6': [
    '::ffff:127.0.0.1',
    '::ffff:a00:1',
    '64:ff9b::7f00:1',
    '64:ff9b::a9fe:a9fe',
    '::7f00:1',
    '2002:7f00:1::',
    '2001::1',
  ],
  'site-local': ['fec0::1'],
  'no address': ['localhost', ''],
};

t.test('Public addresses may be called', async (t) => {
  for (const address of publicAddresses) t.equal(addressRefusal(address, none), null, address);
});

t.test('Every other address is refused, with the address in the message', async (t) => {
  for (const [kind, addresses] of Object.entries(refusedAddresses)) {
    for (const address of addresses) {
      const refusal = addressRefusal(address, none);
      t.match(refusal, /not/, `${address} (${kind})`);
      t.ok(refusal?.includes(address), refusal ?? '');
    }
  }
});

t.test('The allow list opens its networks, and no others', async (t) => {
  const ranges = readRanges(['10.20.0.0/16', '127.0.0.1', 'fd12::/32', ' 192.168.7.0/24 ']);
  for (const address of ['10.20.255.1', '127.0.0.1', 'fd12::5', '192.168.7.9', '::ffff:10.20.1.1']) {
    t.equal(addressRefusal(address, ranges), null, address);
  }
  for (const address of ['10.21.0.1', '127.0.0.2', 'fd13::5', '192.168.8.1', '::ffff:10.21.1.1', '::1']) {
    t.type(addressRefusal(address, ranges), 'string', address);
  }
});

t.test('An allow list that cannot be parsed is reported', async (t) => {
  for (const entry of ['10.0.0.0/33', 'intranet', '10.0.0', '', '::/129']) {
    t.throws(() => egressGuard([entry]), { message: /is not a network: expected a CIDR range/ }, entry);
  }
});

t.test('Unusual notations of an address are refused like the address itself', async (t) => {
  const guard = egressGuard([]);
  const hosts = [
    '0x7f000001',
    '2130706433',
    '0177.0.0.1',
    '127.1',
    '0',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::]',
    '①②⑦.0.0.1',
  ];
  for (const host of hosts) {
    const { hostname } = new URL(`http://${host}/`);
    const literal = hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
    t.type(guard.literalRefusal(literal), 'string', `${host} is ${hostname}`);
  }
  t.equal(guard.literalRefusal('partner.example'), null, 'a name is for the look-up');
});

function resolve(
  allowed: readonly string[],
  name: string,
  all: boolean,
): Promise<{ error: Error | null; found: unknown }> {
  return new Promise((done) => {
    egressGuard(allowed).lookup(name, { all }, (error, found) => done({ error, found }));
  });
}

t.test('A name that resolves to a refused address is refused, with any look-up', async (t) => {
  for (const all of [true, false]) {
    const { error } = await resolve([], 'localhost', all);
    t.match(error, { code: 'EGRESS_REFUSED', message: /^localhost cannot be called: the address .* is not allowed/ });
  }
});

t.test('A name keeps its allowed addresses', async (t) => {
  const { found: addresses } = await resolve(['127.0.0.0/8'], 'localhost', true);
  t.same(addresses, [{ address: '127.0.0.1', family: 4 }]);
  const { found: address } = await resolve(['127.0.0.0/8'], 'localhost', false);
  t.equal(address, '127.0.0.1');
});

t.test('A name that does not resolve remains an error of the resolver', async (t) => {
  const { error } = await resolve([], 'partner.invalid', true);
  t.match(error, { code: /ENOTFOUND|EAI_AGAIN/ });
});

t.test('A connection to a listener of the hub or of another node is refused, whatever its name', async (t) => {
  const { connectionRefusal, names } = egressGuard(['127.0.0.0/8', '::1'], {
    publicUrl: null,
    listeners: () => [
      { address: '127.0.0.1', port: 8080 },
      { address: '::', port: 8443 },
    ],
    nodes: () => [
      'http://192.0.2.7:8081',
      'http://localhost:8082',
      'https://[2001:db8::7]',
      'http://192.0.2.256',
      'node-b:8082',
    ],
  });
  await names.find('localhost', 'test');
  const own: [string, number][] = [
    ['127.0.0.1', 8080],
    ['::ffff:127.0.0.1', 8080],
    ['127.0.0.1', 8443],
    ['127.0.0.9', 8443],
    ['::1', 8443],
    ['192.0.2.7', 8081],
    ['127.0.0.1', 8082],
    ['2001:db8::7', 443],
    ['192.0.2.1', 8443],
    ['::ffff:192.0.2.1', 8443],
  ];
  /** From the first address of this machine. */
  const refusal = (remoteAddress: string, remotePort: number) =>
    connectionRefusal({ localAddress: '192.0.2.1', remoteAddress, remotePort });
  for (const [address, port] of own) t.match(refusal(address, port), /own address/, `${address} ${port}`);
  const others: [string, number][] = [
    ['127.0.0.2', 8080],
    ['127.0.0.1', 8081],
    ['192.0.2.1', 8080],
    ['192.0.2.7', 8080],
    ['192.0.2.8', 8443],
  ];
  for (const [address, port] of others) t.equal(refusal(address, port), null, `${address} ${port}`);
  const ended = { remoteAddress: undefined, remotePort: undefined };
  t.equal(connectionRefusal(ended), null, 'one that has ended meanwhile');
});

t.test('Only http and https, and no credentials in the URL', async (t) => {
  t.equal(urlRefusal(new URL('https://partner.example/ocpi')), null);
  t.equal(urlRefusal(new URL('http://partner.example/ocpi')), null);
  t.match(urlRefusal(new URL('ftp://partner.example/')), /scheme/);
  t.match(urlRefusal(new URL('file:///etc/passwd')), /scheme/);
  t.match(urlRefusal(new URL('https://user@partner.example/')), /credentials/);
  t.match(urlRefusal(new URL('https://user:pass@partner.example/')), /credentials/);
});
