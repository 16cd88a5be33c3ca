/**
 * A real Chromium (Debian's package) on the console of a real hub. A page that complains, by an error in its script or in its console,
 * fails the test; so does one that asks another host for anything.
 */
import { existsSync } from 'node:fs';
import axe from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import type { Test } from '../support/tap.ts';
import { t } from '../support/tap.ts';

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
);
const args = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync'],
];

/** A test that needs a browser; where there is none it is left out, and says so. */
export function browserTest(name: string, run: (t: Test, browser: Browser) => Promise<void>): void {
  const skip = executablePath === undefined ? 'needs Chromium: apt-get install chromium' : false;
  t.test(name, { skip }, async (t) => {
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
    t.teardown(async () => (await browser)?.close());
  }
  return browser;
}

export interface PageOptions {
  readonly token: string;
  /** Below `/console`, e.g. `/deliveries?state=DEAD`. */
  readonly path?: string;
  readonly width?: number;
  readonly height?: number;
  readonly theme?: 'light' | 'dark';
  /** What the page may say in its console while the hub is away on purpose. */
  readonly mayComplain?: RegExp;
}

/** A page of the console, signed in; closed when the test ends. */
export async function consoleFor(
  t: Test,
  browser: Browser,
  hub: { readonly url: string },
  { token, path = '/', width = 1440, height = 900, theme = 'light', mayComplain }: PageOptions,
): Promise<Page> {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme });
  t.teardown(() => context.close());
  const page = await context.newPage();
  const complaints = complaintsOf.get(t) ?? [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()) && !mayComplain?.test(message.text())) {
      complaints.push(`${message.text()} (${message.location().url})`);
    }
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(hub.url) && !/^(data|blob):/.test(request.url())) complaints.push(request.url());
  });
  await page.goto(`${hub.url}/console${path}`);
  await page.getByLabel('Admin or viewer token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  return page;
}

interface AxeResults {
  readonly violations: readonly { id: string; impact: string; help: string; nodes: readonly { html: string }[] }[];
}

/** What axe finds that is serious or critical, one line each. */
export async function barriers(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = (await page.evaluate('axe.run(document)')) as AxeResults;
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
