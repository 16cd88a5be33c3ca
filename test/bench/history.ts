/**
 * What the history of 200 and of 2,000 partners costs, each of which has traffic in every minute: how long a minute and an hour
 * take to write, and what the store holds in the end, when every minute of 24 hours and every hour of 91 days is there.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Traffic } from '../../src/hub/kernel/contacts.ts';
import type { Context } from '../../src/hub/kernel/context.ts';
import { Recorder } from '../../src/hub/kernel/recorder.ts';
import { History, hoursKind, minutesKind } from '../../src/hub/maintain/history.ts';
import type { Put, Row, Store } from '../../storage/contract.ts';
import { openLevelStore } from '../../storage/level/store.ts';
import { noMeter } from '../support/no-meter.ts';
import { SimulatedClock } from '../support/simulated-clock.ts';
import type { Bench, Figures } from './run.ts';
import { spread } from './statistics.ts';

const minuteMs = 60_000;
/** Deliveries of a partner in a minute, and places of a row that are filled. */
const [deliveries, hoursOfDay, days] = [30, 24, 91];
const nowhere = () => {};
const silent = { debug: nowhere, info: nowhere, warn: nowhere, error: nowhere };

export const history: Bench = {
  name: 'history',
  says: 'the history of 200 and 2,000 partners with traffic in every minute: the time of its writes, and its bytes',
  async run(progress, { isShort }): Promise<Figures> {
    const figures: Record<string, Figures[string]> = {};
    for (const partners of isShort ? [200] : [200, 2_000]) {
      progress(`${partners} partners`);
      for (const [name, value] of Object.entries(await costOf(partners))) figures[`${partners}: ${name}`] = value;
    }
    return figures;
  },
};

async function costOf(partners: number): Promise<Figures> {
  const directory = mkdtempSync(join(tmpdir(), 'history-'));
  try {
    const store = await openLevelStore({ directory: join(directory, 'store'), node: 'bench' });
    const [minutesTook, hourTook] = await anHour(store, partners);
    const { minuteBytes, hourBytes } = await filled(store, partners);
    await store.close();
    const own = { minutes: partners * hoursOfDay * minuteBytes, hours: partners * days * hourBytes };
    return {
      'a minute, ms': spread(minutesTook),
      'an hour, ms': Math.round(hourTook),
      'minutes of 24 h, bytes of a partner': hoursOfDay * minuteBytes,
      'hours of 91 days, bytes of a partner': days * hourBytes,
      'of all partners, MB': Math.round((own.minutes + own.hours) / 1e6),
      'directory of the store, MB': Math.round(sizeOf(directory) / 1e6),
    };
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Writes the minutes of an hour, and the hour; resolves with the time that each took, ms. */
async function anHour(store: Store, partners: number): Promise<[number[], number]> {
  const clock = new SimulatedClock('2026-05-01T10:00:00.000Z');
  let ids = 0;
  const recorder = new Recorder(store, { clock, log: silent, meter: noMeter, secrets: { newId: () => `id${ids++}` } });
  recorder.feed.begin();
  const traffic = new Traffic();
  let fire = (): unknown => undefined;
  const arm = (_id: string, _at: number, fired: () => unknown) => {
    fire = fired;
  };
  const timers = { arm, disarm: nowhere };
  const directory = { partners: () => [] };
  const context = {
    store,
    recorder,
    contacts: { traffic },
    directory,
    timers,
    ports: { clock, log: silent },
  } as unknown as Context;
  const recorded = new History(context);
  await recorded.recover();
  const took: number[] = [];
  for (let minute = 0; minute < 60; minute++) {
    for (let nth = 0; nth < partners; nth++) {
      for (let n = 0; n < deliveries; n++) traffic.delivered(`NL-${nth}`, 20 * 1.15 ** ((n * 7 + nth + minute) % 20));
      traffic.pushed(`NL-${nth}`);
    }
    clock.advance(minuteMs);
    const begun = performance.now();
    const head = store.head();
    fire();
    while (store.head() === head) await new Promise(setImmediate);
    if (minute < 59) took.push(performance.now() - begun);
    else {
      while (recorded.open('').size > 0) await new Promise(setImmediate);
      return [took, performance.now() - begun];
    }
  }
  return [took, 0];
}

/** Fills every place of each partner with what the first hour wrote, and measures it. */
async function filled(store: Store, partners: number): Promise<{ minuteBytes: number; hourBytes: number }> {
  const rowOf = async (kind: string): Promise<Row> => {
    for await (const row of store.scan(kind, 'NL-1')) return row;
    throw new Error(`no row of ${kind}`);
  };
  const [minutes, hours] = [await rowOf(minutesKind), await rowOf(hoursKind)];
  const { hours: known, ...day } = hours.data as { at: string; hours: Record<number, unknown> };
  const [point] = Object.values(known);
  const whole = { ...day, hours: Object.fromEntries(Array.from({ length: hoursOfDay }, (_, hour) => [hour, point])) };
  for (let nth = 0; nth < partners; nth++) {
    const put = (kind: string, id: number, data: unknown): Put => ({
      ...{ kind, owner: `NL-${nth}`, id: String(id), shelf: null, upd: '', data, body: null },
    });
    const puts = [
      ...Array.from({ length: hoursOfDay }, (_, hour) => put(minutesKind, hour, minutes.data)),
      ...Array.from({ length: days }, (_, at) => put(hoursKind, at, whole)),
    ];
    const event = { stream: 'history:traffic', type: 'history.recorded', at: '2026-05-01T11:00:00.000Z', party: null };
    const events = [{ ...event, correlationId: null, to: [], data: {}, body: null }];
    await store.append({ fence: store.held(), idem: `filled${nth}`, events, puts });
  }
  return { minuteBytes: JSON.stringify(minutes.data).length, hourBytes: JSON.stringify(whole).length };
}

const sizeOf = (directory: string): number =>
  readdirSync(directory, { encoding: 'utf8', recursive: true })
    .map((name) => statSync(join(directory, name)))
    .filter((file) => file.isFile())
    .reduce((sum, { size }) => sum + size, 0);
