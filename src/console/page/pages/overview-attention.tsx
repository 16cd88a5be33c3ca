/**
 * Part of the overview: what needs attention, most urgent first, with links to where it is fixed; and what runs now.
 */
import type { ComponentChildren } from 'preact';
import { Link } from 'wouter-preact';
import type { OverviewRow, OverviewTotals } from '../../../api/overview.ts';
import type { Board } from '../data/board.ts';
import { count, many, span } from '../data/format.ts';
import { Badge, shownState } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { errorText } from '../parts/last-error.tsx';
import { rowsOf } from './overview-numbers.tsx';
import { circuitTitles, hasHostChange, openCircuits } from './overview-order.ts';

interface Matter {
  readonly title: string;
  /** Link to the whole list. */
  readonly href: string | null;
  readonly items: readonly { readonly href: string; readonly name: string; readonly note: string }[];
  readonly hint?: string;
}

const itemsMax = 5;

export function Attention({ board }: { board: Board }) {
  void board.version.value;
  const totals = board.totals.value;
  if (!totals) return null;
  const matters = mattersOf(rowsOf(board), totals, board.now());
  return (
    <Card
      title="Needs attention"
      class="attention"
      beside={matters.length > 0 && <span class="quiet">{matters.length}</span>}
    >
      <div aria-live="polite">
        {matters.length === 0 && (
          <p class="inside quiet">
            <Badge state="all is well" tone="good" />
          </p>
        )}
        {matters.map((matter) => (
          <MatterView key={matter.title.replace(/\d[\d,.]*/g, '')} {...matter} />
        ))}
      </div>
    </Card>
  );
}

function MatterView({ title, href, items, hint }: Matter) {
  const more = items.length - itemsMax;
  return (
    <div class="matter">
      <h3>
        <span class="mark" aria-hidden="true">
          ▲
        </span>
        {href ? <Link href={href}>{title}</Link> : title}
      </h3>
      {hint && <p class="quiet">{hint}</p>}
      <ul>
        {items.slice(0, itemsMax).map((item) => (
          <li key={item.href}>
            <Link class="mono" href={item.href}>
              {item.name}
            </Link>{' '}
            <span class="quiet">{item.note}</span>
          </li>
        ))}
        {more > 0 && href && (
          <li>
            <Link href={href}>and {count(more)} more</Link>
          </li>
        )}
      </ul>
    </div>
  );
}

function mattersOf(rows: readonly OverviewRow[], totals: OverviewTotals, now: number): Matter[] {
  const partners = (
    title: (found: readonly OverviewRow[]) => string,
    href: string,
    fits: (row: OverviewRow) => boolean,
    note: (row: OverviewRow) => string,
    hrefOf = ({ id }: OverviewRow) => `/partners/${id}`,
  ): Matter[] => {
    const found = rows.filter(fits);
    if (found.length === 0) return [];
    const items = found.map((row) => ({ name: row.id, href: hrefOf(row), note: note(row) }));
    return [{ title: title(found), href, items }];
  };
  const sum = (found: readonly OverviewRow[], of: (row: OverviewRow) => number) =>
    found.reduce((total, row) => total + of(row), 0);
  const ageOf = (at: string | null) => (at ? span(Math.max(0, Math.floor((now - Date.parse(at)) / 1000))) : '');
  const age = (at: string | null) => (at ? `oldest ${ageOf(at)}` : '');
  return [
    ...(totals.store.state === 'open' ? [] : [storeMatter(totals.store)]),
    ...(totals.quarantined.length === 0 ? [] : [actorMatter(totals)]),
    // During a rolling upgrade, the owner may be of a version that does not name them.
    ...(totals.untold?.length ? [failingMatter(totals.untold)] : []),
    ...partners(
      (found) => many(sum(found, awake), 'dead letter'),
      '/deliveries?state=DEAD',
      (row) => awake(row) > 0,
      (row) => count(awake(row)),
      ({ id }) => `/deliveries?state=DEAD&partner=${id}`,
    ),
    ...(totals.open_cases === totals.snoozed_cases
      ? []
      : [
          {
            title: many(totals.open_cases - totals.snoozed_cases, 'open case'),
            href: '/orphans?state=OPEN',
            items: [],
          },
        ]),
    ...partners(
      (found) =>
        many(
          sum(found, ({ overdue }) => overdue),
          'overdue delivery',
          'overdue deliveries',
        ),
      '/?show=overdue',
      ({ overdue }) => overdue > 0,
      ({ overdue, oldest_at }) => `${count(overdue)} · ${age(oldest_at)}`,
      ({ id }) => `/deliveries?state=PENDING&partner=${id}&order=oldest`,
    ),
    ...partners(
      (found) => `${many(found.length, 'change')} of host`,
      '/?show=host',
      hasHostChange,
      ({ host_change: change }) => `${change?.from} → ${change?.to} · ${change?.state}`,
    ),
    ...partners(
      (found) => `${many(found.length, 'partner')} offline`,
      '/?show=offline',
      ({ status }) => status === 'OFFLINE',
      ({ names, last_error }) => errorText(last_error) ?? names.join(', '),
    ),
    ...partners(
      (found) => `${many(found.length, 'CPO')} silent`,
      '/?show=silent',
      ({ silent_since }) => silent_since !== null,
      ({ silent_since }) => `no push for ${ageOf(silent_since)}`,
    ),
    ...partners(
      (found) => `${many(found.length, 'partner')} with an open circuit`,
      '/?show=circuit',
      (row) => openCircuits(row).length > 0,
      (row) => [...circuitNotes(row), errorText(row.last_error)].filter(Boolean).join(' · '),
    ),
    ...partners(
      (found) => `${many(found.length, 'paused partner')} with backlog`,
      '/?show=paused',
      ({ paused, depth }) => paused && depth > 0,
      ({ depth }) => `${count(depth)} waiting`,
    ),
    ...(totals.log_held === null ? [] : [heldMatter(totals.log_held)]),
  ];
}

/** Dead letters that no operator has snoozed. */
const awake = ({ dead, dead_snoozed }: OverviewRow): number => dead - dead_snoozed;

function circuitNotes(row: OverviewRow): string[] {
  const shown = { open: 'open', halfOpen: 'half-open (testing)', closed: 'closed' };
  return openCircuits(row).map((circuit) => `${circuitTitles[circuit].toLowerCase()} ${shown[row[circuit]]}`);
}

function storeMatter({ state, reason }: OverviewTotals['store']): Matter {
  const hint = `${reason ?? 'The hub does not say why'}. Nothing is accepted or sent until it is open again; the hub's log says more.`;
  const title = state === 'failed' ? 'The store cannot write' : `The store is ${state}`;
  return { title, href: null, items: [], hint };
}

function failingMatter(failing: OverviewTotals['untold']): Matter {
  const items = failing.map((name) => ({ name, href: '/notifications', note: '' }));
  return { title: 'Notifications are not taken', href: '/notifications', items };
}

function heldMatter({ since, by }: NonNullable<OverviewTotals['log_held']>): Matter {
  const items = by.map((id) => ({ name: id, href: `/partners/${id}`, note: '' }));
  const hint = `Events from ${since.slice(0, 10)} on are kept, because they are still owed to these partners.`;
  return { title: 'Log clean-up is blocked', href: null, items, hint };
}

function actorMatter({ quarantined }: OverviewTotals): Matter {
  const items = quarantined.map(({ actor, error }) => ({ name: actor, href: placeOf(actor), note: error ?? '' }));
  const title = `${many(quarantined.length, 'actor')} stopped after repeated failures`;
  return {
    title,
    href: '/events?type=actor.quarantined',
    items,
    hint: 'A restart of the hub starts them again.',
  };
}

/** Link to the page of the actor's subject. */
function placeOf(actor: string): string {
  const [kind, ...rest] = actor.split(':');
  if (kind === 'partner' || kind === 'courier' || kind === 'circuit')
    return `/partners/${rest.join(':').split('/', 1)[0]}`;
  return kind === 'command' ? '/commands' : '/orphans';
}

export function Running({ board }: { board: Board }) {
  const totals = board.totals.value;
  if (!totals) return null;
  const commands = Object.entries(totals.commands);
  return (
    <Card title="Running now">
      <dl class="facts inside">
        <Fact term="Commands" href="/commands">
          {commands.length === 0
            ? 'none'
            : commands.map(([state, number]) => `${count(number)} ${shownState(state)}`).join(' · ')}
        </Fact>
        <Fact term="Orphan timers" href="/orphans?state=GRACE">
          {totals.watches === 0 ? 'none' : `${count(totals.watches)} waiting`}
        </Fact>
        <Fact term="Open cases" href="/orphans?state=OPEN">
          {totals.open_cases === 0 ? 'none' : count(totals.open_cases)}
        </Fact>
      </dl>
    </Card>
  );
}

function Fact({ term, href, children }: { term: string; href: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{term}</dt>
      <dd>
        <Link href={href}>{children}</Link>
      </dd>
    </>
  );
}
