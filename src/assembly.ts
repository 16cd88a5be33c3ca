/**
 * Assembles a hub on an open store: hub, doors, inspector and partner clients are created together and closed in
 * reverse order. The app does not listen yet.
 *
 * ASSEMBLY-1  Until recovery is complete, requests that need recorded state are answered 503; pages, health checks and
 *     metrics are answered at once.
 * ASSEMBLY-2  While the store is quarantined, only operators are served.
 * ASSEMBLY-3  With a listener of their own, operators are served there alone, and partners never: each door has a hook
 *     that asks by which listener the request came in. Health checks are answered on both.
 * ASSEMBLY-4  A body is read by the parsers of a door alone: a request that leads to none is answered with its body unread.
 */

import { createHash } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Store } from '../storage/contract.ts';
import { health } from './admin/nouns/status.ts';
import { portalServer } from './admin/portal.ts';
import { Problem } from './admin/problem.ts';
import { answerProblems, refuseUnknownPaths } from './admin/serve-routes.ts';
import { adminRoutes, adminServer } from './admin/server.ts';
import { sessionsOf, signIn } from './admin/sign-in.ts';
import { gate } from './admin/tokens.ts';
import type { ClusterView } from './api/hub.ts';
import type { Operator } from './api/operators.ts';
import { type Config, hubSettings } from './config/config.ts';
import { builtPages } from './console/assets.ts';
import { createInspector, type Inspector } from './console/inspector.ts';
import { masked } from './domain/mask.ts';
import { type CreatedHub, createHub } from './hub/create-hub.ts';
import { sealedTexts } from './hub/onboarding/sealed-tokens.ts';
import type { HubKind, HubPorts, HubSettings, PostedNotification } from './hub/ports/ports.ts';
import { type Clock, withTimeout } from './kit/clock.ts';
import type { createLog } from './log.ts';
import type { Metrics } from './metrics/metrics.ts';
import { diskOf } from './metrics/upkeep-metrics.ts';
import { admission } from './ocpi/admission.ts';
import { closed, createHttpServer, type EarlyServer, type HttpServerOptions } from './ocpi/http-server.ts';
import { type OtherNodes, type RateLimiter, rateLimiter } from './ocpi/limits.ts';
import { credentialsIn } from './ocpi/modules/credentials.ts';
import { paceKeeper } from './ocpi/pace.ts';
import { portalTurns } from './ocpi/portal-turns.ts';
import { ocpiServer, readWhole } from './ocpi/server.ts';
import { oidcOf } from './oidc.ts';
import { type PartnerClientOptions, partnerClient } from './partners/client.ts';
import { egressGuard, type OwnPlaces } from './partners/egress.ts';
import { createNames } from './partners/names.ts';
import { partnerInspector, partnerLists } from './partners/pull.ts';
import { partnerVersions } from './partners/versions.ts';
import { webhookClient } from './partners/webhook-client.ts';
import {
  bodiesMax,
  connectionsMax as connectionsBorne,
  heldBytesMax,
  inFlightMax as inFlightBorne,
  type PressureGauge,
  pageSizeMax,
  pressureGauge,
  turnOfLoop,
} from './process-load.ts';
import { hubKeys } from './secrets.ts';
import { isAtOperators, isWithin } from './transport/client-connection.ts';
import type { Visitors } from './transport/visitors.ts';
import { root, version } from './version.ts';

/**
 * Limits of the client that pulls lists. It has separate sockets, since list pages are large and slow and nobody waits
 * for them.
 */
const pageLimits = { answerMax: 32 * 1024 * 1024, headMs: 30_000, connectionsMax: 4 };
const recoveringRetryS = 1;
/** Long, because only an operator can end the quarantine. */
const quarantinedRetryS = 60;

const alone: NonNullable<Surroundings['reached']> = { listeners: () => [], nodes: () => [] };

/** Deliveries of one partner in memory. */
const windowBorne = 10_000;

/** Defaults that tests replace. */
export interface Replaceable {
  /** Timeouts of connecting to a partner, and until the head of its answer, ms. */
  readonly connectMs?: number;
  readonly headMs?: number;
  /** Deliveries in flight to all partners together. */
  readonly inFlightMax?: number;
  /** Deliveries of one partner in memory. */
  readonly windowMax?: number;
  readonly gauge?: PressureGauge;
  /** Wraps each port that the hub calls: the store and the partner clients. */
  readonly wrap?: <Port extends object>(port: Port) => Port;
}

/** Dependencies that outlive a hub. */
export interface Surroundings extends Replaceable {
  readonly log: ReturnType<typeof createLog>;
  readonly clock: Clock;
  readonly random: () => number;
  readonly metrics: Metrics;
  /** Of the process, so that its doors count together. */
  readonly visitors: Visitors;
  /** Of the process, too. Default: one of the hub's own. */
  readonly limiter?: RateLimiter;
  /** On which the hub listens: the configured one may be 0. */
  readonly port: number;
  /** By what else the hub is reached. Default: by nothing. */
  readonly reached?: Omit<OwnPlaces, 'publicUrl'>;
  /** Checked before each call to a partner. */
  readonly mayCall?: PartnerClientOptions['mayCall'];
  readonly cluster?: () => ClusterView;
  /** Called when the keys of this node do not open the token of a partner. */
  readonly unopened?: () => void;
  readonly isSettling?: HubPorts['isSettling'];
  readonly tellUse?: HubPorts['tellUse'];
  readonly kind?: HubKind;
  /** The server that already listens for the app. */
  readonly early?: EarlyServer;
  /** The operators with names of their own. */
  readonly named?: () => readonly Operator[];
  /** The server of the operators' listener, which closes with the app. */
  readonly operators?: Server;
}

export interface Assembled {
  readonly app: FastifyInstance;
  readonly inspector: Inspector;
  readonly created: CreatedHub;
  readonly adminToken: string;
  readonly isReady: () => boolean;
  /** Recovers from the store; afterwards all requests are accepted. */
  recover(): Promise<void>;
  /** Waits up to `graceMs` for requests and calls in flight, then aborts them. The store stays open. */
  close(graceMs: number): Promise<void>;
}

/** Grants what the settings allow; `others` are the other nodes that do. */
export const limiterOf = (config: Config, clock: Clock, others?: OtherNodes): RateLimiter => {
  const rates = {
    listsPerMin: config.rateListsPerMin,
    commandsPerMin: config.rateCommandsPerMin,
    exchangesPerMin: config.rateExchangesPerMin,
    otherPerMin: config.rateOtherPerMin,
  };
  return rateLimiter(rates, () => clock.now(), others);
};

/** Rejects with `ConfigError` when the keys do not open the stored secrets. After a failure nothing is left open. */
export async function assemble(store: Store, config: Config, around: Surroundings): Promise<Assembled> {
  const { log, clock, random, metrics, visitors, mayCall, inFlightMax = inFlightBorne } = around;
  const { connectMs, headMs, windowMax = windowBorne, wrap = (port) => port } = around;
  const closing: (() => Promise<void>)[] = [];
  try {
    const { adminToken, secrets } = await hubKeys(config, log, await sealedTexts(store));
    const { state: begun, reason: warning } = store.health();
    let storeState = begun;
    if (begun === 'open' && warning !== null) log.warn({ state: begun, reason: warning }, 'the store has a warning');
    store.onHealth(({ state, reason }) => {
      storeState = state;
      if (around.kind !== 'door')
        log[state === 'closed' ? 'info' : 'warn']({ state, reason }, 'the store changed its state');
    });
    const names = createNames({ servers: config.dnsServers ?? [], clock });
    closing.unshift(async () => names.close());
    const settings = hubSettings(config, around.port);
    const { publicUrl } = settings;
    const egress = egressGuard(config.egressAllow, { publicUrl, ...(around.reached ?? alone) }, names);
    const instance = instanceOf(settings);
    const userAgent = `ocpi-hub/${version}`;
    const calls = {
      egress,
      clock,
      userAgent,
      instance,
      ...(mayCall && { mayCall }),
      ...(connectMs !== undefined && { connectMs }),
      ...(headMs !== undefined && { headMs }),
    };
    const client = wrap(partnerClient({ ...calls, keptMax: inFlightMax }));
    closing.unshift(() => client.close());
    const pageClient = wrap(partnerClient({ ...calls, ...pageLimits }));
    closing.unshift(() => pageClient.close());
    const webhooks = webhookClient(calls);
    closing.unshift(() => webhooks.close());
    const mail = config.smtpUrl === null ? null : (await import('./mail.ts')).mailOf(config, clock);
    const telling = wrap({
      post: (notification: PostedNotification) => webhooks.post(notification),
      mail,
      disk: () => diskOf(config.dataDir),
      consoleUrl: () => (config.operators === null ? publicUrl : ''),
    });
    const ports = {
      clock,
      random,
      client,
      secrets,
      ...(around.unopened && { unopened: around.unopened }),
      ...(around.isSettling && { isSettling: around.isSettling }),
      ...(around.tellUse && { tellUse: around.tellUse }),
      log,
      meter: metrics.meter,
      bodiesMax,
      turn: turnOfLoop,
      inFlightMax,
      windowMax,
      isWithin,
      telling,
      versions: partnerVersions(client),
      lists: partnerLists(pageClient, clock),
      inspector: partnerInspector(client),
      // The doors' schemas, so that a pull accepts exactly what a push accepts. Injected, since neither hub nor
      // partners may import a door.
      reader: { read: readWhole, credentials: credentialsIn },
    };
    const created = createHub(wrap(store), ports, settings, version, around.kind);
    closing.unshift(() => created.close());

    let ready = false;
    const pressure = around.gauge ?? pressureGauge(clock, created.forwardingLagMs);
    closing.unshift(async () => pressure.close());
    const taken = admission({
      felt: pressure.felt,
      forwardingOfMs: created.forwardingLagMs,
      bytesMax: heldBytesMax,
      pageMax: pageSizeMax,
      shed: metrics.shed,
    });
    const app = createHttpServer(serverOptions(config, visitors, clock), around.early);
    answerProblems(app, log);
    refuseUnknownPaths(app);
    // [ASSEMBLY-4]
    app.removeAllContentTypeParsers();
    app.addHook('onResponse', ({ routeOptions, method, ocpi }, { statusCode: httpStatus, elapsedTime }, done) => {
      const ocpiStatus = ocpi?.ocpiStatus ?? null;
      metrics.answered({ route: routeOptions.url, method, httpStatus, ocpiStatus, seconds: elapsedTime / 1000 });
      done();
    });
    const { operators: operatorsServer } = around;
    if (operatorsServer) app.addHook('preClose', () => closed(operatorsServer));
    const isSeparate = config.operators !== null;
    const isForOperators = (request: IncomingMessage) => !isSeparate || isAtOperators(request);
    const isForPartners = (request: IncomingMessage) => !isSeparate || !isAtOperators(request);
    const limiter = around.limiter ?? limiterOf(config, clock);
    // A quarantined store may have lost the newest state of any object or party, so partners get no answer at all rather
    // than a wrong one.
    const shutForS = () => (ready ? (storeState === 'quarantined' ? quarantinedRetryS : null) : recoveringRetryS);
    await app.register(health(created.hub.operations));
    await app.register(
      ocpiServer(created.hub, {
        log,
        pages: { pageDefault: config.pageDefault, pageMax: config.pageMax, sizeMax: pageSizeMax },
        limiter,
        clock,
        visitors,
        isAlone: config.nodeUrl === null,
        instance,
        admission: taken,
        isHere: isForPartners,
        shutForS,
      }),
    );
    const elsewhere = (url: string) => new Problem(404, `there is no ${url.split('?', 1)[0]}`);
    const { operations } = created.hub;
    const table = adminRoutes(operations, around.cluster);
    const pages = builtPages(join(root, 'dist', 'page'));
    await app.register(async (scope) => {
      scope.addHook('onRequest', async ({ raw, url }) => {
        if (!isForPartners(raw)) throw elsewhere(url);
      });
      const { suspendedAt } = created.hub;
      const pace = paceKeeper(suspendedAt, clock);
      scope.addHook('onClose', async () => pace.close());
      await scope.register(
        portalServer(operations, {
          table,
          shutForS,
          log,
          isHostConfirmed: settings.confirmHostChange,
          inTurn: portalTurns(clock, pace),
          spend: (partner) => void limiter.spend(`portal ${partner}`, 'other'),
          visitors: {
            ...visitors,
            failed: (address) => visitors.failed(`portal ${address}`),
            mayEnter: (address, name) => visitors.mayEnter(`portal ${address}`, name),
          },
        }),
        { prefix: '/portal/v1' },
      );
      await scope.register(pages('/portal', 'portal.html'), { prefix: '/portal' });
    });
    const now = () => clock.wall();
    const provider = oidcOf(config, publicUrl, around.named ?? (() => []));
    const sessions = provider && sessionsOf(provider, secrets, { now, hours: config.oidcSessionH });
    const tokens = { adminToken, viewerToken: config.viewerToken, sessions, visitors, now, log };
    const named = around.named && { operators: around.named };
    const exposition = () => metrics.exposition(operations, taken.shares(), taken.partners(), ready);
    await app.register(async (scope) => {
      scope.addHook('onRequest', async ({ raw, url }) => {
        if (!isForOperators(raw)) throw elsewhere(url);
      });
      await scope.register(
        adminServer(created.hub, {
          ...tokens,
          ...named,
          isReasonRequired: config.requireReason,
          metrics: exposition,
          isReady: () => ready,
          table,
        }),
      );
      const isSecure = (config.oidcRedirectUrl ?? publicUrl).startsWith('https:');
      await scope.register(signIn({ provider, sessions, secrets, operations, visitors, isSecure, now, log }), {
        prefix: '/console/oidc',
      });
      await scope.register(pages('/console', 'index.html'), { prefix: '/console' });
      scope.get('/', { exposeHeadRoute: true }, async (_request, reply) => reply.redirect('/console/', 302));
    });
    const allow = gate({ ...tokens, ...named });
    const inspector = createInspector(operations, {
      allow: (request, authorizations) =>
        allow(request, 'viewer', authorizations).role === 'viewer' ? 'viewer' : 'admin',
      masked,
      isHere: isForOperators,
      refusal: (...parts) => new Problem(...parts),
      isReady: () => ready,
      publicUrl,
      clock,
      meter: metrics.inspectors,
      log,
    });
    closing.unshift(() => app.close());
    closing.unshift(() => inspector.close());
    return {
      app,
      inspector,
      created,
      adminToken,
      isReady: () => ready,
      async recover() {
        await created.recover();
        ready = true;
      },
      async close(graceMs) {
        const closed = closeAll(closing);
        if (await withTimeout(clock, graceMs, closed)) return;
        // Abort inbound and outbound connections, so that everything that waits for an answer ends.
        for (const server of [app.server, operatorsServer]) server?.closeAllConnections();
        for (const { close } of [client, pageClient, webhooks, ...(mail ? [mail] : [])]) {
          close().catch((error: unknown) => log.error({ err: error }, 'could not cut the calls in flight'));
        }
        await closed;
      },
    };
  } catch (error) {
    await closeAll(closing);
    throw error;
  }
}

/** Limits of a server that listens. */
export function serverOptions({ tls, connectionsMax }: Config, visitors: Visitors, clock: Clock): HttpServerOptions {
  const most = Math.min(connectionsMax ?? connectionsBorne, connectionsBorne);
  return { connectionsMax: most, visitors, clock, ...(tls && { tls }) };
}

/** The hub's id in `X-Hub-Instance`: the same on all of its nodes and after restarts, and no secret. [EGRESS-4] */
const instanceOf = ({ countryCode, partyId, publicUrl }: HubSettings): string =>
  createHash('sha256').update(`${countryCode}-${partyId} ${publicUrl}`).digest('base64url').slice(0, 22);

/** Runs all functions in order, even after a failure, then throws the first failure. */
export async function closeAll(closing: (() => Promise<void>)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const close of closing.splice(0)) await close().catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw failures[0];
}
