/** Page of one delivery: its state and the reason, every attempt, the request, and what it changes for the receiver. */
import { useEffect, useState } from 'preact/hooks';
import { Link, useParams } from 'wouter-preact';
import type { Attempt, DeliveryDetailView, DeliveryView } from '../../../api/deliveries.ts';
import type { PartyView } from '../../../api/parties.ts';
import { say } from '../data/action.ts';
import { pathWith } from '../data/api.ts';
import { count, many, span, spanMs } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { curlOf, laidOut } from '../data/request-text.ts';
import { Badge } from '../parts/badge.tsx';
import { copyText } from '../parts/copy.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { Instant, Until } from '../parts/time.tsx';
import { meaningOf } from './deliveries-words.ts';
import { DiscardOne, RedriveOne } from './delivery-acts.tsx';
import { ChangeShown } from './delivery-change.tsx';
import '../style/deliveries.css';

/** Poll intervals, milliseconds; an ended delivery changes only by a re-drive. */
const refreshMs = { pending: 2_000, ended: 10_000 };

export function Delivery() {
  const { id = '' } = useParams<{ id: string }>();
  const [isPending, setPending] = useState(true);
  const everyMs = isPending ? refreshMs.pending : refreshMs.ended;
  const query = useQuery<DeliveryDetailView>(`/deliveries/${encodeURIComponent(id)}`, everyMs);
  const state = query.data?.state ?? 'PENDING';
  useEffect(() => setPending(state === 'PENDING'), [state]);
  if (query.error?.status === 404) {
    return (
      <Empty
        title={`There is no delivery ${id}`}
        hint="An id is the number of the event and the receiver, for example 120-NL-EMS."
      >
        <Link href="/deliveries">All deliveries</Link>
      </Empty>
    );
  }
  return (
    <Asked query={query} what={`the delivery ${id}`}>
      {(delivery) => <Shown delivery={delivery} reload={query.reload} />}
    </Asked>
  );
}

function Shown({ delivery, reload }: { delivery: DeliveryDetailView; reload: () => void }) {
  const { module, object, receiver, state } = delivery;
  return (
    <article class="stack delivery">
      <div class="page-head">
        <div class="row">
          <h1>
            {module} <span class="mono">{object}</span> to <span class="mono">{receiver}</span>
          </h1>
          <Badge state={state} />
        </div>
        <div class="row">
          <RedriveOne delivery={delivery} onDone={reload} />
          <DiscardOne delivery={delivery} onDone={reload} />
        </div>
      </div>
      {delivery.reason !== null && (
        <p class="finding bad">
          <b>{delivery.class}</b> {delivery.reason}
        </p>
      )}
      {state === 'PENDING' && <WhyItWaits delivery={delivery} />}
      <div class="delivery-columns">
        <div class="stack">
          <Facts delivery={delivery} />
          <Attempts delivery={delivery} />
        </div>
        <div class="stack">
          <ChangeShown delivery={delivery} />
          <RequestShown request={delivery.request} />
        </div>
      </div>
    </article>
  );
}

function Facts({ delivery }: { delivery: DeliveryDetailView }) {
  const { id, sender, receiver, module, object, method, seq, correlation_id, accepted_at } = delivery;
  return (
    <section class="card" aria-labelledby="facts">
      <header>
        <h2 id="facts">Delivery {id}</h2>
        <Link href={pathWith('/trace', { key: `${module}/${object}` })}>Trace the object</Link>
      </header>
      <dl class="facts inside">
        <dt>From</dt>
        <dd class="mono">{sender}</dd>
        <dt>To</dt>
        <dd class="mono">
          <Link href={pathWith('/deliveries', { receiver })}>{receiver}</Link>
        </dd>
        <dt>Accepted</dt>
        <dd>
          <Instant value={accepted_at} />, as event <Link href={pathWith('/events', { object })}>{seq}</Link>
        </dd>
        <dt>Sent as</dt>
        <dd>
          {method} {module}
        </dd>
        <dt>Request</dt>
        <dd class="mono">
          {correlation_id === null ? (
            <span class="quiet">none</span>
          ) : (
            <Link href={pathWith('/trace', { key: correlation_id })}>{correlation_id}</Link>
          )}
        </dd>
      </dl>
    </section>
  );
}

function Attempts({ delivery }: { delivery: DeliveryView }) {
  const { attempts, state, due_at } = delivery;
  return (
    <section class="card" aria-labelledby="attempts">
      <header>
        <h2 id="attempts">{many(attempts.length, 'attempt')}</h2>
        {state === 'PENDING' && due_at !== null && (
          <span>
            next <Instant value={due_at} />, <Until instantMs={Date.parse(due_at)} />
          </span>
        )}
      </header>
      {attempts.length === 0 ? (
        <p class="inside quiet">{untried[state]}</p>
      ) : (
        <ol class="attempts">
          {attempts.map((attempt) => (
            <AttemptShown key={attempt.at} attempt={attempt} />
          ))}
        </ol>
      )}
    </section>
  );
}

const untried: Readonly<Record<DeliveryView['state'], string>> = {
  PENDING: 'It has not been sent yet.',
  DELIVERED: 'It arrived. Of deliveries that arrived long ago the attempts are not kept.',
  DEAD: 'It was never sent.',
  DISCARDED: 'It was never sent.',
};

function AttemptShown({ attempt }: { attempt: Attempt }) {
  const { at, duration_ms, http_status, ocpi_status, class: outcome, excerpt, quirks = [] } = attempt;
  const isGood = outcome === 'delivered';
  return (
    <li class={isGood ? 'good' : 'bad'}>
      <p class="row">
        <b>
          <Instant value={at} />
        </b>
        <Badge state={outcome} tone={isGood ? 'good' : 'bad'} />
        <span class="quiet">{spanMs(duration_ms)}</span>
        <span>HTTP {http_status ?? '–'}</span>
        <span>OCPI {ocpi_status ?? '–'}</span>
      </p>
      {!isGood && <p class="quiet">{meaningOf(outcome)}</p>}
      {quirks.length > 0 && <p class="quiet">The hub made up for: {quirks.join(', ')}.</p>}
      {excerpt !== '' && <pre>{excerpt}</pre>}
    </li>
  );
}

/** The request, as text and as a curl command. The hub masks the token: this page never has it. */
function RequestShown({ request }: { request: DeliveryDetailView['request'] }) {
  const { method, url, headers, body } = request;
  const curl = curlOf(request);
  return (
    <section class="card" aria-labelledby="request">
      <header>
        <h2 id="request">What is sent</h2>
        {curl !== null && (
          <button type="button" onClick={() => void copy(curl)}>
            Copy as curl
          </button>
        )}
      </header>
      <div class="inside stack">
        {url === null ? (
          <p class="error">The receiver has no endpoint for this module at present: there is nowhere to send it to.</p>
        ) : (
          <p>
            <b>{method}</b> <code>{url}</code> <span class="quiet">(the receiver's address of now)</span>
          </p>
        )}
        <dl class="facts mono headers">
          {Object.entries(headers).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{name === changing ? <span class="quiet">another one at every attempt</span> : value}</dd>
            </div>
          ))}
        </dl>
        {body === null ? (
          <p class="quiet">It has no body.</p>
        ) : (
          <details open={body.length < openMax}>
            <summary>Body, {count(body.length)} characters</summary>
            <pre class="body">{laidOut(body)}</pre>
          </details>
        )}
      </div>
    </section>
  );
}

const openMax = 4_000;
const changing = 'X-Request-ID';

async function copy(curl: string): Promise<void> {
  const isCopied = await copyText(curl);
  if (isCopied) say('done', 'Copied. Put the token in place of ***.');
  else say('failed', 'This browser does not let the page copy.');
}

/** Why a pending delivery waits, derived from its receiver's partner: paused, circuit open, back-off, or its turn in the lane. */
function WhyItWaits({ delivery }: { delivery: DeliveryView }) {
  const { data } = useQuery<PartyView>(`/parties/${encodeURIComponent(delivery.receiver)}`, 5_000);
  return (
    <p class="finding wait" role="status">
      {reasonOf(delivery, data)}
      {data && <PartnerLink party={data} />}
    </p>
  );
}

function reasonOf({ receiver, module, due_at, attempts }: DeliveryView, party: PartyView | undefined) {
  const circuit = party?.circuits.find(({ circuit }) => circuit === module);
  if (party?.settings.paused) return `It waits: an operator has paused deliveries to ${receiver}. `;
  if (circuit?.state === 'open') {
    const { failures } = circuit;
    const why =
      failures > 0
        ? `${module} failed at ${receiver} ${count(failures)} times in a row, so their circuit is open`
        : `the circuit for ${module} of ${receiver} is open`;
    return (
      <>
        It waits: {why}
        {circuit.until !== null && (
          <>
            ; next try <Until instantMs={Date.parse(circuit.until)} />
          </>
        )}
        .{' '}
      </>
    );
  }
  if (due_at !== null) {
    return (
      <>
        Next try <Until instantMs={Date.parse(due_at)} />.{' '}
      </>
    );
  }
  if (attempts.length === 0) return 'It waits for its turn: what went before it for the same object goes first. ';
  return 'It waits for its turn. ';
}

function PartnerLink({ party: { id, queue } }: { party: PartyView }) {
  const oldest = queue.oldest_age_s === null ? '' : `, the oldest for ${span(queue.oldest_age_s)}`;
  return (
    <Link href={`/partners/${encodeURIComponent(id)}`}>
      {count(queue.depth)} {queue.depth === 1 ? 'waits' : 'wait'} for {id}
      {oldest}
    </Link>
  );
}
