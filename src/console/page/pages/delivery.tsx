/** Page of one delivery: its state and the reason, every attempt, the request, and what it changes for the receiver. */
import { useEffect, useState } from 'preact/hooks';
import { Link, useParams } from 'wouter-preact';
import type { DeliveryDetailView } from '../../../api/deliveries.ts';
import { pathWith } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { Badge } from '../parts/badge.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { Instant } from '../parts/time.tsx';
import { Attempts } from './delivery-attempts.tsx';
import { ChangeShown } from './delivery-change.tsx';
import { DiscardOne } from './delivery-discard.tsx';
import { RedriveOne } from './delivery-redrive.tsx';
import { RequestShown } from './delivery-request.tsx';
import { WhyItWaits } from './delivery-wait.tsx';
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
