/**
 * The key that seals partner tokens is replaced while the hub is killed again and again; and a key that is wrong or gone stops the
 * start by name, before anything was changed.
 */
import { spawn, spawnSync } from 'node:child_process';
import { createCipheriv, randomBytes, scryptSync } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Partner } from '../../src/domain/party.ts';
import { partnerPut } from '../../src/hub/kernel/row-codecs.ts';
import { sealedTexts } from '../../src/hub/onboarding/sealed-tokens.ts';
import type { Replaced } from '../../src/main.ts';
import { freePort } from '../../src/sandbox/free-port.ts';
import { createSecrets } from '../../src/secrets.ts';
import type { Put, Seen } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { sessionBody } from '../support/bodies.ts';
import { command } from '../support/command.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, type TestHub } from '../support/hub-in-process.ts';
import { quiet } from '../support/observed.ts';
import { admin, type PlainPartner, plainPartner } from '../support/plain-partner.ts';
import { atLength } from '../support/share.ts';
import { type Test, t } from '../support/tap.ts';

const key = (name: string | number) => `key-of-the-rotation-test-${name}`;
const partnersCount = 12;
const kills = 12;

interface Place {
  readonly dataDir: string;
  readonly port: number;
}

type Env = Readonly<Record<string, string>>;

const environment = ({ dataDir, port }: Place, env: Env) => ({
  ...{ PATH: process.env.PATH, HUB_PORT: String(port), HUB_DATA_DIR: dataDir },
  ...{ HUB_LOG_LEVEL: 'info', ...env },
});

/** What a start that must fail says, and its exit code; it is stopped should it not fail. */
function refusedStart(place: Place, env: Env): { code: number | null; said: string } {
  const options = { env: environment(place, env), encoding: 'utf8', timeout: 120_000 } as const;
  const { status, stderr } = spawnSync(process.execPath, [command, 'serve'], options);
  const said = stderr.split('\n').filter((line) => line.startsWith('ocpi-hub: '));
  return { code: status, said: said.join('\n') };
}

/** A hub there, in this process: only those that are killed need one of their own. */
const hubAt = (t: Test, { dataDir, port }: Place, env: Env, logTo?: Replaced['logTo']): Promise<TestHub> =>
  // A key that is not set is empty.
  hubFor(t, { HUB_PORT: String(port), HUB_SECRET_KEY: '', ...env }, logTo ? { logTo } : {}, dataDir);

/** How many stored tokens the key alone opens, and how many there are. */
async function sealedUnder(dataDir: string, secretKey: string): Promise<[opened: number, all: number]> {
  const store = await openLevelStore({ directory: join(dataDir, 'store'), node: 'test' });
  try {
    const { isStale } = createSecrets(secretKey);
    const sealed = await sealedTexts(store);
    return [sealed.filter(({ text, partner }) => !isStale(text, partner)).length, sealed.length];
  } finally {
    await store.close();
  }
}

/** A token as it was sealed before sealed texts named their partner. */
function sealedV1(token: string, secretKey: string): string {
  const nonce = randomBytes(12);
  const key = scryptSync(secretKey, 'ocpi-hub sealed tokens', 32);
  const sealing = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: 16 }).setAAD(Buffer.from('v1'));
  const content = Buffer.concat([sealing.update(token, 'utf8'), sealing.final()]);
  return `v1.${Buffer.concat([nonce, sealing.getAuthTag(), content]).toString('base64url')}`;
}

/** Makes the store's tokens those of a hub of before. */
async function sealAsBefore(dataDir: string, secretKey: string): Promise<void> {
  const store = await openLevelStore({ directory: join(dataDir, 'store'), node: 'test' });
  try {
    const { open } = createSecrets(secretKey);
    const [puts, seen]: [Put[], Seen[]] = [[], []];
    for await (const { data, kind, owner, id, seq } of store.scan('partners')) {
      seen.push({ kind, owner, id, seq });
      const partner = data as Partner;
      const partnerToken = sealedV1(open(partner.partnerToken ?? '', partner.id), secretKey);
      puts.push(partnerPut({ ...partner, partnerToken }));
    }
    const at = new Date().toISOString();
    const noted = { stream: 'system', type: 'test.noted', party: null, to: [], correlationId: null };
    await store.append({
      fence: null,
      idem: 'as before',
      events: [{ ...noted, at, data: null, body: null }],
      puts,
      seen,
    });
  } finally {
    await store.close();
  }
}

/** A hub with one CPO and many eMSPs that are routed to it, stopped again. */
async function populated(t: Test, env: Env): Promise<Place & { cpo: PlainPartner; emsps: PlainPartner[] }> {
  const place = { dataDir: directoryFor(t), port: await freePort() };
  const hub = await hubAt(t, place, env);
  const cpo = await plainPartner({ role: 'CPO', countryCode: 'NL', partyId: 'CPO' });
  t.teardown(() => cpo.close());
  await cpo.register(hub);
  const emsps: PlainPartner[] = [];
  for (let n = 1; n < partnersCount; n++) {
    const emsp = await plainPartner({ role: 'EMSP', countryCode: 'NL', partyId: `E${n}` });
    t.teardown(() => emsp.close());
    await emsp.register(hub);
    await admin(hub, 'PUT', `/routes/${emsp.id}/NL-CPO`, { active: true });
    emsps.push(emsp);
  }
  await hub.close();
  return { ...place, cpo, emsps };
}

/** Starts a hub and kills it as soon as it has begun to come back. */
async function killedStart(place: Place, env: Env, afterMs: number): Promise<void> {
  const child = spawn(process.execPath, [command, 'serve'], {
    env: environment(place, env),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const gone = once(child, 'exit');
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    if (text.includes('"recovered"')) setTimeout(() => child.kill('SIGKILL'), afterMs);
  });
  await gone;
}

t.test(
  'the key is rotated through kills at any moment; every token survives and the old keys are not needed',
  atLength,
  async (t) => {
    const place = await populated(t, { HUB_SECRET_KEY: key(0) });
    const { dataDir, cpo, emsps } = place;
    t.strictSame(await sealedUnder(dataDir, key(0)), [partnersCount, partnersCount]);
    await sealAsBefore(dataDir, key(0));
    t.strictSame(await sealedUnder(dataDir, key(0)), [0, partnersCount], 'no text names its partner');

    let halfway = 0;
    const used = [key(0)];
    for (let round = 1; round <= kills; round++) {
      await killedStart(place, { HUB_SECRET_KEY: key(round), HUB_SECRET_KEY_PREVIOUS: used.join(' ') }, round % 4);
      const [opened, all] = await sealedUnder(dataDir, key(round));
      t.equal(all, partnersCount, `kill ${round}: no token is gone`);
      if (opened > 0 && opened < all) halfway++;
      used.push(key(round));
    }
    t.comment(`${kills} kills, ${halfway} of them halfway through`);

    const newest = key('newest');
    const lines: string[] = [];
    const env = { HUB_SECRET_KEY: newest, HUB_SECRET_KEY_PREVIOUS: used.join(' '), HUB_LOG_LEVEL: 'info' };
    const rotating = await hubAt(t, place, env, { write: (line) => void lines.push(line) });
    await rotating.close();
    t.match(lines.join(''), /partner tokens were sealed again/);
    t.strictSame(
      await sealedUnder(dataDir, newest),
      [partnersCount, partnersCount],
      'all of them under the newest key',
    );

    const hub = await hubAt(t, place, { HUB_SECRET_KEY: newest });
    const location = {
      ...sessionBody('S1'),
      cdr_token: { country_code: 'NL', party_id: 'E1', uid: 'U', contract_id: 'C' },
    };
    t.equal((await cpo.call('PUT', '/2.2.1/sessions/NL/CPO/S1', location)).json.status_code, 1000);
    await quiet(hub);
    t.equal(
      emsps[0]?.received.length,
      1,
      'a delivery carries the very token that the partner gave before the rotation',
    );
    for (const { id } of [cpo, ...emsps]) {
      t.match(await admin(hub, 'POST', `/parties/${id}/probe`), { status: 'reachable' }, `${id} knows its token`);
    }
    await hub.close();

    const { code, said } = refusedStart(place, { HUB_SECRET_KEY: key(0) });
    t.equal(code, 2);
    t.match(said, /^ocpi-hub: HUB_SECRET_KEY \(--secret-key\) is another than it was/, 'an old key alone is refused');
  },
);

t.test('a missing or wrong key stops the start, names the setting and changes nothing', atLength, async (t) => {
  const place = await populated(t, {});
  const path = join(place.dataDir, 'secret-key');
  const kept = readFileSync(path, 'utf8');
  const aside = join(place.dataDir, 'secret-key.aside');
  renameSync(path, aside);
  const refusals = [
    [
      'gone',
      {},
      /HUB_SECRET_KEY \(--secret-key\) is not set, and there is no \S+secret-key: it does not open the tokens/,
    ],
    ['wrong', { HUB_SECRET_KEY: key('wrong') }, /HUB_SECRET_KEY \(--secret-key\) is another than it was/],
    ['wrong previous', { HUB_SECRET_KEY_PREVIOUS: key('wrong') }, /HUB_SECRET_KEY \(--secret-key\) is not set/],
  ] as const;
  for (const [name, env, expected] of refusals) {
    const { code, said } = refusedStart(place, env);
    t.equal(code, 2, `${name}: exit code of a wrong configuration`);
    t.match(said, expected, name);
    t.match(said, 'HUB_SECRET_KEY_PREVIOUS', `${name}: says the way out`);
    t.notMatch(said, key('wrong'), `${name}: shows no key`);
    t.notOk(readdirSync(place.dataDir).includes('secret-key'), `${name}: no other key was made in its place`);
  }

  const rotated = await hubAt(t, place, { HUB_SECRET_KEY_PREVIOUS: kept.trim() });
  t.match(
    await admin(rotated, 'POST', '/parties/NL-E1/probe'),
    { status: 'reachable' },
    'put aside, it is the previous key',
  );
  await rotated.close();
  t.not(readFileSync(path, 'utf8'), kept, 'and a new one was made');
  rmSync(aside);
  const hub = await hubAt(t, place, {});
  t.match(await admin(hub, 'POST', '/parties/NL-E1/probe'), { status: 'reachable' }, 'which is enough from then on');
});
