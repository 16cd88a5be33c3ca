/** Page of one partner: its live state, its recent history and every action on it. */
import { useState } from 'preact/hooks';
import { Link, Redirect, useParams } from 'wouter-preact';
import type { EventView } from '../../../api/events.ts';
import type { PartyView } from '../../../api/parties.ts';
import { actorsOf, circuitActor, circuitNames, liveStatus, type Transition, type Watch } from '../data/actors.ts';
import { type Page, pathWith } from '../data/api.ts';
import { at } from '../data/format.ts';
import { type Queried, useQuery } from '../data/query.ts';
import { mayAct, mayOperate } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { StateChart, sentence } from '../parts/chart.tsx';
import { Table } from '../parts/fields.tsx';
import { Liveness, useWatch } from '../parts/live.tsx';
import { Asked, Dash, Empty } from '../parts/states.tsx';
import { PartnerActions } from './partner-actions.tsx';
import { Check } from './partner-check.tsx';
import { Circuits, Endpoints, Queue, Routes } from './partner-facts.tsx';
import { Report } from './partner-report.tsx';
import { Roles } from './partner-roles.tsx';
import { Settings } from './partner-settings.tsx';
import { Pulls, Resync } from './partner-work.tsx';
import { PartnerTraffic } from './traffic.tsx';
import '../style/partner.css';

const everyMs = 2_000;

export function Partner() {
  const { id = '' } = useParams<{ id: string }>();
  const known = decodeURIComponent(id).toUpperCase();
  // A watch is opened for one partner: the key remounts the component for another one.
  return <OnePartner key={known} id={known} />;
}

function OnePartner({ id }: { id: string }) {
  const query = useQuery<PartyView>(`/parties/${encodeURIComponent(id)}`, everyMs);
  const watch = useWatch({ ids: actorsOf(id) });
  const { id: partner = id } = query.data ?? {};
  // The address may name any party of a partner: links from routes and deliveries do.
  if (partner !== id) return <Redirect to={`/partners/${encodeURIComponent(partner)}`} replace />;
  return (
    <div class="partner stack">
      <Head id={id} query={query} watch={watch} />
      <Asked query={query} what={`partner ${id}`}>
        {(party) => (
          <>
            {mayAct.value && <PartnerActions party={party} reload={query.reload} />}
            <div class="halves">
              <div class="stack">
                <Queue party={party} />
                <Circuits party={party} reload={query.reload} />
                <Settings party={party} reload={query.reload} />
                {mayOperate.value && <Resync id={id} />}
                <Pulls party={party} />
              </div>
              <div class="stack">
                <History id={id} watch={watch} />
                <Roles party={party} reload={query.reload} />
                <Endpoints party={party} reload={query.reload} />
                <Check party={party} reload={query.reload} />
                <Report id={id} />
                <Routes party={party} />
              </div>
            </div>
            <PartnerTraffic id={id} />
            <Charts id={id} watch={watch} />
          </>
        )}
      </Asked>
    </div>
  );
}

function Head({ id, query: { data }, watch }: { id: string; query: Queried<PartyView>; watch: Watch | null }) {
  const names = new Set(data?.roles.flatMap(({ business_details: details }) => details?.name ?? []));
  const roles = new Set(data?.roles.map(({ role }) => (role === 'EMSP' ? 'eMSP' : role)));
  return (
    <div class="page-head">
      <div class="row">
        <h1 class="mono">{id}</h1>
        <span>{[...names].join(', ')}</span>
        <span class="quiet">{[...roles].join(', ')}</span>
        {data && <Badge state={liveStatus(watch, id) ?? data.status} />}
        {data?.settings.paused && <Badge state="paused" tone="off" />}
      </div>
      <Liveness watch={watch} />
    </div>
  );
}

function Charts({ id, watch }: { id: string; watch: Watch | null }) {
  const [isOpen, setOpen] = useState(false);
  const circuits = circuitNames.map((name) => [`Circuit ${name}`, 'circuit', circuitActor(id, name)] as const);
  const machines = [
    ['Partner', 'partner', `partner:${id}`] as const,
    ['Courier', 'courier', `courier:${id}`] as const,
    // A circuit that never failed has no actor.
    ...circuits.filter(([, , actor]) => watch?.actor(actor).value),
  ];
  const actors = machines.map(([title, kind, name]) => {
    const actor = watch?.actor(name).value ?? null;
    return { title, kind, name, value: actor?.snapshot.value, supervision: actor?.supervision };
  });
  const givenUp = actors.filter(({ supervision }) => supervision?.state === 'quarantined');
  const live = actors.filter((actor) => !givenUp.includes(actor));
  return (
    <section class="card" aria-label="State charts">
      {givenUp.map(({ title, name, supervision }) => (
        <GivenUp key={name} title={title} why={supervision?.error ?? null} />
      ))}
      <details class="inside" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          State charts{' '}
          <span class="quiet">
            {live.map(({ title, value }) => `${title}: ${value ? sentence(value) : '…'}`).join(' · ')}
          </span>
        </summary>
        {isOpen && (
          <div class="charts">
            {live.map(({ title, kind, name, value }) => (
              <StateChart key={name} title={title} kind={kind} value={value} />
            ))}
          </div>
        )}
      </details>
    </section>
  );
}

function GivenUp({ title, why }: { title: string; why: string | null }) {
  return (
    <div class="error" role="alert">
      <p>
        {title}: this actor stopped after repeated failures{why ? `: ${why}` : ''}. A restart of the hub brings it back.
      </p>
    </div>
  );
}

const shownMax = 30;

interface Line {
  readonly key: string;
  readonly at: string;
  readonly event: string;
  readonly from: string;
  readonly to: string;
  /** Who caused it; '' for a live transition, which does not say. */
  readonly by: string;
}

/** Live transitions, and below them the events that the log recorded before. */
function History({ id, watch }: { id: string; watch: Watch | null }) {
  const live = actorsOf(id).flatMap((actor) => {
    const transitions = watch?.actor(actor).value?.transitions ?? [];
    return transitions.map((one, index, all) => lineOf(actor, one, all.length - index));
  });
  const lines = [...live, ...useRecorded(id, 'partner'), ...useRecorded(id, 'circuit')]
    .sort((a, b) => (a.at < b.at ? 1 : -1))
    .slice(0, shownMax);
  return (
    <Card title="Last transitions" beside={<Link href={`/events?party=${id}`}>Events</Link>}>
      {lines.length === 0 ? (
        <Empty title="No recent transitions" hint="What happens from now on is shown here as it happens." />
      ) : (
        <Table caption="Last transitions" columns={['Time', 'Event', 'From → to', 'By']}>
          {lines.map((line) => (
            <tr key={line.key}>
              <td>
                <time dateTime={line.at}>{at(line.at)}</time>
              </td>
              <td class="mono">{line.event}</td>
              <td>
                {line.from && <span class="quiet">{line.from} → </span>}
                {line.to}
              </td>
              <td class="mono">{line.by || <Dash />}</td>
            </tr>
          ))}
        </Table>
      )}
    </Card>
  );
}

/** For a machine with regions, only the regions that changed. */
function lineOf(actor: string, { at: instant, event, from, to }: Transition, number: number): Line {
  const [before, after] = [from.split(' · '), to.split(' · ')];
  const changed = after.flatMap((region, index) => (region === before[index] ? [] : [index]));
  const only = (regions: readonly string[]) => changed.map((index) => regions[index]).join(', ');
  const key = `${actor} ${instant} ${number}`;
  const circuit = actor.startsWith('circuit:') ? `${actor.split('/').pop()} ` : '';
  return {
    key,
    at: new Date(instant).toISOString(),
    event: `${circuit}${event ?? ''}`,
    from: only(before),
    to: only(after),
    by: '',
  };
}

/**
 * Recorded changes of the partner or of its circuits, as of when the page was opened. What else is about a partner, such
 * as `report.noted`, changes no state.
 */
function useRecorded(id: string, type: 'partner' | 'circuit'): Line[] {
  const path = pathWith('/events', { about: `partner:${id}`, type, order: 'newest', limit: shownMax });
  const { data } = useQuery<Page<EventView>>(path);
  return (data?.items ?? []).map(({ seq, at: instant, type: event, by, who, data: of }) => {
    const { circuit, module, reason } = of as { circuit?: string; module?: string; reason?: string };
    const to = [module ?? circuit, reason].filter(Boolean).join(': ');
    return { key: `event ${seq}`, at: instant, event, from: '', to, by: who ?? by };
  });
}
