/** Names are looked up in the hosts file and by name servers that may be silent, ill or wrong. [NAMES-1]–[NAMES-5] */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createNames, type Names, type NamesOptions } from '../../src/partners/names.ts';
import { directoryFor } from '../support/directory.ts';
import { type NameAnswer, nameServer } from '../support/name-server.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import { type Test, t } from '../support/tap.ts';

async function scene(
  t: Test,
  answers: Record<string, NameAnswer>,
  { ttlS = 60, ...options }: NamesOptions & { ttlS?: number } = {},
) {
  const clock = new SimulatedClock('2026-05-01T12:00:00Z');
  const server = await nameServer(t, (name) => answers[name] ?? 'absent', { ttlS });
  const names = createNames({ servers: [server.address], clock, ...options });
  t.teardown(() => names.close());
  return { clock, server, names };
}

const told = (names: Names, name: string, caller = 'one') =>
  names.find(name, caller).then(
    (found) => found.map(({ address }) => address),
    (error: NodeJS.ErrnoException) => error.code,
  );

t.test('both address families are returned, IPv4 first, in any case and with a final dot', async (t) => {
  const { names, server } = await scene(t, { 'both.example': ['2001:db8::1', '192.0.2.1', '192.0.2.2'] });
  t.same(await told(names, 'Both.EXAMPLE.'), ['192.0.2.1', '192.0.2.2', '2001:db8::1']);
  t.same(await told(names, 'both.example'), ['192.0.2.1', '192.0.2.2', '2001:db8::1']);
  t.equal(server.asked.length, 1, 'one question');
});

t.test('the hosts file takes precedence, and localhost needs no look-up', async (t) => {
  const hostsFile = join(directoryFor(t), 'hosts');
  writeFileSync(
    hostsFile,
    '# a comment\n192.0.2.9\tcpo.example cpo # also\n2001:db8::9 CPO.example\nbroken cpo.example\n',
  );
  const { names, server } = await scene(
    t,
    { 'cpo.example': ['198.51.100.1'], 'emsp.example': ['198.51.100.2'] },
    { hostsFile },
  );
  t.same(await told(names, 'cpo.example'), ['192.0.2.9', '2001:db8::9']);
  t.same(await told(names, 'cpo'), ['192.0.2.9']);
  for (const name of ['localhost', 'hub.localhost']) t.same(await told(names, name), ['127.0.0.1', '::1'], name);
  t.same(server.asked, []);
  t.same(await told(names, 'emsp.example'), ['198.51.100.2']);
});

t.test('an answer is kept for its TTL, at least a second and at most an hour', async (t) => {
  for (const [ttlS, keptS] of [
    [0, 1],
    [60, 60],
    [1_000_000, 3600],
  ] as const) {
    const { names, server, clock } = await scene(t, { 'cpo.example': ['192.0.2.1'] }, { ttlS });
    await told(names, 'cpo.example');
    clock.advance(keptS * 1000 - 1);
    await told(names, 'cpo.example');
    t.equal(server.asked.length, 1, `TTL ${ttlS}: kept`);
    clock.advance(1);
    t.equal(names.known('cpo.example'), null);
    await told(names, 'cpo.example');
    t.equal(server.asked.length, 2, `TTL ${ttlS}: asked again`);
  }
});

t.test(
  'an answer outlives its TTL for a day while the name servers fail, and ends when the name does not exist',
  async (t) => {
    const answers: Record<string, NameAnswer> = { 'cpo.example': ['192.0.2.1'] };
    const { names, clock } = await scene(t, answers);
    await told(names, 'cpo.example');
    answers['cpo.example'] = 'ill';
    clock.advance(60_000);
    t.same(await told(names, 'cpo.example'), ['192.0.2.1']);
    clock.advance(23 * 3_600_000);
    t.same(await told(names, 'cpo.example'), ['192.0.2.1'], 'hours later');
    clock.advance(3_600_000);
    t.equal(await told(names, 'cpo.example'), 'EAI_AGAIN', 'a day later');
    answers['cpo.example'] = ['192.0.2.2'];
    clock.advance(5_000);
    t.same(await told(names, 'cpo.example'), ['192.0.2.2']);
    answers['cpo.example'] = 'absent';
    clock.advance(60_000);
    t.equal(await told(names, 'cpo.example'), 'ENOTFOUND', 'an answer that there is no such name counts at once');
  },
);

t.test('of very many addresses the first of each family are kept, also beyond their TTL [NAMES-5]', async (t) => {
  const four = Array.from({ length: 100 }, (_, n) => `192.0.2.${n + 1}`);
  const six = Array.from({ length: 100 }, (_, n) => `2001:db8::${n + 1}`);
  const { names, server, clock } = await scene(t, { 'many.example': [...four, ...six] }, { ttlS: 0 });
  t.same(await told(names, 'many.example'), [...four.slice(0, 16), ...six.slice(0, 16)]);
  clock.advance(1_999);
  await told(names, 'many.example');
  t.equal(server.asked.length, 1, 'the time in which they are read is a small part of that for which they are kept');
  clock.advance(1);
  await told(names, 'many.example');
  t.equal(server.asked.length, 2);
});

t.test('a name that was not found is looked up again after 5 s', async (t) => {
  const { names, server, clock } = await scene(t, {});
  for (let n = 0; n < 3; n++) t.equal(await told(names, 'none.example'), 'ENOTFOUND');
  t.equal(server.asked.length, 1);
  clock.advance(5_000);
  await told(names, 'none.example');
  t.equal(server.asked.length, 2);
});

t.test('a silent name server holds at most two look-ups of a caller for 5 s each, and nobody else’s', async (t) => {
  const answers: Record<string, NameAnswer> = { 'cpo.example': ['192.0.2.1'] };
  for (let n = 0; n < 20; n++) answers[`n${n}.example`] = 'silence';
  const { names, server, clock } = await scene(t, answers);
  const held = Array.from({ length: 20 }, (_, n) => told(names, `n${n}.example`, 'attacker'));
  await server.askedTimes(2);
  t.same(await told(names, 'cpo.example', 'victim'), ['192.0.2.1'], 'another caller is answered');
  const asked = new Set(server.asked.filter((name) => name.startsWith('n')));
  t.equal(asked.size, 2, [...asked].join(' '));
  clock.advance(5_000);
  t.same(new Set(await Promise.all(held)), new Set(['EAI_AGAIN']), 'all of them end');
});
