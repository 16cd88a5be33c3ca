/**
 * A hub in a process of its own with the partners in whose names hostile input is sent: a CPO, an eMSP and a leaver, who may lose
 * its tokens. Rate limits are out of the way, and its heap is small enough that memory which is not given back ends the process.
 */
import { type ChildHub, startChildHub } from '../support/child-hub.ts';
import { directoryFor } from '../support/directory.ts';
import { admin, type PlainPartner, type PlainPartnerOptions, plainPartner } from '../support/plain-partner.ts';
import type { Test } from '../support/tap.ts';
import { type Actor, cpo, emsp, leaver } from './doors.ts';
import type { Actors } from './generator.ts';

export interface Scene {
  readonly hub: ChildHub;
  readonly actors: Actors;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  /** Gives the leaver a working token again, if it has lost it; forgets what partners received. */
  settle(): Promise<void>;
  close(): Promise<void>;
}

const heapMaxMb = 256;

const generous = {
  HUB_RATE_LISTS_PER_MIN: '100000000',
  HUB_RATE_COMMANDS_PER_MIN: '100000000',
  HUB_RATE_EXCHANGES_PER_MIN: '100000000',
  HUB_RATE_OTHER_PER_MIN: '100000000',
  NODE_OPTIONS: `--max-old-space-size=${heapMaxMb}`,
};

const answers: NonNullable<PlainPartnerOptions['answer']> = ({ path }) => {
  if (path.includes('/commands/')) return { body: { result: 'ACCEPTED', timeout: 30 } };
  return path.includes('/authorize') ? { body: { allowed: 'ALLOWED' } } : {};
};

export async function startScene(dataDir: string): Promise<Scene> {
  const hub = await startChildHub({ dataDir, port: 0, env: generous });
  const made: PlainPartner[] = [];
  const partner = async (options: PlainPartnerOptions) => {
    const one = await plainPartner({ answer: answers, ...options });
    made.push(one);
    await one.register(hub);
    return one;
  };
  const close = async () => {
    await hub.kill();
    await Promise.all(made.map((one) => one.close()));
  };
  try {
    const partners = {
      cpo: await partner({ ...cpo, role: 'CPO' }),
      emsp: await partner({ ...emsp, role: 'EMSP' }),
      leaver: await partner({ ...leaver, role: 'CPO' }),
    };
    await admin(hub, 'PUT', '/routes/NL-EMS/NL-CPO', { active: true });
    const settle = async () => {
      for (const { received, asked } of Object.values(partners)) received.length = asked.length = 0;
      await restore(hub, partners.leaver);
    };
    return { ...{ hub, settle, close }, cpo: partners.cpo, emsp: partners.emsp, actors: actorsOf(hub, partners) };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A scene that ends with its test. */
export async function sceneFor(t: Test): Promise<Scene> {
  const scene = await startScene(directoryFor(t));
  t.teardown(() => scene.close());
  return scene;
}

type Partners = Readonly<Record<'cpo' | 'emsp' | 'leaver', PlainPartner>>;

function actorsOf(hub: ChildHub, partners: Partners): Actors {
  const authorization = (actor: Actor) => {
    if (actor === 'nobody') return null;
    return actor === 'admin' ? `Bearer ${hub.adminToken}` : `Token ${btoa(partners[actor].hubToken)}`;
  };
  const filled = (body: object) => {
    const text = JSON.stringify(body)
      .replaceAll('leaver-token', partners.leaver.token)
      .replaceAll('http://leaver.invalid', partners.leaver.url)
      .replaceAll('http://emsp.invalid', `${partners.emsp.url}/ocpi/2.2.1`);
    return JSON.parse(text) as object;
  };
  return { authorization, filled };
}

async function restore(hub: ChildHub, partner: PlainPartner): Promise<void> {
  if ((await partner.call('GET', '/2.2.1/credentials')).status === 200) return;
  await admin(hub, 'POST', `/parties/${partner.id}/suspend`).catch(() => {});
  const { initial_token: initialToken } = await admin(hub, 'POST', `/parties/${partner.id}/initial-token`);
  await partner.registerAgain(String(initialToken));
}
