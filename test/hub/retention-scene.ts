/** A hub on a simulated clock with a CPO and an eMSP, one of everything in its store, and days that pass. */
import { join } from 'node:path';
import { Level } from 'level';
import type { RowKey } from '../../storage/contract.ts';
import { rowKey } from '../../storage/keys.ts';
import { cdrBody, locationBody, sessionBody, tariffBody, tokenBody } from '../support/bodies.ts';
import { directoryFor } from '../support/directory.ts';
import { hubFor, routedPair } from '../support/hub-in-process.ts';
import { itemsOf, quiet } from '../support/observed.ts';
import type { PlainPartner, PlainPartnerOptions } from '../support/plain-partner.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import type { Test } from '../support/tap.ts';

export const dayMs = 86_400_000;
export const days = 30;
/** More than any wait of a test takes, a sweep of many pieces among them. */
const stepsMax = 1000;
const stepMsMax = 600_000;

export interface Scene {
  readonly clock: SimulatedClock;
  readonly dataDir: string;
  readonly env: Readonly<Record<string, string>>;
  hub: Awaited<ReturnType<typeof hubFor>>;
  readonly cpo: PlainPartner;
  readonly emsp: PlainPartner;
  restart(): Promise<void>;
}

export async function scene(
  t: Test,
  {
    logTo,
    ...answers
  }: {
    cpo?: PlainPartnerOptions['answer'];
    emsp?: PlainPartnerOptions['answer'];
    logTo?: { write(line: string): void };
  } = {},
): Promise<Scene> {
  const clock = new SimulatedClock('2026-01-10T08:00:00.000Z');
  const dataDir = join(directoryFor(t), 'data');
  const env = {
    HUB_EVENTS_KEEP_DAYS: String(days),
    HUB_RATE_OTHER_PER_MIN: '1000000',
    ...(logTo && { HUB_LOG_LEVEL: 'info' }),
  };
  const hub = await hubFor(t, env, { clock, ...(logTo && { logTo }) }, dataDir);
  const cpoAnswer: PlainPartnerOptions['answer'] = ({ method }) =>
    method === 'POST' ? { body: { result: 'ACCEPTED', timeout: 30 } } : {};
  const { cpo, emsp } = await routedPair(t, hub, { cpo: cpoAnswer, ...answers });
  const found: Scene = {
    ...{ clock, dataDir, env, hub, cpo, emsp },
    async restart() {
      await found.hub.close();
      found.hub = await hubFor(t, env, { clock }, dataDir);
      for (const partner of [cpo, emsp]) partner.moveTo(found.hub);
    },
  };
  return found;
}

export const patched = (n: number, fields: object = {}) => ({
  last_updated: `2026-01-10T08:00:${String(n).padStart(2, '0')}Z`,
  ...fields,
});

/** One of each thing that is stored, changed a few times. */
export async function storeOfEach({ cpo, emsp, hub }: Scene): Promise<void> {
  const calls: [PlainPartner, string, string, object][] = [
    [cpo, 'PUT', '/2.2.1/locations/NL/CPO/LOC1', locationBody('LOC1')],
    [cpo, 'PUT', '/2.2.1/tariffs/NL/CPO/T1', tariffBody('T1')],
    [cpo, 'PUT', '/2.2.1/tariffs/NL/CPO/T2', tariffBody('T2')],
    [cpo, 'PUT', '/2.2.1/sessions/NL/CPO/S1', sessionBody('S1')],
    [cpo, 'POST', '/2.2.1/cdrs', cdrBody('C1')],
    [emsp, 'PUT', '/2.2.1/tokens/NL/EMS/CARD1', tokenBody('CARD1')],
    ...Array.from({ length: 5 }, (_, n): [PlainPartner, string, string, object] => {
      return [cpo, 'PATCH', '/2.2.1/locations/NL/CPO/LOC1', patched(n, { name: `Plein ${n}` })];
    }),
    [cpo, 'PATCH', '/2.2.1/locations/NL/CPO/LOC1/EVSE1', patched(9, { status: 'CHARGING' })],
    [cpo, 'PATCH', '/2.2.1/sessions/NL/CPO/S1', patched(9, { kwh: 2.5 })],
  ];
  for (const [from, method, path, body] of calls) {
    const { json } = await from.call(method, path, body);
    if (json.status_code !== 1000) throw new Error(`${method} ${path}: ${JSON.stringify(json)}`);
  }
  await cpo.call('DELETE', '/2.2.1/tariffs/NL/CPO/T2');
  await quiet(hub);
}

/** What partners read of it, byte for byte. */
export async function storedTexts({ cpo, emsp }: Scene): Promise<string[]> {
  const asked: [PlainPartner, string][] = [
    [emsp, '/2.2.1/locations/LOC1'],
    [emsp, '/2.2.1/locations'],
    [emsp, '/2.2.1/tariffs'],
    [emsp, '/2.2.1/sessions?date_from=2020-01-01T00:00:00Z'],
    [emsp, '/2.2.1/cdrs'],
    [cpo, '/2.2.1/tokens'],
  ];
  const texts = await Promise.all(asked.map(([from, path]) => from.call('GET', path)));
  return texts.map(({ text }) => text.replace(/,"status_code".*/, ''));
}

/**
 * Lets time pass until it holds, step by step; what falls due at a step is done before the next one. The first ten steps are alike, later
 * ones longer and longer: sweeps are hours apart, and after each step the hub is asked.
 */
export async function inTime(
  { clock, hub }: Pick<Scene, 'clock' | 'hub'>,
  stepMs: number,
  what: string,
  holds: () => boolean | Promise<boolean>,
): Promise<void> {
  for (let steps = 0; steps < stepsMax; steps += 1) {
    clock.advance(Math.max(stepMs, Math.min(stepMs * (steps - 8), stepMsMax)));
    await hub.settled();
    if (await holds()) return;
  }
  throw new Error(`it never came to: ${what}`);
}

/** Lets days pass, and the sweep that is due then do its work. */
export async function passDays(scene: Scene, count: number, done: () => Promise<boolean>): Promise<void> {
  scene.clock.advance(count * dayMs);
  const { store } = scene.hub.created.context;
  await inTime(scene, 20_000, 'the log is trimmed', async () => store.health().state === 'open' && done());
}

/** A sweep has come to its end, and said so: it left nothing that is as old as what is there now. */
export async function trimmed(scene: Scene): Promise<void> {
  const head = scene.hub.created.context.store.head();
  await passDays(scene, days + 1, async () => {
    const told = await itemsOf(scene.hub, '/events?type=log.trimmed');
    return told.some(({ data }) => (data as { upTo: number }).upTo >= head);
  });
}

/** Flips a character of a stored row, with the hub stopped. */
export async function damageRows(dataDir: string, rows: readonly RowKey[]): Promise<void> {
  const db = new Level<string, string>(join(dataDir, 'store', 'db'));
  await db.open();
  for (const row of rows) {
    const value = await db.get(rowKey(row));
    if (value === undefined) throw new Error(`no row ${rowKey(row)}`);
    await db.put(rowKey(row), `${value.slice(0, -2)}${value.at(-2) === 'x' ? 'y' : 'x'}${value.slice(-1)}`);
  }
  await db.close();
}
