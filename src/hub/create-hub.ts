/**
 * Composes a hub on an open store: it wires the parts, restores every actor, timer and owed delivery from what is
 * recorded, and returns the verbs.
 *
 * CREATE-HUB-1  The hub accepts no request of a party before everything recorded of that party is restored.
 * CREATE-HUB-2  A damaged or missing row is rebuilt from the log before it is used.
 * CREATE-HUB-3  On a damaged log the hub still starts: it serves reads and operators, refuses writes and delivers
 *     nothing.
 */
import { Supervisor } from '../../machines/supervisor.ts';
import type { Seq, Store } from '../../storage/contract.ts';
import { HubError } from '../domain/errors.ts';
import { keyOf, type PartyId } from '../domain/party.ts';
import { Dispatcher } from './delivery/dispatcher.ts';
import { authorize } from './exchange/authorize.ts';
import { Commands } from './exchange/commands.ts';
import { ingest } from './exchange/ingest.ts';
import { OrphanCases } from './exchange/orphan-cases.ts';
import { clientInfo, readObjects } from './exchange/read-objects.ts';
import { BreakerFeed } from './kernel/breaker-feed.ts';
import { Circuits } from './kernel/circuits.ts';
import { Contacts } from './kernel/contacts.ts';
import type { Context } from './kernel/context.ts';
import { openToken, PartnerDirectory, partnerIdIn } from './kernel/directory.ts';
import { objectQuota, quota } from './kernel/quota.ts';
import { Recorder, WriteCoalescer } from './kernel/recorder.ts';
import { withStoreErrors } from './kernel/store-errors.ts';
import { Timers } from './kernel/timers.ts';
import { Audit } from './maintain/audit.ts';
import { Backups } from './maintain/backups.ts';
import { DeadGroups } from './maintain/dead-groups.ts';
import { Expiry } from './maintain/expiry.ts';
import { History } from './maintain/history.ts';
import { Jobs } from './maintain/jobs.ts';
import { Persons } from './maintain/persons.ts';
import { Redrive } from './maintain/redrive.ts';
import { Resends } from './maintain/resends.ts';
import { Retention } from './maintain/retention.ts';
import { savedViews } from './maintain/saved-views.ts';
import { Notifier } from './notify/notifier.ts';
import { Checks } from './onboarding/check.ts';
import { portalAccess } from './onboarding/portal-access.ts';
import { Registration } from './onboarding/registration.ts';
import { operations } from './operations.ts';
import { HealthProbes } from './partners/health-probes.ts';
import { PartnerActors } from './partners/partner-actors.ts';
import { countedPorts, PartnerReports } from './partners/reports.ts';
import type { Hub } from './ports/hub.ts';
import type { HubKind, HubPorts, HubSettings, TokenUse } from './ports/ports.ts';
import { OrphanLookup } from './pull/orphan-lookup.ts';
import { Pulls } from './pull/pulls.ts';
import { SenderLists } from './pull/sender-lists.ts';
import { openDoor, recover } from './recovery.ts';
import { actorFeed } from './views/actor-feed.ts';
import { historyOf, monthlyReportOf, partnerHistoryOf } from './views/history.ts';
import { overview } from './views/overview.ts';
import { reconciliationOf } from './views/reconciliation.ts';
import { reportOf } from './views/report.ts';
import { explain, traceOf } from './views/trace.ts';
import { triageView, views } from './views/views.ts';

export interface CreatedHub {
  readonly hub: Hub;
  /** The hub's parts, for tests that make an actor throw or inspect work in flight. */
  readonly context: Context;
  /**
   * Forwarding lag, ms: the median over the receivers that count of how long their oldest ready delivery has waited
   * (`backpressure.ts`); from one partner when it is given. Ingest is throttled by it.
   */
  forwardingLagMs(from?: PartyId): number;
  /** Resolves when verbs may be called. */
  recover(): Promise<void>;
  /** Announces that other nodes have written up to this sequence. */
  follow(seq: Seq): void;
  /** Resolves when the events up to this sequence are dispatched on this node, and what a door writes because of them is stored. */
  followed(seq: Seq): Promise<void>;
  /** A door of another node noted a use of a token. */
  tokenUsed(use: TokenUse): void;
  /** Whether the partner with this initial token has answered an exchange that the hub began, and the exchange has not ended. */
  isSettling(digest: string): boolean;
  /** Drains before `close`: starts no more deliveries, and waits for those in flight, for `graceMs` at most. */
  drain(graceMs: number): Promise<void>;
  /** Waits for the work in flight and records how it ended; the store stays open. */
  close(): Promise<void>;
}

/** A door watches no sessions: the owner does, by the events that it reads from the log. */
const noWatches = { sessionStored: () => {}, cdrStored: () => {}, arm: async () => {}, cutOff: () => {} };

export function createHub(
  store: Store,
  ports: HubPorts,
  settings: HubSettings,
  version: string,
  kind: HubKind = 'alone',
): CreatedHub {
  const isDoor = kind === 'door';
  const inFlight = new Map<PartyId, number>();
  const counted = countedPorts(ports, (...use) => reports.used(...use), inFlight);
  const context = coreOf(store, counted, settings, isDoor);
  const daily = quota(context);
  const reports = new PartnerReports(context, daily);
  const dispatcher = new Dispatcher(context, reports, (id) => registration.isExchanging(id));
  const probes = new HealthProbes(context);
  const actors = new PartnerActors(context, {
    pump: (partnerId) => dispatcher.pump(partnerId),
    reachable: (partnerId, isReachable) => {
      if (isDoor) return;
      registration
        .recordReachable(partnerId, isReachable)
        .catch((error: unknown) =>
          ports.log.error({ err: error, partyId: partnerId }, 'could not record whether a partner is reachable'),
        );
    },
  });
  context.circuits.onFlow((partnerId) => dispatcher.pump(partnerId));
  const jobs = new Jobs(context);
  const resends = new Resends(context, dispatcher, jobs);
  const registration = new Registration(context, actors, (partner) => dispatcher.suspend(partner), resends, daily);
  const orphans = new OrphanCases(context, (...asked) => lookup.askForEnd(...asked));
  const stored = objectQuota(context);
  const { accept, acceptPulled } = ingest(context, isDoor ? noWatches : orphans, reports, daily, stored);
  const lists = new SenderLists(context, acceptPulled);
  const lookup = new OrphanLookup(context, lists);
  const pulls = new Pulls(context, lists, acceptPulled);
  const commands = new Commands(context, isDoor ? noWatches : orphans, daily, kind);
  const retention = new Retention(context, dispatcher);
  const expiry = new Expiry(context, dispatcher);
  const audit = new Audit(context);
  const backups = new Backups(context);
  const groups = new DeadGroups(context, dispatcher);
  const { deliveryView, shown, eventShown, ...reading } = views(context, dispatcher, groups);
  const persons = new Persons(context, dispatcher, reports, retention, eventShown);
  const redrive = new Redrive(context, dispatcher, jobs, shown);
  const checks = new Checks(context, reports, (id) => reportOf(context, dispatcher, reports, id));
  const notifier = new Notifier(context, { dispatcher, orphans });
  const history = new History(context);
  const coalescer = new WriteCoalescer(context.recorder, ports.clock);
  const running = {
    dispatcher,
    actors,
    registration,
    commands,
    pulls,
    orphans,
    resends,
    probes,
    retention,
    expiry,
    groups,
    audit,
    notifier,
    history,
  };
  // What follows from every committed event, in the order of the log: this is where a delivery begins.
  const { directory, contacts, circuits, recorder } = context;
  let flushing = Promise.resolve();
  if (isDoor) {
    recorder.feed.onCommitted((event) => {
      directory.follow(event);
      if (event.type === 'partner.registered' || event.type === 'partner.rotated')
        circuits.renew(partnerIdIn(event.stream));
      // Finds a token that another node sealed under another key before a request needs it.
      const changed = event.type.startsWith('partner.') ? directory.partner(partnerIdIn(event.stream)) : undefined;
      if (changed) openToken(context.ports, changed);
      // An erasure searches for what is still in memory here. [PERSONS-5]
      if (event.type === 'row.rebuilt') flushing = reports.flushAll();
    });
  } else {
    recorder.feed.onCommitted((event) => {
      directory.follow(event);
      contacts.follow(event);
      dispatcher.offer(event);
      // Of the others none reads a push, or another event of an object.
      if (event.type.startsWith('object.')) return;
      redrive.follow(event);
      notifier.follow(event);
      history.follow(event);
    });
  }
  let ready = false;
  const hub: Hub = {
    publicUrl: settings.publicUrl,
    party: { country_code: settings.countryCode, party_id: settings.partyId },
    known(named) {
      const id = keyOf(named);
      return id === context.directory.hub ? hub.party : (context.directory.party(id) ?? null);
    },
    authenticate: (token, address) => registration.authenticate(token, address),
    async caughtUp(refused) {
      const digest = refused?.kind === 'initial' ? refused.partner.initialTokenDigest : null;
      // [REGISTRATION-8] Before the log is read: it has the event of an exchange that ends in between.
      if (digest && (await ports.isSettling?.(digest))) throw new HubError('unavailable', { retryAfterS: 1 });
      return context.recorder.feed.caughtUp();
    },
    suspendedAt: (partner) => context.directory.partner(partner)?.suspendedAt ?? null,
    register: (...exchange) => registration.register(...exchange),
    rotate: (...exchange) => registration.rotate(...exchange),
    unregister: (...exchange) => registration.unregister(...exchange),
    credentialsOf: (credential) => registration.credentialsOf(credential),
    clientInfo: (request) => clientInfo(context.directory, request),
    accept,
    refused: (...push) => reports.refused(...push),
    used: (...use) => reports.used(...use),
    warned: ({ partner, module, object }, warnings) => reports.warned(partner, module, warnings, object),
    ...readObjects(context),
    ...authorize(context, coalescer, reports, daily),
    command: (...command) => commands.command(...command),
    callback: (...result) => commands.callback(...result),
    operations: {
      ...operations({ context, ...running, quota: daily, objects: stored, inFlight, version, ready: () => ready }),
      ...reading,
      ...overview(context, dispatcher, retention, { groups, orphans, notifier }),
      ...actorFeed(context),
      ...savedViews(context),
      startBackup: (directory, trace) => backups.startBackup(directory, trace),
      backup: (id) => backups.backup(id),
      lastBackup: () => backups.lastBackup(),
      noteAct: (act, reading) => audit.noteAct(act, reading),
      checkAudit: () => audit.checkAudit(),
      webhooks: () => notifier.webhooks(),
      webhook: (id) => notifier.webhook(id),
      setWebhook: (id, choices, trace) => notifier.setWebhook(id, choices, trace),
      removeWebhook: (id, trace) => notifier.removeWebhook(id, trace),
      testWebhook: (id) => notifier.testWebhook(id),
      redriveWebhook: (id) => notifier.redriveWebhook(id),
      subject: (person) => persons.subject(person),
      erase: (person, options, trace) => persons.erase(person, options, trace),
      redriveOne: (id, force, trace) => redrive.one(id, force, trace),
      planRedrive: (filter, options) => redrive.plan(filter, options),
      redrive: (filter, options, trace) => redrive.start(filter, options, trace),
      triageDeadGroup: async (group, change, trace) => triageView(await groups.change(group, change, trace)),
      discardOne: (id, trace) => redrive.discardOne(id, trace),
      planDiscard: (filter) => redrive.planDiscard(filter),
      discard: (filter, trace) => redrive.discard(filter, trace),
      resync: async (id, module, trace) => resends.resync(id, module, trace),
      job: (id) => jobs.view(id),
      cancelJob: (id, trace) => jobs.cancel(id, trace),
      async cancelPull(id, trace) {
        await pulls.cancel(id, trace);
        return reading.pull(id);
      },
      ...portalAccess(context, daily),
      startCheck: (id, write, trace) => checks.start(id, write, trace),
      checkOf: (id) => checks.view(id),
      checks: (party) => checks.views(party),
      report: (id) => reportOf(context, dispatcher, reports, id),
      reconciliation: (filter) => reconciliationOf(context, filter),
      history: (range) => historyOf(context, history, range),
      partnerHistory: (id, range) => partnerHistoryOf(context, history, id, range),
      monthlyReport: (id, month) => monthlyReportOf(context, history, id, month),
      trace: (key, cursor) => traceOf(context, reports, { key, cursor }, deliveryView),
      explain: (from, to, module) => explain(context, from, to, module),
    },
  };
  return {
    hub,
    context,
    forwardingLagMs: (from) => dispatcher.lagMs(from ?? null),
    async recover() {
      await (isDoor ? openDoor(context) : recover(context, running));
      ready = true;
    },
    follow: (seq) => context.recorder.feed.follow(seq),
    followed: (seq) => context.recorder.feed.reached(seq).then(() => flushing),
    tokenUsed: (use) => registration.uses.note(use),
    isSettling: (digest) => registration.settling.has(digest),
    drain: (graceMs) => dispatcher.drain(graceMs),
    async close() {
      ready = false;
      // What is closed below may wait for a write that never succeeds.
      dispatcher.giveUp();
      context.recorder.giveUp();
      context.contacts.close();
      // A running pull, or the query of a case, ends at the page that it waits for.
      const asked = orphans.close();
      lists.close();
      await Promise.all([asked, pulls.ended()]);
      await checks.close();
      await probes.close();
      await jobs.close();
      await resends.close();
      // A sweep waits for a running erasure. [RETENTION-6]
      await persons.close();
      await retention.close();
      await expiry.close();
      await audit.close();
      await notifier.close();
      await backups.close();
      await reports.flushAll();
      await history.close();
      await dispatcher.close();
      coalescer.close();
      context.recorder.feed.end();
      context.supervisor.close();
      context.timers.close();
    },
  };
}

function coreOf(opened: Store, ports: HubPorts, settings: HubSettings, isDoor: boolean): Context {
  const { clock, log, meter } = ports;
  const directory = new PartnerDirectory(settings);
  const store = withStoreErrors(opened);
  const recorder = new Recorder(store, ports, isDoor);
  const supervisor = new Supervisor(clock, {
    failed: ({ id, kind, restarts }, error) => {
      meter.actorFailed(kind, 'restarted');
      log.error({ err: error, actor: id, restarts }, 'an actor threw; restarting it');
    },
    unread: ({ id }, error) =>
      log.error({ err: error, actor: id }, 'could not read the events of an actor; reading again in 1 s'),
    quarantined: ({ id, kind, parties }, error) => {
      meter.actorFailed(kind, 'quarantined');
      log.error({ err: error, actor: id }, 'an actor kept throwing and is quarantined');
      const data = { actor: id, error: error instanceof Error ? error.message : String(error), parties };
      const facts = [{ stream: `quarantine:${id}`, event: { type: 'actor.quarantined' as const, data }, party: null }];
      recorder.note({ facts, trace: null });
    },
  });
  const timers = new Timers(clock, log);
  const circuits = new Circuits({ store, recorder, supervisor, timers, ports, settings, isDoor });
  return {
    store,
    directory,
    recorder,
    supervisor,
    circuits,
    breakerFeed: new BreakerFeed(circuits),
    contacts: new Contacts(clock, directory, settings),
    timers,
    ports,
    settings,
  };
}
