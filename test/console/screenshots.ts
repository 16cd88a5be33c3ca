/**
 * Takes the pictures of every page for the documents: light and dark on a desk, and on a phone.
 * `node dist/test/console/screenshots.js [directory]`
 */
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { chromium, type Page } from 'playwright-core';
import { admin } from '../support/plain-partner.ts';
import { scene } from './scene.ts';

/** Name of the file, address, and what must be there before the picture is taken. */
type Shot = readonly [name: string, path: string, ready: string, prepare?: (page: Page) => Promise<unknown>];

const sizes = { wide: { width: 1440, height: 900 }, phone: { width: 360, height: 740 } } as const;

async function main(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  const cleanUps: (() => unknown)[] = [];
  const teardown = (fn: () => unknown) => void cleanUps.unshift(fn);
  try {
    const { hub, push } = await scene({ teardown, passing: () => true, comment() {} }, 60);
    const dead = (await admin(hub, 'GET', '/deliveries?state=DEAD&limit=1')).items as { id: string }[];
    const shots: Shot[] = [
      ['overview', '/', 'h1'],
      ['partner', '/partners/BE-VOL', '.halves'],
      ['deliveries', '/deliveries?state=DEAD', 'tbody tr'],
      ['delivery', `/deliveries/${dead[0]?.id}`, 'h1'],
      ['trace', '/trace?key=NL-CPO/S-LOST', 'h1'],
      ['events', '/events', 'tbody tr'],
      ['commands', '/commands', 'tbody tr'],
      ['orphans', '/orphans', 'tbody tr'],
      ['reconciliation', '/reconciliation?from=2026-01-01T00:00:00.000Z', 'tbody tr'],
      ['routing', '/routing?from=NL-CPO&to=SE-ELB&module=sessions', '.verdict'],
      ['onboarding', '/onboarding', 'h1'],
    ];
    const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking'];
    const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args });
    teardown(() => browser.close());
    const driving = setInterval(() => void push(), 200);
    teardown(() => clearInterval(driving));
    for (const theme of ['light', 'dark'] as const) {
      for (const [size, viewport] of Object.entries(sizes)) {
        if (size === 'phone' && theme === 'dark') continue;
        const context = await browser.newContext({ viewport, colorScheme: theme });
        const page = await context.newPage();
        await page.goto(`${hub.url}/console/`);
        await page.screenshot({ path: join(directory, `sign-in-${size}-${theme}.png`) });
        await page.getByLabel('Token').fill(hub.adminToken);
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('navigation', { name: 'Pages' }).waitFor();
        for (const [name, path, ready] of shots) {
          await page.goto(`${hub.url}/console${path}`);
          await page.locator(ready).first().waitFor();
          // What is live and plotted needs a few rounds before it shows what it shows in use.
          await page.waitForTimeout(name === 'overview' ? 20_000 : 2_500);
          await page.screenshot({ path: join(directory, `${name}-${size}-${theme}.png`) });
          process.stdout.write(`${name} ${size} ${theme}\n`);
        }
        await context.close();
      }
    }
  } finally {
    for (const cleanUp of cleanUps) await cleanUp();
  }
}

await main(resolve(process.argv[2] ?? 'docs/images'));
