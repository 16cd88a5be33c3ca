/**
 * What the overview of the console costs with 200 and with 2,000 partners: how long a browser takes from the address to the rows, and
 * what an open page adds to the CPU time of the hub while twenty rows change in every second.
 */
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Browser, chromium } from 'playwright-core';
import type { ChildHub } from '../support/child-hub.ts';
import { admin } from '../support/plain-partner.ts';
import { cpuS } from './processes.ts';
import type { Bench, Figures } from './run.ts';
import { scene } from './scene.ts';
import { rounded, spread } from './statistics.ts';

const executablePath = ['chromium-headless-shell', 'chromium'].map((name) => `/usr/bin/${name}`).find(existsSync);
const changesPerS = 20;
const drawings = 5;
/** Requests at a time. */
const atOnce = 20;

export const overview: Bench = {
  name: 'overview',
  says: 'the overview of the console with 200 and 2,000 partners: time to its rows, and CPU time of the hub with a page open',
  async run(progress, { isShort }): Promise<Figures> {
    if (executablePath === undefined) throw new Error('needs Chromium: apt-get install chromium-headless-shell');
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
    const figures: Record<string, Figures[string]> = {};
    for (const partners of isShort ? [200] : [200, 2_000]) {
      progress(`${partners} partners`);
      const measured = await costOf(browser, partners, isShort ? 3 : 15);
      for (const [name, value] of Object.entries(measured)) figures[`${partners}: ${name}`] = value;
    }
    await browser.close();
    return figures;
  },
};

async function costOf(browser: Browser, partners: number, seconds: number): Promise<Figures> {
  const { hub, end } = await scene();
  const ids = Array.from({ length: partners }, (_, index) => idAt(index));
  for (let begin = 0; begin < partners; begin += atOnce) {
    const some = ids.slice(begin, begin + atOnce);
    await Promise.all(some.map((party_id) => admin(hub, 'POST', '/parties', { roles: [roleOf(party_id)] })));
  }
  const page = await browser.newPage();
  await page.addInitScript(`sessionStorage.setItem('ocpi-hub.token', ${JSON.stringify(hub.adminToken)})`);
  const alone = await shareWhileChanging(hub, ids, seconds);
  const drawn: number[] = [];
  for (let drawing = 0; drawing < drawings; drawing += 1) {
    await page.goto('about:blank');
    const began = performance.now();
    await page.goto(`${hub.url}/console/`);
    await page.locator('tr[data-row]').nth(9).waitFor();
    drawn.push(performance.now() - began);
  }
  const watched = await shareWhileChanging(hub, ids, seconds);
  await page.close();
  await end();
  return {
    'from the address to the rows, ms (goal: < 1,000)': spread(drawn, 0),
    'CPU of the hub without a page, % of a core': rounded(alone, 1),
    'with a page open, % of a core': rounded(watched, 1),
    'what the page adds, % of a core (goal: < 10)': rounded(watched - alone, 1),
  };
}

const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ';
const idAt = (index: number): string =>
  [index / 676, index / 26, index].map((at) => letters[Math.floor(at) % 26]).join('');
const roleOf = (party_id: string) => ({ role: 'EMSP', country_code: 'NL', party_id });

/** The share of a core, %, that the hub takes while operators open and close circuits. */
async function shareWhileChanging(hub: ChildHub, ids: readonly string[], seconds: number): Promise<number> {
  const [began, before] = [performance.now(), cpuS(hub.pid)];
  for (let second = 0; second < seconds; second += 1) {
    const due = sleep(1_000);
    const some = Array.from({ length: changesPerS }, (_, n) => ids[(second * changesPerS + n) % ids.length]);
    const state = second % 2 === 0 ? 'open' : 'closed';
    await Promise.all(some.map((id) => admin(hub, 'POST', `/parties/NL-${id}/circuits/sync`, { state })));
    await due;
  }
  return (100_000 * (cpuS(hub.pid) - before)) / (performance.now() - began);
}
