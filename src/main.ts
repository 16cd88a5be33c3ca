/**
 * Composition root: the one place that makes things, and closes them in reverse order.
 *
 * B1  The server listens at once and answers 503 until everything recorded is back.
 * B2  What was acknowledged before `close` is on disk when it resolves.
 */
import { mkdir } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { openLevelStore } from '../storage/level-store.ts';
import { adminServer } from './admin/server.ts';
import { type Config, hubSettings, listenUrl } from './config.ts';
import { HubError } from './domain/errors.ts';
import { type CreatedHub, createHub } from './hub/create-hub.ts';
import type { Clock } from './hub/ports.ts';
import { createLog } from './log.ts';
import { createMetrics } from './metrics.ts';
import { createHttpServer } from './ocpi/http-server.ts';
import { ocpiServer, readWhole } from './ocpi/server.ts';
import { partnerClient } from './partners/client.ts';
import { egressGuard } from './partners/egress.ts';
import { partnerLists } from './partners/pull.ts';
import { partnerVersions } from './partners/versions.ts';
import { createSecrets, hubKeys } from './secrets.ts';
import { version } from './version.ts';

export interface RunningHub {
  /** Where it listens, e.g. `http://127.0.0.1:8080`. */
  readonly url: string;
  readonly adminToken: string;
  /** For tests that look inside. */
  readonly created: CreatedHub;
  close(): Promise<void>;
}

/** What a test may replace. */
export interface Replaced {
  readonly clock?: Clock;
  readonly random?: () => number;
}

const inFlightGraceMs = 10_000;
/** Pages of lists are large and slow, and nobody waits for them: sockets and limits of their own. */
const pageLimits = { answerMax: 32 * 1024 * 1024, headMs: 30_000, connectionsMax: 4 };
const unguarded: ReadonlySet<string> = new Set(['/healthz', '/readyz', '/metrics']);

const systemClock: Clock = {
  now: () => Date.now(),
  setTimeout: (fn, timeoutMs) => setTimeout(fn, timeoutMs),
  clearTimeout: (id) => clearTimeout(id as NodeJS.Timeout),
};

export async function startHub(config: Config, replaced: Replaced = {}): Promise<RunningHub> {
  const log = createLog(config.logLevel);
  const clock = replaced.clock ?? systemClock;
  await mkdir(config.dataDir, { recursive: true, mode: 0o700 });
  const store = await openLevelStore({
    directory: join(config.dataDir, 'store'),
    node: `${hostname()}:${process.pid}`,
  });
  const closing: (() => Promise<void>)[] = [() => store.close()];
  try {
    store.onHealth(({ state, reason }) => {
      log[state === 'closed' ? 'info' : 'warn']({ state, reason }, 'the store changed its state');
    });
    const keys = await hubKeys(config, log);
    const egress = egressGuard(config.egressAllow);
    const client = partnerClient({ egress, closeGraceMs: 0 });
    closing.unshift(() => client.close());
    const pageClient = partnerClient({ egress, ...pageLimits, closeGraceMs: 0 });
    closing.unshift(() => pageClient.close());
    let port = config.port;
    const settings = Object.defineProperty({ ...hubSettings(config, port) }, 'publicUrl', {
      get: () => config.publicUrl ?? listenUrl(config, port),
    });
    const secrets = createSecrets(keys.secretKey);
    const metrics = createMetrics(version);
    const ports = {
      ...{ clock, random: replaced.random ?? Math.random, client, secrets, log, meter: metrics.meter },
      versions: partnerVersions(client),
      lists: partnerLists(pageClient),
      // The doors' own schemas, so that a pull takes what a push takes; neither hub nor partners may know a door.
      reader: { read: readWhole },
    };
    const created = createHub(store, ports, settings, version);
    closing.unshift(() => created.close());

    let ready = false;
    const app = createHttpServer(config.tls ? { tls: config.tls } : {});
    app.addHook('onRequest', async (request) => {
      if (!ready && !unguarded.has(request.url.split('?', 1)[0] ?? ''))
        throw new HubError('unavailable', { retryAfterS: 1 });
    });
    app.addHook('onResponse', async ({ routeOptions, method, ocpi }, { statusCode: httpStatus, elapsedTime }) => {
      const ocpiStatus = ocpi?.ocpiStatus ?? null;
      metrics.answered({ route: routeOptions.url, method, httpStatus, ocpiStatus, seconds: elapsedTime / 1000 });
    });
    await app.register(
      ocpiServer(created.hub, {
        log,
        pages: config,
        rates: {
          listsPerMin: config.rateListsPerMin,
          commandsPerMin: config.rateCommandsPerMin,
          otherPerMin: config.rateOtherPerMin,
        },
        now: () => clock.now(),
      }),
    );
    const tokens = { adminToken: keys.adminToken, viewerToken: config.viewerToken, log };
    const { operations } = created.hub;
    await app.register(adminServer(created.hub, { ...tokens, metrics: () => metrics.exposition(operations) }));
    await app.listen({ host: config.host, port: config.port });
    port = (app.server.address() as AddressInfo).port;
    closing.unshift(() => app.close());
    await created.recover();
    ready = true;
    const close = async () => {
      // What is in flight has so long; then both ways are cut, so that everything that waits for an answer gets its end.
      const cut = setTimeout(() => {
        app.server.closeAllConnections();
        client.close().catch((error: unknown) => log.error({ err: error }, 'could not cut the calls in flight'));
      }, inFlightGraceMs);
      await closeAll(closing);
      clearTimeout(cut);
    };
    return { url: listenUrl(config, port), adminToken: keys.adminToken, created, close };
  } catch (error) {
    await closeAll(closing);
    throw error;
  }
}

async function closeAll(closing: (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const close of closing.splice(0)) await close().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}
