/** Facts of a partner: its queue, circuits, endpoints and routes. */
import { Fragment } from 'preact';
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { RoutingRule } from '../../../api/routes.ts';
import { useAction } from '../data/action.ts';
import { call, type Page, pathWith } from '../data/api.ts';
import { count, many, span } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { isPortal, mayOperate } from '../data/session.ts';
import { Badge } from '../parts/badge.tsx';
import { Card, type PartnerProps } from '../parts/card.tsx';
import { Table } from '../parts/fields.tsx';
import { LastError } from '../parts/last-error.tsx';
import { PageLink } from '../parts/page-link.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { Since, Until } from '../parts/time.tsx';
import { hostChangeWords } from './partner-actions.tsx';
import { EndpointsForm } from './partner-endpoints.tsx';

const tokenNames = { hub: 'Hub token', former: 'Former hub token', initial: 'Initial token' } as const;

export function Queue({ party }: Pick<PartnerProps, 'party'>) {
  const { id, queue, last_request, last_answer, last_error, last_updated, tokens, refused_from } = party;
  const { host_change: change, token_refused: refused } = party;
  return (
    <Card title="Queue" beside={!isPortal && <Link href={`/deliveries?partner=${id}`}>Deliveries</Link>}>
      <dl class="facts inside">
        <dt>Waiting</dt>
        <dd>
          <PageLink href={`/deliveries?state=PENDING&partner=${id}`}>{count(queue.depth)}</PageLink>
          {queue.oldest_age_s !== null && <span class="quiet"> · oldest {span(queue.oldest_age_s)}</span>}
        </dd>
        <dt>Dead letters</dt>
        <dd>
          <PageLink href={`/deliveries?state=DEAD&partner=${id}`} class={queue.dead > 0 ? 'urgent' : ''}>
            {count(queue.dead)}
          </PageLink>
        </dd>
        <dt>Last request</dt>
        <dd>
          {last_request ? <Since instant={last_request} /> : <span class="quiet">none since the hub started</span>}
        </dd>
        <dt>Last answer</dt>
        <dd>{last_answer ? <Since instant={last_answer} /> : <span class="quiet">none since the hub started</span>}</dd>
        <dt>Last error</dt>
        <dd>
          <LastError error={last_error} />
        </dd>
        <Inbound party={party} />
        {tokens.map(({ kind, last_used, address }) => (
          <Fragment key={kind}>
            <dt>{tokenNames[kind]}</dt>
            <dd>
              {last_used ? (
                <>
                  used <Since instant={last_used} /> from <span class="mono">{address}</span>
                </>
              ) : (
                <span class="quiet">not used since the hub started</span>
              )}
            </dd>
          </Fragment>
        ))}
        {refused_from && (
          <>
            <dt>Refused by address</dt>
            <dd>
              {count(refused_from.count)} · last from <span class="mono">{refused_from.address}</span>{' '}
              <Since instant={refused_from.at} />
            </dd>
          </>
        )}
        {refused && (
          <>
            <dt>Token refused</dt>
            <dd class="urgent">
              {many(refused.calls, 'call')} with HTTP {refused.http_status} since <Since instant={refused.since} />
              {refused.unconfirmed &&
                `: it probably lost the answer to its ${refused.unconfirmed} of credentials, and has to exchange them again`}
            </dd>
          </>
        )}
        {change && (
          <>
            <dt>Change of host</dt>
            <dd class={change.state === 'confirmed' ? '' : 'urgent'}>
              {hostChangeWords[change.state]}: from <span class="mono">{change.from}</span> to{' '}
              <span class="mono">{change.to}</span>
            </dd>
          </>
        )}
        <dt>Last changed</dt>
        <dd>
          <Since instant={last_updated} />
        </dd>
      </dl>
    </Card>
  );
}

/** What a CPO pushed last, by module; or that it is silent. */
function Inbound({ party: { silent_since, inbound } }: Pick<PartnerProps, 'party'>) {
  return (
    <>
      {silent_since !== null && (
        <>
          <dt>Silent</dt>
          <dd class="urgent">
            no push since <Since instant={silent_since} />
          </dd>
        </>
      )}
      {inbound.map(({ module, last_push, last_hour }) => (
        <Fragment key={module}>
          <dt>Last push of {module}</dt>
          <dd>
            <Since instant={last_push} /> <span class="quiet">· {count(last_hour)} in the last hour</span>
          </dd>
        </Fragment>
      ))}
    </>
  );
}

/** Buttons that open and close a circuit. */
const labels: Readonly<Record<string, readonly [open: string, close: string]>> = {
  sync: ['Stop commands & authorize (open circuit)', 'Try commands & authorize now (close circuit)'],
  async: ['Stop deliveries (open circuit)', 'Try again now (close circuit)'],
};

const purposes: Readonly<Record<string, string>> = {
  sync: 'authorize, commands',
  results: 'results of commands',
  async: 'deliveries of all modules',
};

export function Circuits({ party: { id, circuits }, reload }: PartnerProps) {
  const { isRunning, run } = useAction(async (circuit: string, state: 'open' | 'closed') => {
    await call('POST', `/parties/${id}/circuits/${circuit}`, { state });
    reload();
    const soon = state === 'open' ? ' It is tried again soon: to hold deliveries back, pause them.' : '';
    return `The ${circuit} circuit is ${state}.${soon}`;
  });
  return (
    <Card title="Circuits">
      <div class="inside stack">
        {circuits.map(({ circuit, state, failures, until }) => (
          <div key={circuit} class="row circuit">
            <strong>{circuit}</strong>
            <Badge state={state} />
            <span class="quiet">
              {purposes[circuit] ?? `deliveries of ${circuit}`}
              {failures > 0 && ` · ${failures === 1 ? 'the last call' : `the last ${count(failures)} calls`} failed`}
              {until && (
                <>
                  {' · next try '}
                  <Until instantMs={Date.parse(until)} />
                </>
              )}
            </span>
            {mayOperate.value && (
              <span class="row end">
                {state !== 'closed' && (
                  <button type="button" disabled={isRunning} onClick={() => run(circuit, 'closed')}>
                    {labels[circuit]?.[1] ?? `Retry ${circuit} now (close circuit)`}
                  </button>
                )}
                {state !== 'open' && (
                  <button type="button" disabled={isRunning} onClick={() => run(circuit, 'open')}>
                    {labels[circuit]?.[0] ?? `Stop ${circuit} (open circuit)`}
                  </button>
                )}
              </span>
            )}
          </div>
        ))}
      </div>
    </Card>
  );
}

export function Endpoints({ party, reload }: PartnerProps) {
  const [isEdited, setEdited] = useState(false);
  const { endpoints, url } = party;
  return (
    <Card
      title="Endpoints"
      beside={
        mayOperate.value && (
          <button type="button" onClick={() => setEdited(true)}>
            Set endpoints
          </button>
        )
      }
    >
      {endpoints.length === 0 ? (
        <Empty title="No endpoints yet" hint="They are discovered when the partner exchanges credentials." />
      ) : (
        <Table caption="Endpoints" columns={['Module', 'URL']}>
          {endpoints.map(({ identifier, role, url: at, source }) => (
            <tr key={`${source} ${identifier} ${role}`}>
              <td>
                {identifier} <span class="quiet">{role.toLowerCase()}</span>{' '}
                {source === 'operator' && <Badge state="set here" tone="info" />}
              </td>
              <td class="mono url">{at}</td>
            </tr>
          ))}
        </Table>
      )}
      {url && <p class="inside quiet url">Credentials URL {url}</p>}
      {isEdited && <EndpointsForm party={party} reload={reload} onClose={() => setEdited(false)} />}
    </Card>
  );
}

const routesMax = 12;

/** A platform may hold many parties; the rules of any of them are shown. */
export function Routes({ party: { id, roles } }: Pick<PartnerProps, 'party'>) {
  const query = useQuery<Page<RoutingRule>>(pathWith('/routes', { partner: id, limit: routesMax }), 10_000);
  const own = new Set(roles.map(({ country_code, party_id }) => `${country_code}-${party_id}`.toUpperCase()));
  return (
    <Card title="Routes" beside={<Link href={`/routing?partner=${id}`}>Routing</Link>}>
      <Asked query={query} what="routes">
        {({ items, next_cursor }) => {
          if (items.length === 0) return <Empty title="No route" hint="Nothing is exchanged until a pair is routed." />;
          return (
            <ul class="inside routes">
              {items.map(({ emsp, cpo, active }) => (
                <li key={`${emsp} ${cpo}`}>
                  <Other id={emsp} own={own} /> ⇄ <Other id={cpo} own={own} />
                  {!active && <Badge state="inactive" tone="off" />}
                </li>
              ))}
              {next_cursor !== null && (
                <li>
                  <Link href={`/routing?partner=${id}`}>all of them</Link>
                </li>
              )}
            </ul>
          );
        }}
      </Asked>
    </Card>
  );
}

function Other({ id, own }: { id: string; own: ReadonlySet<string> }) {
  return own.has(id) ? (
    <span class="mono">{id}</span>
  ) : (
    <Link class="mono" href={`/partners/${id}`}>
      {id}
    </Link>
  );
}
