/** Sign-in to the console by an OpenID Connect provider, in a browser. */
import { hubFor } from '../support/hub-in-process.ts';
import { clientId, identityProvider } from '../support/identity-provider.ts';
import { atLength } from '../support/share.ts';
import { browserTest, isOpenToAll } from './browser.ts';

browserTest('a person signs in at the provider, and returns to the requested page', atLength, async (t, browser) => {
  const provider = await identityProvider(t);
  const hub = await hubFor(t, {
    ...{ HUB_OIDC_ISSUER: provider.issuer, HUB_OIDC_CLIENT_ID: clientId },
    ...{ HUB_OIDC_CLIENT_SECRET: provider.clientSecret, HUB_OIDC_ROLES: 'hub-noc=support' },
  });
  provider.allow(`${hub.url}/console/oidc/callback`);
  const context = await browser.newContext({ reducedMotion: 'reduce' });
  t.teardown(() => context.close());
  const page = await context.newPage();
  const addresses: string[] = [];
  page.on('framenavigated', (frame) => addresses.push(frame.url()));
  const leave = async (): Promise<void> => {
    await page.getByRole('button', { name: `Sign in with ${new URL(provider.issuer).host}` }).click();
    await page.getByRole('button', { name: 'Log in' }).click();
  };

  provider.person = { email: 'eve@example.com' };
  await page.goto(`${hub.url}/console/deliveries?state=DEAD`);
  await page.getByRole('button', { name: /^Sign in with 127/ }).waitFor();
  await isOpenToAll(t, page, 'sign-in');
  await leave();
  t.match(await page.getByRole('alert').textContent(), /^eve@example.com has no value in the claim groups/);
  t.equal(page.url(), `${hub.url}/console/deliveries?state=DEAD`);

  // Signed out at the provider.
  await context.clearCookies();
  provider.person = { email: 'ada@example.com', groups: ['hub-noc'] };
  await leave();
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  await page.getByText('ada@example.com (support)').waitFor();
  t.equal(page.url(), `${hub.url}/console/deliveries?state=DEAD`);
  const token = String(await page.evaluate("sessionStorage.getItem('ocpi-hub.token')"));
  t.match(token, /^session\./);
  t.strictSame(
    addresses.filter((address) => address.includes(token)),
    [],
    'no address has the token',
  );
  t.strictSame(
    (await context.cookies(`${hub.url}/console/oidc`)).filter(({ name }) => name.startsWith('ocpi-hub')),
    [],
    'no cookie is left',
  );
  await page.getByRole('button', { name: 'Sign out' }).click();
  t.equal(await page.evaluate('sessionStorage.length'), 0);
});
