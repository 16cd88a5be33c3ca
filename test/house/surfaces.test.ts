/**
 * The public names of the product have not changed. To record new ones on purpose:
 * `UPDATE_SURFACES=1 npx tap dist/test/house/surfaces.test.js`.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { callOnce } from '../support/caller.ts';
import { hubFor } from '../support/hub-in-process.ts';
import { t } from '../support/tap.ts';
import { eventTypes, helpOfCommands, logFields, metricNames, surfacesDir } from './surfaces.ts';

t.test('public names are unchanged', async (t) => {
  const hub = await hubFor(t);
  const authorization = `Bearer ${hub.adminToken}`;
  const get = async (path: string) => (await callOnce('GET', `${hub.url}${path}`, undefined, { authorization })).text;
  const openapi = (await get('/admin/v1/openapi.json')).replaceAll(hub.url, 'http://127.0.0.1:8080');
  const surfaces = {
    'openapi.json': `${JSON.stringify(JSON.parse(openapi), null, 1)}\n`,
    'help.txt': await helpOfCommands(),
    'metrics.txt': metricNames(await get('/metrics')),
    'log-fields.txt': logFields(),
    'event-types.txt': eventTypes(),
  };
  for (const [name, now] of Object.entries(surfaces)) {
    const file = join(surfacesDir, name);
    if (process.env.UPDATE_SURFACES === '1') writeFileSync(file, now);
    t.ok(now.length > 200, `${name} says something`);
    t.equal(now, readFileSync(file, 'utf8'), name);
  }
});
