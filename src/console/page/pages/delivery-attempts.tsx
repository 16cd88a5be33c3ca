/** Timeline of a delivery's attempts, and when the next one is due. */
import type { Attempt, DeliveryView } from '../../../api/deliveries.ts';
import { many, spanMs } from '../data/format.ts';
import { Badge } from '../parts/badge.tsx';
import { Instant, Until } from '../parts/time.tsx';
import { meaningOf } from './deliveries-words.ts';

export function Attempts({ delivery }: { delivery: DeliveryView }) {
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
