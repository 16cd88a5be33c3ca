/**
 * Page of the trace of an object or a request; the key is part of the address.
 */
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { TraceView } from '../../../api/trace.ts';
import { pathWith } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { recentKeys, remember } from '../data/recent-keys.ts';
import { type TraceKey, traceKeyOf } from '../data/trace-key.ts';
import { useFilters } from '../parts/fields.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { Story } from './trace-story.tsx';
import '../style/trace.css';

const refreshMs = 5_000;
/** A trace of more steps is not refreshed: it would cost the hub too much every 5 s. */
const freshMax = 500;

export function Trace() {
  const [{ key }, change] = useFilters(['key']);
  return (
    <div class="stack trace">
      <div class="page-head">
        <h1>Trace</h1>
        <form
          class="trace-form"
          onSubmit={(event) => {
            event.preventDefault();
            const given = new FormData(event.currentTarget).get('key');
            if (typeof given === 'string') change({ key: given.trim() });
          }}
        >
          <label>
            Object or correlation id
            <input
              key={key}
              name="key"
              type="search"
              defaultValue={key}
              placeholder="NL-CPO/101"
              spellcheck={false}
              autocomplete="off"
              required
              data-filter
            />
          </label>
          <button type="submit" class="main">
            Trace
          </button>
        </form>
      </div>
      {key === '' ? <Begin /> : <Traced pasted={key} />}
    </div>
  );
}

function Begin() {
  return (
    <Empty
      title="What happened to it?"
      hint="Paste the key of an object, as in NL-CPO/101 or sessions/NL-CPO/101, the path of a request, or the X-Correlation-ID of one."
    >
      <Recent />
    </Empty>
  );
}

function Recent() {
  if (recentKeys.value.length === 0) return null;
  return (
    <nav aria-label="Traced before">
      <p class="quiet">Traced before in this tab:</p>
      <ul class="recent">
        {recentKeys.value.map((key) => (
          <li key={key} data-row>
            <Link class="mono" href={pathWith('/trace', { key })}>
              {key}
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Traced({ pasted }: { pasted: string }) {
  const { key, module } = traceKeyOf(pasted);
  const [isLong, setLong] = useState(false);
  const query = useQuery<TraceView>(`/trace/${encodeURIComponent(key)}`, isLong ? 0 : refreshMs);
  const isKnown = query.data?.key === key;
  const steps = query.data?.steps.length ?? 0;
  useEffect(() => setLong(steps > freshMax), [steps]);
  useEffect(() => {
    if (isKnown) remember(pasted);
  }, [isKnown, pasted]);
  if (query.error?.status === 404) return <Unknown pasted={pasted} traced={{ key, module }} />;
  return (
    <Asked query={query} what={`the story of ${key}`}>
      {(story) => story.key === key && <Story story={story} module={module} />}
    </Asked>
  );
}

function Unknown({ pasted, traced: { key } }: { pasted: string; traced: TraceKey }) {
  const isObject = key.includes('/');
  const isDelivery = /^\d+-[A-Za-z]{2}-[A-Za-z0-9]{1,3}$/.test(key);
  return (
    <Empty
      title={`Nothing is known of ${pasted}`}
      hint={
        isObject
          ? 'The owner comes first: the CPO of a session, CDR, location or tariff, the eMSP of a token. What a partner sent and the hub refused is not kept; its log tells.'
          : 'A correlation id must be complete, in the case in which it was sent. An object needs its owner before it, as in NL-CPO/101.'
      }
    >
      <ul class="recent">
        {isDelivery && (
          <li>
            This looks like a delivery: <Link href={`/deliveries/${encodeURIComponent(key)}`}>open delivery {key}</Link>
          </li>
        )}
        {isObject && (
          <li>
            See what its owner sent: <Link href={pathWith('/events', { party: key.split('/', 1)[0] })}>its events</Link>
          </li>
        )}
        <li>
          See <Link href="/events">everything that arrives now</Link>
        </li>
      </ul>
      <Recent />
    </Empty>
  );
}
