/** `ocpi-hub parties`: prints partners and changes them: onboarding, suspension, probes, resyncs, pulls, pauses. */
import type { Command } from 'commander';
import type { PartyView, ProbeView } from '../api/parties.ts';
import type { PullView } from '../api/pulls.ts';
import { isModule, moduleNames } from '../domain/modules.ts';
import type { Colour } from '../kit/paint.ts';
import { Failure } from './client.ts';
import { complete, kinds, partyPath } from './complete.ts';
import { watched, watchJob } from './job.ts';
import { listVerb } from './list-verb.ts';
import { endpointsVerb, endpointTable } from './parties-endpoints.ts';
import { addVerb, connectVerb, initialTokenVerb, portalLinkVerb } from './parties-onboarding.ts';
import { historyVerb, reportVerb } from './parties-report.ts';
import { roleName, rolesVerb } from './parties-roles.ts';
import { settingText, setVerb } from './parties-settings.ts';
import { age, type Column, fields, many, type Page, plain, span, when } from './table.ts';
import { noun, verb } from './verb.ts';

const colours: Readonly<Record<PartyView['status'], Colour>> = {
  REGISTERED: 'yellow',
  CONNECTED: 'green',
  OFFLINE: 'red',
  SUSPENDED: 'red',
};

const columns: readonly Column<PartyView>[] = [
  { title: 'id', of: ({ id }) => id },
  { title: 'status', of: ({ status }) => status, colour: ({ status }) => colours[status] },
  { title: 'roles', of: rolesOf, shrinksTo: 12 },
  { title: 'waiting', of: ({ queue }) => queue.depth, align: 'right' },
  { title: 'oldest', of: ({ queue }) => (queue.oldest_age_s === null ? '' : span(queue.oldest_age_s)) },
  { title: 'dead', of: ({ queue }) => queue.dead, align: 'right' },
  { title: 'circuits', of: troubles },
  { title: 'last request', of: ({ last_request }, now) => (last_request === null ? 'none' : age(last_request, now)) },
];

export function command(): Command {
  return noun('parties', 'partners: status, onboarding, endpoints, pulls', [
    listVerb<PartyView>({
      summary: 'list partners with status, backlog and circuits',
      examples: ['parties', 'parties list --json'],
      path: '/parties',
      limit: 200,
      columns,
      whenEmpty: () => 'No partner yet. ocpi-hub parties add NL-TNM --role CPO adds one and issues its initial token.',
    }),
    verb({
      usage: 'show <id>',
      summary: 'show a partner with endpoints, settings and circuits',
      examples: ['parties show NL-CPO', 'parties show NL-CPO --json'],
      run: async ({ hub, screen }, [given = '']) => {
        screen.answer(await hub.get<PartyView>(await partyPath(hub, given)), party);
      },
    }),
    addVerb(),
    initialTokenVerb(),
    portalLinkVerb(),
    connectVerb(),
    verb<{ yes?: boolean }>({
      usage: 'suspend <id>',
      summary: 'suspend a partner as its own DELETE of the credentials does: tokens end, what it is owed becomes DEAD',
      options: [['-y, --yes', 'do not ask (without a terminal nobody is asked)']],
      examples: ['parties suspend NL-CPO'],
      run: async ({ hub, screen }, [given = ''], { yes = false }) => {
        const path = await partyPath(hub, given);
        const party = await hub.get<PartyView>(path);
        const { id, queue } = party;
        const parties = new Set(party.roles.map(({ country_code, party_id }) => `${country_code}-${party_id}`));
        const all = parties.size > 1 ? ` with all its parties (${[...parties].join(', ')})` : '';
        const question = `Suspend ${id}${all}, to which ${many(queue.depth, 'delivery is', 'deliveries are')} owed?`;
        if (!yes && screen.isAnswerable && !(await screen.ask(question)))
          throw new Failure('canceled: the partner was not suspended');
        // Of a platform that one party leaves nobody wants to lose the others.
        const isOther = id !== given.toUpperCase() && parties.has(given.toUpperCase());
        if (!yes && !screen.isAnswerable && isOther)
          throw new Failure(
            `${plain(given)} is a party of ${id}, which would be suspended${all}: give --yes; ocpi-hub routes remove ends the traffic of one party`,
            { exitCode: 2 },
          );
        screen.answer(await hub.send<PartyView>('POST', `${path}/suspend`), (suspended) => [
          `${suspended.id} is ${suspended.status}${all}; ocpi-hub parties initial-token ${suspended.id} lets it register again`,
        ]);
      },
    }),
    verb<{ host?: string }>({
      usage: 'confirm-host <id>',
      summary: 'confirm that a partner moved to another host, or may do so with its next PUT of credentials',
      options: [['--host <host:port>', 'the host that is meant; any other is refused']],
      examples: ['parties confirm-host NL-CPO', 'parties confirm-host NL-CPO --host cpo.example:443'],
      run: async ({ hub, screen }, [given = ''], { host }) => {
        const path = `${await partyPath(hub, given)}/confirm-host`;
        screen.answer(await hub.send<PartyView>('POST', path, { host }), ({ id, host_change }) => [
          host_change
            ? `the next PUT of ${id} may change its host to ${host_change.to}`
            : `the host of ${id} is confirmed`,
        ]);
      },
    }),
    verb({
      usage: 'probe <id>',
      summary: 'ask a partner for its versions now; exit 1 when it cannot be reached',
      examples: ['parties probe NL-CPO'],
      run: async ({ hub, screen }, [given = '']) => {
        const path = await partyPath(hub, given);
        const answer = await hub.send<ProbeView>('POST', `${path}/probe`);
        const { status, latency_ms, error } = answer;
        const took = `${Math.round(latency_ms)} ms`;
        screen.answer(answer, () => [`${status} after ${took}${error === undefined ? '' : `: ${error}`}`]);
        if (status !== 'reachable') throw new Failure('the partner failed the probe');
      },
    }),
    pullVerb(),
    cancelPullVerb(),
    reportVerb(),
    historyVerb(),
    verb({
      usage: 'resync <id> <module>',
      summary: `send a partner the present objects of a module (${moduleNames.join(', ')})`,
      examples: ['parties resync NL-EMS locations'],
      run: async (context, [given = '', module = '']) => {
        const path = await partyPath(context.hub, given);
        await watchJob(context, await context.hub.send('POST', `${path}/resync`, { module }), 0);
      },
    }),
    pausing('pause', true, 'hold back deliveries to a partner; they wait and nothing is lost', 'wait from now on'),
    pausing('resume', false, 'let deliveries to a paused partner flow again', 'flow again'),
    rolesVerb(),
    endpointsVerb(),
    setVerb(),
  ]);
}

function pausing(name: string, paused: boolean, summary: string, words: string): Command {
  return verb({
    usage: `${name} <id>`,
    summary,
    examples: [`parties ${name} NL-EMS`],
    run: async ({ hub, screen }, [given = '']) => {
      const changed = await hub.send<PartyView>('PATCH', await partyPath(hub, given), { paused });
      screen.answer(changed, ({ id, status, queue }) => [
        status === 'SUSPENDED'
          ? `${id} is SUSPENDED: nothing is owed to it until it registers again (ocpi-hub parties initial-token ${id})`
          : `deliveries to ${id} ${words} (${queue.depth} waiting)`,
      ]);
    },
  });
}

/** Null when no party of it has a name. */
const namesOf = ({ roles }: PartyView): string | null =>
  plain([...new Set(roles.flatMap(({ business_details }) => business_details?.name ?? []))].join(', ')) || null;

function rolesOf({ roles }: PartyView): string {
  return roles.map(roleName).join(', ');
}

/** Null when its credentials name all of its roles. */
function leftOutOf({ roles }: PartyView): string | null {
  const named = roles.filter(({ left_out }) => left_out).map(roleName);
  return named.length === 0 ? null : `${named.join(', ')}: its credentials do not name it, other partners see PLANNED`;
}

/** Circuits that are not closed, and whether deliveries are paused. */
function troubles({ circuits, settings }: PartyView): string {
  const one = circuits.filter(({ circuit }) => circuit !== 'async');
  const open = one.filter(({ state }) => state !== 'closed').map(({ circuit, state }) => `${circuit} ${state}`);
  return [...open, ...(settings.paused === true ? ['paused'] : [])].join(', ');
}

function tokenUse({ kind, last_used, address }: PartyView['tokens'][number], now: number): string {
  return `${kind} ${last_used === null ? 'not used since the hub started' : `used ${age(last_used, now)} from ${address}`}`;
}

function refusedOf({ refused_from: refused }: PartyView): string | null {
  return refused && `${many(refused.count, 'request')} from outside allow_from, the last from ${refused.address}`;
}

/** What the operator and the partner have to do about it. */
function tokenRefusedOf({ id, token_refused: refused }: PartyView, now: number): string | null {
  if (refused === null) return null;
  const { since, calls, http_status, unconfirmed } = refused;
  const seen = `${many(calls, 'call')} with HTTP ${http_status ?? 'no status'} since ${when(since, now)}`;
  const redrive = `then ocpi-hub redrive --partner ${id} --class auth_error`;
  if (unconfirmed === null)
    return `${seen}: it has to send PUT of its credentials with the token that it takes, ${redrive}`;
  const lost = `${seen}: it probably lost the answer to its last ${unconfirmed} of credentials`;
  const post = `ocpi-hub parties initial-token ${id} for a POST`;
  return unconfirmed === 'PUT'
    ? `${lost}, and has to send PUT again with its former hub token, or ${post}; ${redrive}`
    : `${lost}: ${post}; ${redrive}`;
}

function hostChangeOf({ host_change: change }: PartyView): string | null {
  return change && `${change.state}: from ${change.from} to ${change.to}`;
}

const sinceStart = 'none since the hub started';

function errorOf(error: PartyView['last_error'], now: number): string {
  if (error === null) return sinceStart;
  const { at, what, http_status, class: met, excerpt, delivery } = error;
  const status = http_status === null ? met : `HTTP ${http_status}`;
  return `${when(at, now)}: ${what}: ${status}, ${plain(excerpt)}${delivery === null ? '' : ` (delivery ${delivery})`}`;
}

function pushesOf({ module, last_push, last_hour }: PartyView['inbound'][number], now: number): string {
  return `${module} ${age(last_push, now)}, ${last_hour} in the last hour`;
}

const after = (failures: number): string => (failures === 0 ? '' : ` after ${many(failures, 'failure')}`);

function party(item: PartyView, page: Page): string[] {
  const { paint, now } = page;
  const { queue } = item;
  const oldest = queue.oldest_age_s === null ? '' : `, the oldest for ${span(queue.oldest_age_s)}`;
  const settings = Object.entries(item.settings).map(([name, value]) => `${name} ${settingText(value)}`);
  // `async` sums up the modules, which are shown one by one when any of them has failed.
  const each = item.circuits.filter(
    ({ circuit }, _, all) => circuit !== 'async' || !all.some((one) => isModule(one.circuit)),
  );
  const circuits = each.map(({ circuit, state, failures, until }) => {
    const next = until === null ? '' : `, next try ${age(until, now)}`;
    return `${circuit} ${state === 'halfOpen' ? 'half-open (testing)' : state}${after(failures)}${next}`;
  });
  const refusal = tokenRefusedOf(item, now);
  const about = fields(page, [
    ['partner', paint('bold', item.id)],
    ['status', paint(colours[item.status], item.status)],
    ['name', namesOf(item)],
    ['roles', rolesOf(item)],
    ['left out', leftOutOf(item)],
    ['url', item.url],
    ['last request', when(item.last_request, now) ?? sinceStart],
    ['last answer', when(item.last_answer, now) ?? sinceStart],
    ['last error', errorOf(item.last_error, now)],
    ['silent', item.silent_since && paint('red', `no push since ${when(item.silent_since, now)}`)],
    ['pushes', item.inbound.map((one) => pushesOf(one, now)).join('; ') || null],
    ['tokens', item.tokens.map((token) => tokenUse(token, now)).join('; ')],
    ['refused', refusedOf(item)],
    ['token refused', refusal && paint('red', refusal)],
    ['change of host', hostChangeOf(item)],
    ['deliveries', `${queue.depth} waiting${oldest}; ${queue.dead} dead`],
    ['circuits', circuits.join('; ')],
    ['settings', settings.join(', ')],
    [
      'habits',
      item.quirks.map(({ heals, setting, value, source }) => `${heals}: ${setting} ${value} (${source})`).join('; ') ||
        null,
    ],
  ]);
  if (item.endpoints.length === 0) return [...about, '', 'It has no endpoints yet.'];
  return [...about, '', ...endpointTable(item.endpoints, page)];
}

interface PullFlags {
  readonly full?: boolean;
  readonly forward?: boolean;
}

const modules = ['locations', 'tariffs'];
/** Of the newest pulls of a partner: it may have pulled its other list many times meanwhile. */
const lookedThrough = 1000;

function pullVerb(): Command {
  return verb<PullFlags>({
    usage: 'pull <id> <module>',
    summary: 'pull the locations or tariffs that a CPO lists',
    options: [
      ['--full', 'the whole list, not what changed since the last successful pull'],
      ['--forward', 'send what is new to the routed eMSPs'],
    ],
    examples: ['parties pull NL-CPO locations', 'parties pull NL-CPO tariffs --full --forward'],
    run: async ({ hub, screen }, [given = '', module = ''], { full = false, forward = false }) => {
      if (!modules.includes(module)) {
        throw new Failure(`"${module}" cannot be pulled: expected locations or tariffs`, { exitCode: 2 });
      }
      const path = `${await partyPath(hub, given)}/pull/${module}`;
      const started = await hub.send<{ id: string }>('POST', path, { full, forward });
      const look = () => hub.get<PullView>(`/pulls/${encodeURIComponent(started.id)}`);
      const words = ({ pages, received }: PullView) => `${many(pages, 'page')}, ${received} received`;
      const pull = await watched(screen, await look(), look, words);
      screen.answer(pull, linesOf);
      if (pull.state === 'FAILED') throw new Failure(`the pull failed: ${pull.error ?? 'the hub gives no reason'}`);
    },
  });
}

function cancelPullVerb(): Command {
  return verb({
    usage: 'cancel-pull <id> <module>',
    summary: 'end the running pull of the locations or tariffs of a CPO; what was stored stays stored',
    examples: ['parties cancel-pull NL-CPO locations'],
    run: async ({ hub, screen }, [given = '', module = '']) => {
      const id = await complete(hub, kinds.party, given);
      const { items } = await hub.list<PullView>('/pulls', { party: id }, lookedThrough);
      const running = items.find((one) => one.module === module && one.state === 'RUNNING');
      if (!running) throw new Failure(`no pull of the ${module} of ${id} runs`);
      const ended = await hub.send<PullView>('DELETE', `/pulls/${encodeURIComponent(running.id)}`);
      screen.answer(ended, (pull) => {
        const [first = '', ...rest] = linesOf(pull);
        // Its last page may have come before the request.
        return [pull.state === 'DONE' ? first : `canceled: ${first}`, ...rest];
      });
    },
  });
}

function linesOf({ pages, received, stored, unchanged, invalid, deleted, note, id }: PullView): string[] {
  return [
    `${received} received in ${many(pages, 'page')}: ${stored} stored, ${unchanged} unchanged, ${invalid} invalid, ${deleted} deleted (pull ${id})`,
    ...(note === null ? [] : [note]),
  ];
}
