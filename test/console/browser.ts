/**
 * A real Chromium (Debian's package) on the console of a real hub, one for all files of a run. A page that complains, by an error in
 * its script or in its console, fails the test; so does one that asks another host for anything.
 */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, chromium, type Locator, type Page } from 'playwright-core';
import { type atLength, isAtLength } from '../support/share.ts';
import { closeAtEnd, type Test, t } from '../support/tap.ts';

/** The first one has no windows, and takes two thirds of the CPU time of the next. */
const browsers = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome'];
const executablePath = browsers.map((name) => `/usr/bin/${name}`).find((path) => existsSync(path));
const args = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync', '--in-process-gpu'],
  // Pages live for a second or two: compilers that make long-lived ones faster cost more than they give.
  '--js-flags=--no-turbofan,--no-maglev',
];
/** Only there so that a broken test ends. */
const limitMs = 120_000;

type Run = (t: Test, browser: Browser) => Promise<void>;

/** A test that needs a browser; where there is none it is left out, and says so. */
export function browserTest(name: string, ...rest: [run: Run] | [tier: typeof atLength, run: Run]): void {
  const [{ skip, isLeft }, run] = rest.length === 1 ? [{} as typeof atLength, rest[0]] : rest;
  const missing = executablePath === undefined ? 'needs Chromium: apt-get install chromium-headless-shell' : false;
  t.test(name, { skip: skip ?? missing, ...(isLeft && { isLeft }) }, async (t) => {
    const complaints: string[] = [];
    complaintsOf.set(t, complaints);
    await run(t, await opened());
    t.strictSame(complaints, [], 'nothing went wrong in the page');
  });
}

/** What went wrong in the pages of a test. */
const complaintsOf = new WeakMap<Test, string[]>();

let browser: Promise<Browser> | undefined;

function opened(): Promise<Browser> {
  if (!browser) {
    browser = chromium.launch({ ...(executablePath && { executablePath }), args });
    closeAtEnd(async () => (await browser)?.close());
  }
  return browser;
}

export interface PageOptions {
  /** Null: nobody is signed in. */
  readonly token: string | null;
  /** Below `/console`, e.g. `/deliveries?state=DEAD`. */
  readonly path?: string;
  /** What the page may say in its console while the hub is away on purpose. */
  readonly mayComplain?: RegExp;
}

interface Hearing {
  readonly complaints: string[];
  readonly hubUrl: string;
  readonly mayComplain: RegExp | undefined;
}

/** A tab, and whose complaints it is heard for; null between two tests. */
interface Tab {
  readonly page: Page;
  heard: Hearing | null;
  /** For whom it is heard once it has left the page of the test before. */
  next: Hearing | null;
}

/** Tabs that no test uses: opening one takes a second of a processor, leading one elsewhere a third of that. */
const free: Tab[] = [];

async function newTab(browser: Browser): Promise<Tab> {
  const context = await browser.newContext({ reducedMotion: 'reduce' });
  context.setDefaultTimeout(limitMs);
  const page = await context.newPage();
  await page.addInitScript(hurry);
  const tab: Tab = { page, heard: null, next: null };
  page.on('framenavigated', (frame) => {
    if (!tab.next || frame !== page.mainFrame()) return;
    tab.heard = tab.next;
    tab.next = null;
  });
  page.on('pageerror', (error) => tab.heard?.complaints.push(error.message));
  page.on('console', (message) => {
    if (!tab.heard || !['error', 'warning'].includes(message.type())) return;
    if (!tab.heard.mayComplain?.test(message.text())) {
      tab.heard.complaints.push(`${message.text()} (${message.location().url})`);
    }
  });
  page.on('request', (request) => {
    if (!tab.heard || request.url().startsWith(tab.heard.hubUrl) || /^(data|blob|about):/.test(request.url())) return;
    tab.heard.complaints.push(request.url());
  });
  return tab;
}

/** A tab on the console of a hub; the test has it until it ends. */
export async function consoleFor(
  t: Test,
  browser: Browser,
  hub: { readonly url: string },
  { token, path = '/', mayComplain }: PageOptions,
): Promise<Page> {
  const tab = free.pop() ?? (await newTab(browser));
  const { page } = tab;
  t.teardown(async () => {
    tab.heard = null;
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.evaluate('window.rest?.()');
    free.push(tab);
  });
  tab.next = { complaints: complaintsOf.get(t) ?? [], hubUrl: hub.url, mayComplain };
  await looksAs(page, looks[0]);
  await signIn(page, hub, token, path);
  return page;
}

/** Loads the console in a tab, signed in with this token; null: signed out. */
export async function signIn(
  page: Page,
  hub: { readonly url: string },
  token: string | null,
  path: string,
): Promise<void> {
  const kept = token === null ? '' : `sessionStorage.setItem('ocpi-hub.token', ${JSON.stringify(token)});`;
  const signedIn = await page.addInitScript(`sessionStorage.clear(); ${kept}`);
  await page.goto(`${hub.url}/console${path}`);
  await signedIn.dispose();
  const pages = page.getByRole('navigation', { name: 'Pages' });
  await (token === null ? page.getByLabel('Token') : pages).waitFor();
}

/** Leads a signed-in tab to another page of the console as its links do: loading the console anew takes four times the CPU time. */
export async function lead(page: Page, path: string): Promise<void> {
  await page.evaluate(`history.pushState(null, '', ${JSON.stringify(`/console${path}`)})`);
}

interface Look {
  readonly theme: 'light' | 'dark';
  readonly width: 1440 | 360;
}

const looks: readonly [Look, ...Look[]] = [
  { theme: 'light', width: 1440 },
  { theme: 'dark', width: 360 },
  { theme: 'light', width: 360 },
  { theme: 'dark', width: 1440 },
];
let turn = 0;

/** In the campaign each theme with each width; else one of the four, by turns, so that each is met by some page. */
const someLooks = (): readonly Look[] => (isAtLength ? looks : [looks[turn++ % looks.length] ?? looks[0]]);

async function looksAs(page: Page, { theme, width }: Look): Promise<void> {
  await page.emulateMedia({ colorScheme: theme });
  await page.setViewportSize({ width, height: width === 360 ? 740 : 900 });
}

/**
 * A page as it is has no barrier in light and dark, and nothing sticks out of a desk's screen or a telephone's. `within` narrows what is
 * looked at for barriers to what came over a page that was looked at before.
 */
export async function isOpenToAll(t: Test, page: Page, what: string, within?: string): Promise<void> {
  for (const look of someLooks()) {
    await looksAs(page, look);
    t.strictSame(await barriers(page, within), [], `${what}, ${look.theme}, ${look.width} px`);
  }
  for (const look of looks.slice(0, 2)) {
    await looksAs(page, look);
    const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
    t.ok(Number(overflow) <= 0, `nothing sticks out at ${look.width} px`);
  }
  await looksAs(page, looks[0]);
}

interface AxeResults {
  readonly violations: readonly { id: string; impact: string; help: string; nodes: readonly { html: string }[] }[];
}

/** In the page: of the rules of axe those whose findings are serious or critical; another finding would be left out anyway. */
const gravest = `axe.configure({
  rules: axe._audit.rules.map(({ id, impact, enabled }) => ({ id, enabled: enabled && impact !== 'minor' && impact !== 'moderate' })),
})`;

/** What axe finds that is serious or critical, one line each. */
export async function barriers(page: Page, within = 'html'): Promise<string[]> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(`${axe.source};${gravest}`);
  const { violations } = (await page.evaluate(
    `axe.run(${JSON.stringify(within)}, { resultTypes: ['violations'] })`,
  )) as AxeResults;
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(
      ({ id, help, nodes }) =>
        `${id}: ${help}: ${nodes
          .map(({ html }) => html)
          .slice(0, 3)
          .join(' ')}`,
    );
}

/** Resolves when there are so many of it. */
export async function are(many: number, of: Locator): Promise<void> {
  if (many > 0) await of.nth(many - 1).waitFor({ state: 'attached' });
  await of.nth(many).waitFor({ state: 'detached' });
}

/**
 * In the page: while it is hurried, no timer takes longer than a fifth of a second. What it asks its hub every few seconds it then asks
 * at once, and a test need not wait. Once it rests, it has no timers any more: it asks for nothing until it is led elsewhere.
 */
const hurry = `{
  const shortMs = 200;
  const begin = window.setTimeout.bind(window);
  const end = window.clearTimeout.bind(window);
  const long = new Map();
  let isHurried = false;
  let isResting = false;
  window.setTimeout = (fn, ms = 0, ...args) => {
    if (isResting) return 0;
    const id = begin(() => { long.delete(id); fn(...args); }, isHurried ? Math.min(ms, shortMs) : ms);
    if (ms > shortMs) long.set(id, () => fn(...args));
    return id;
  };
  window.clearTimeout = (id) => { long.delete(id); end(id); };
  window.hurry = (now) => {
    isHurried = now;
    if (!now) return;
    for (const [id, fn] of [...long]) { window.clearTimeout(id); fn(); }
  };
  window.rest = () => {
    isResting = true;
    for (let id = begin(() => {}); id > 0; id--) end(id);
  };
}`;

/** Hurries the page until it has come to what is waited for. */
export async function hurried<T>(page: Page, comes: () => Promise<T>): Promise<T> {
  await page.evaluate('hurry(true)');
  try {
    return await comes();
  } finally {
    await page.evaluate('hurry(false)');
  }
}
