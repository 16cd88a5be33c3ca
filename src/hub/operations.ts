/**
 * The verbs of operators that manage partners and routes, control pulls and orphan cases, and report the hub's status.
 */

import type { HubStatus } from '../api/hub.ts';
import type { PartyView } from '../api/parties.ts';
import { HubError } from '../domain/errors.ts';
import type { Trace } from '../domain/events.ts';
import { instantText } from '../domain/instant.ts';
import {
  choicesOf,
  defaultSettings,
  type PartnerChoices,
  quirksOf,
  storedSettings,
} from '../domain/partner-settings.ts';
import {
  type Endpoint,
  isRegistered,
  keyOf,
  type Partner,
  type PartyId,
  type PartyRole,
  roleName,
} from '../domain/party.ts';
import type { Route } from '../domain/routing.ts';
import type { Clock } from '../kit/clock.ts';
import type { Context } from './kernel/context.ts';
import { partnerStream, routeStream } from './kernel/directory.ts';
import type { ObjectQuota, Quota } from './kernel/quota.ts';
import { routePut } from './kernel/row-codecs.ts';
import { rolesChanged } from './onboarding/party-roles.ts';
import { courierActor } from './partners/partner-actors.ts';
import type { Operations, Vitals } from './ports/operator.ts';
import type { Recovered } from './recovery.ts';
import { actorCounts } from './views/actor-feed.ts';
import { overdueAfterMs } from './views/overview.ts';
import { orphanView } from './views/views.ts';

/** Note of a case that an operator closed without a note. */
const byHand = 'closed by an operator';

export interface OperationsParts
  extends Pick<Recovered, 'dispatcher' | 'orphans' | 'probes' | 'pulls' | 'registration' | 'resends' | 'retention'> {
  readonly context: Context;
  readonly quota: Pick<Quota, 'shares'>;
  readonly objects: Pick<ObjectQuota, 'shares'>;
  /** Calls by partner. */
  readonly inFlight: ReadonlyMap<PartyId, number>;
  readonly version: string;
  readonly ready: () => boolean;
}

export function operations(parts: OperationsParts) {
  const { context, registration, dispatcher, probes, pulls, orphans, resends, retention } = parts;
  const { version, ready } = parts;
  const { directory, recorder, ports, store, supervisor } = context;
  const startedAt = ports.clock.now();

  /**
   * The directory has every change that is in the log; throws `unavailable` while it lags. What finds that there is
   * nothing to change writes nothing, so no conflict would show that it decided on an older state. [RECORDER-6]
   */
  const upToDate = () => recorder.feed.caughtUp();

  /** Runs work on a partner in its turn, with the partner's state at that time. */
  function inTurn<T>(id: string, work: (partner: Partner) => Promise<T>): Promise<T> {
    const partner = directory.known(id);
    return recorder.inTurn(partnerStream(partner.id), async () => {
      await upToDate();
      return work(directory.known(partner.id));
    });
  }

  async function addParty(roles: readonly PartyRole[], choices: Partial<PartnerChoices>, trace: Trace) {
    const [first] = roles;
    if (!first) throw new HubError('invalid', { message: 'roles: at least one is required' });
    return recorder.inTurn('partner.added', async () => {
      for (const role of roles) refuseTaken(role);
      if (new Set(roles.map(roleName)).size < roles.length)
        throw new HubError('invalid', { message: 'roles: one of them stands twice' });
      const initialToken = ports.secrets.newToken();
      const initialTokenDigest = ports.secrets.digest(initialToken);
      const settings = { ...defaultSettings, ...storedSettings(choices) };
      const data = { id: keyOf(first), roles, settings, initialTokenDigest };
      const dispatched = (partner: Partner) => {
        dispatcher.addParties(partner.roles.map(keyOf));
        probes.watch(partner.id);
      };
      const decided = { seen: [directory.seen], dispatched, late: 'answer' } as const;
      const added = { type: 'partner.added', data } as const;
      const { hubToken, event: issued } = registration.newHubToken();
      const events = choices.pull_only ? ([added, issued] as const) : ([added] as const);
      const party = view(await registration.recordPartner(null, events, trace, decided));
      return choices.pull_only ? { party, hubToken } : { party, initialToken };
    });
  }

  /** A country_code and party_id belong to one partner alone. [D41] */
  function refuseTaken(role: PartyRole): void {
    const id = keyOf(role);
    if (directory.partnerOf(id) || id === directory.hub)
      throw new HubError('conflict', { message: `${id} exists already` });
  }

  function view(partner: Partner): PartyView {
    const { id, status, roles, url, endpoints, settings, lastUpdated: last_updated } = partner;
    const { depth, oldestAt, dead } = dispatcher.backlog(id);
    const contact = directory.lastContact(id);
    const instant = (at: number | null) => (at === null ? null : instantText(ports.clock.stamp(at)));
    const oldest_age_s = oldestAt === null ? null : Math.max(0, (ports.clock.now() - oldestAt) / 1000);
    const choices = choicesOf(settings);
    return {
      id,
      status,
      roles: roles.map(({ isUnnamed, ...role }) => ({ ...role, ...(isUnnamed && { left_out: true as const }) })),
      left_out: roles.filter(({ isUnnamed }) => isUnnamed).map(keyOf),
      url,
      endpoints,
      last_updated,
      settings: choices,
      token_sent_as: settings.token_encoding,
      quirks: quirksOf(choices, settings.token_encoding),
      ...registration.tokensOf(partner),
      token_refused: registration.lost.view(partner),
      host_change: partner.hostChange ?? null,
      circuits: context.circuits.view(id),
      queue: { depth, oldest_age_s, dead },
      last_contact: instant(contact),
      ...context.contacts.view(partner),
      initial_token_expires_at: instant(registration.initialTokenEnd(partner)),
    };
  }

  function changeParty(
    id: string,
    choices: Partial<PartnerChoices>,
    businessDetails: { name: string } | undefined,
    trace: Trace,
  ) {
    return inTurn(id, async (partner) => {
      const { pull_only: isPullOnly = partner.settings.pull_only } = choices;
      if (isPullOnly !== partner.settings.pull_only && isRegistered(partner))
        throw new HubError('conflict', { message: `${partner.id} is registered: suspend it before pull_only changes` });
      const roles = businessDetails && partner.roles.map((role) => ({ ...role, business_details: businessDetails }));
      const data = { settings: storedSettings(choices), ...(roles && { roles }) };
      const dispatched = () => {
        if (choices.paused === undefined) return;
        supervisor.send(courierActor(partner.id), { type: choices.paused ? 'pause' : 'resume' });
      };
      const changed = { type: 'partner.changed', data } as const;
      if (!choices.pull_only || isRegistered(partner))
        return { party: view(await registration.recordPartner(partner, [changed], trace, { dispatched })) };
      const { hubToken, event: issued } = registration.newHubToken();
      const late = { dispatched, late: 'answer' } as const;
      return { party: view(await registration.recordPartner(partner, [changed, issued], trace, late)), hubToken };
    });
  }

  /** A partner that is pull only takes part in no exchange. [D89] */
  function refusePullOnly({ id, settings }: Partner): void {
    if (settings.pull_only)
      throw new HubError('conflict', { message: `${id} is pull only: it exchanges no credentials` });
  }

  function issueInitialToken(id: string, trace: Trace): Promise<string> {
    return inTurn(id, async (partner) => {
      refusePullOnly(partner);
      const initialToken = ports.secrets.newToken();
      const data = { initialTokenDigest: ports.secrets.digest(initialToken) };
      const event = { type: 'partner.initialTokenIssued', data } as const;
      await registration.recordPartner(partner, [event], trace, { late: 'answer' });
      return initialToken;
    });
  }

  function confirmHost(id: string, host: string | undefined, trace: Trace): Promise<PartyView> {
    return inTurn(id, async (partner) => view(await registration.hosts.confirm(partner, host, trace)));
  }

  function setEndpoints(id: string, endpoints: readonly Omit<Endpoint, 'source'>[], trace: Trace): Promise<PartyView> {
    return inTurn(id, async (partner) => {
      const data = { endpoints: endpoints.map((endpoint) => ({ ...endpoint, source: 'operator' as const })) };
      return view(await registration.recordPartner(partner, [{ type: 'partner.endpointsSet', data }], trace));
    });
  }

  function setRoles(id: string, wanted: readonly PartyRole[], trace: Trace): Promise<PartyView> {
    return inTurn(id, async (partner) => {
      const seen = [directory.seen];
      const changed = await rolesChanged(context, dispatcher, partner, wanted);
      if (changed === null) return view(partner);
      const { roles, gained, lost } = changed;
      const dispatched = () => {
        dispatcher.removeParties(lost);
        dispatcher.addParties(gained);
      };
      const event = { type: 'partner.changed', data: { settings: {}, roles } } as const;
      return view(await registration.recordPartner(partner, [event], trace, { seen, dispatched }));
    });
  }

  function suspend(id: string, trace: Trace): Promise<PartyView> {
    return inTurn(id, async (partner) => {
      // A suspended partner is suspended again only to revoke an initial token that was issued since.
      const isOver = partner.status === 'SUSPENDED' && partner.initialTokenDigest === null;
      if (!isOver) await registration.suspend(partner, 'suspended by an operator', trace);
      return view(directory.known(partner.id));
    });
  }

  async function setRoute(emsp: PartyId, cpo: PartyId, active: boolean, trace: Trace) {
    await upToDate();
    const route = { ...knownPair(emsp, cpo), active };
    if (directory.route(route.emsp, route.cpo)?.active !== active) await recordRoute(route, false, trace);
    return { ...route, released: active ? await resends.releasePair(route.emsp, route.cpo, trace) : 0 };
  }

  async function removeRoute(emsp: PartyId, cpo: PartyId, trace: Trace): Promise<void> {
    await upToDate();
    const pair = knownPair(emsp, cpo);
    if (directory.route(pair.emsp, pair.cpo)) await recordRoute({ ...pair, active: false }, true, trace);
  }

  /** Throws `notFound` when either party is unknown in its role. */
  function knownPair(emsp: PartyId, cpo: PartyId): Pick<Route, 'emsp' | 'cpo'> {
    const pair = { emsp: emsp.toUpperCase(), cpo: cpo.toUpperCase() };
    for (const [id, role] of [
      [pair.emsp, 'EMSP'],
      [pair.cpo, 'CPO'],
    ] as const) {
      if (!directory.party(id, role)) throw new HubError('notFound', { message: `no ${role} party ${id}` });
    }
    return pair;
  }

  /** Refused with `notFound` when a role that the rule names was removed meanwhile. [PARTY-ROLES-1] */
  async function recordRoute(route: Route, removed: boolean, trace: Trace): Promise<void> {
    const stream = routeStream(route.emsp, route.cpo);
    await recorder.repeatsEnded();
    await recorder.inTurn(stream, async () => {
      const { emsp, cpo } = knownPair(route.emsp, route.cpo);
      const holders = new Set([emsp, cpo].flatMap((party) => directory.partnerOf(party)?.id ?? []));
      const { kind, owner, id } = routePut(route);
      const type = removed ? ('route.removed' as const) : ('route.set' as const);
      await recorder.recordDirectory({
        facts: [{ stream, event: { type, data: route }, party: null }],
        puts: [removed ? { kind, owner, id, gone: true } : routePut(route)],
        seen: [...holders].map((holder) => directory.seenOf(holder)),
        trace,
      });
    });
  }

  function status(): HubStatus {
    const queues = [...directory.partners()].map(({ id }) => dispatcher.backlog(id));
    const oldest = queues.flatMap(({ oldestAt }) => (oldestAt === null ? [] : [oldestAt]));
    const { state: storeState, reason, head, verifying = null } = store.health();
    return {
      version,
      uptime_s: (ports.clock.now() - startedAt) / 1000,
      ready: ready() && storeState === 'open',
      store: { state: storeState, reason, verifying },
      clock_step: lastStep(ports.clock),
      sequence: head,
      actors: actorCounts(supervisor).counts,
      backlog: {
        depth: queues.reduce((sum, { depth }) => sum + depth, 0),
        oldest_age_s: oldest.length > 0 ? Math.max(0, (ports.clock.now() - Math.min(...oldest)) / 1000) : null,
      },
    };
  }

  function vitals(): Vitals {
    const now = ports.clock.now();
    const overdue = [...directory.partners()].map(
      ({ id }) => [id, dispatcher.overdue(id, now - overdueAfterMs)] as const,
    );
    const { since = '', by = [] } = retention.held() ?? {};
    return {
      actors: actorCounts(supervisor).counts,
      overdue: Object.fromEntries(overdue),
      lost_sends: supervisor.lost,
      deadlines: context.timers.size,
      retention_lag_s: retention.lagS(),
      quota: Object.fromEntries(parts.quota.shares()),
      objects: Object.fromEntries(parts.objects.shares()),
      calls: Object.fromEntries(
        [...parts.inFlight].map(([id, calls]) => [id, calls / context.settings.deliveryConcurrency]),
      ),
      log_held_age_s: Object.fromEntries(by.map((id) => [id, (now - ports.clock.steady(Date.parse(since))) / 1000])),
    };
  }

  return {
    addParty,
    parties: () => [...directory.partners()].map(view),
    // It is only shown: acts name a partner by its own id.
    party: (id) => view(directory.partnerOf(id.toUpperCase()) ?? directory.known(id)),
    probe: async (id) => probes.probe(directory.known(id)),
    async connect(id, invitation, trace) {
      refusePullOnly(directory.known(id));
      await registration.connect(directory.known(id), invitation, trace);
      return view(directory.known(id));
    },
    handshake: (id) => registration.handshake(directory.known(id).id),
    setCircuit(id, circuit, wanted, trace) {
      const partner = directory.known(id);
      context.circuits.set(partner, circuit, wanted, trace);
      return view(partner);
    },
    startPull: async (id, module, asked, trace) => ({
      id: await pulls.start(directory.known(id), module, asked, trace),
    }),
    pullOrphan: async (id, trace) => orphanView(await orphans.pull(id, trace)),
    resolveOrphan: async (id, note, trace) => orphanView(await orphans.resolve(id, note ?? byHand, trace)),
    triageOrphan: async (id, change, trace) => orphanView(await orphans.triage(id, change, trace)),
    changeParty,
    issueInitialToken,
    confirmHost,
    setEndpoints,
    setRoles,
    suspend,
    routes: () => directory.routes(),
    setRoute,
    removeRoute,
    status,
    vitals,
  } satisfies Partial<Operations>;
}

function lastStep(clock: Clock): HubStatus['clock_step'] {
  const { last } = clock.steps;
  return last && { seconds: last.ms / 1000, ago_s: (clock.now() - last.at) / 1000 };
}
