/** Page of the trace of an object or a request; the key is part of the address. */
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { TraceView } from '../../../api/trace.ts';
import { useAction } from '../data/action.ts';
import { call, pathWith } from '../data/api.ts';
import { useQuery } from '../data/query.ts';
import { isDeliveryId, traceKeyOf } from '../data/trace-key.ts';
import { Form, useFilters } from '../parts/fields.tsx';
import { Asked, Empty } from '../parts/states.tsx';
import { Story } from './trace-story.tsx';
import '../style/trace.css';

const refreshMs = 5_000;
/** A trace of more steps is not refreshed: it would cost the hub too much every 5 s. */
const freshMax = 500;
const untilLong = (story: TraceView | undefined) =>
  story !== undefined && (story.steps.length > freshMax || story.next_cursor !== null) ? 0 : refreshMs;

export function Trace() {
  const [{ key }, change] = useFilters(['key']);
  return (
    <div class="stack trace">
      <div class="page-head">
        <h1>Trace</h1>
        <Form
          class="trace-form"
          onSubmit={(form) => {
            const given = form.get('key');
            if (typeof given === 'string') change({ key: given.trim() });
          }}
        >
          <label>
            Object, command or correlation id
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
        </Form>
      </div>
      {key === '' ? <Begin /> : <Traced key={key} pasted={key} />}
    </div>
  );
}

function Begin() {
  return (
    <Empty
      title="What happened to it?"
      hint="Paste the id of an object, alone or as in NL-CPO/101 or sessions/NL-CPO/101, of a command or an EVSE, a contract id, the path of a request, or the X-Correlation-ID of one."
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

/** Mounted for each key: the story of another one is not shown as this one's. */
function Traced({ pasted }: { pasted: string }) {
  const { key, module } = traceKeyOf(pasted);
  const path = `/trace/${encodeURIComponent(key)}`;
  const query = useQuery<TraceView>(path, untilLong);
  const isKnown = query.data !== undefined;
  useEffect(() => {
    if (isKnown) remember(pasted);
  }, [isKnown, pasted]);
  if (query.error?.status === 404) return <Unknown traced={key} because={query.error.message} />;
  return (
    <Asked query={query} what={`the story of ${key}`}>
      {(story) =>
        story.kind === 'candidates' ? (
          <Candidates story={story} />
        ) : (
          <WithRest path={path} begun={story} module={module} />
        )
      }
    </Asked>
  );
}

function Candidates({ story: { asked, candidates } }: { story: TraceView }) {
  return (
    <Empty title={`Several objects answer to ${asked}`} hint="Which of them is it?">
      <ul class="recent">
        {candidates.map(({ module, key }) => (
          <li key={`${module}/${key}`} data-row>
            <Link class="mono" href={pathWith('/trace', { key: `${module}/${key}` })}>
              {key}
            </Link>{' '}
            <span class="quiet">{module}</span>
          </li>
        ))}
      </ul>
    </Empty>
  );
}

/** The story, and on request what a further search of the log finds of it. */
function WithRest({ path, begun, module }: { path: string; begun: TraceView; module: string | null }) {
  const [rest, setRest] = useState<Pick<TraceView, 'steps' | 'next_cursor'> | null>(null);
  const cursor = rest === null ? begun.next_cursor : rest.next_cursor;
  const { isRunning, run } = useAction(async () => {
    const found = await call<TraceView>('GET', `${path}?cursor=${cursor}`);
    setRest((before) => ({ steps: [...(before?.steps ?? []), ...found.steps], next_cursor: found.next_cursor }));
    return null;
  });
  const steps = [...begun.steps, ...(rest?.steps ?? [])].sort((a, b) => a.seq - b.seq);
  return (
    <>
      <Story story={{ ...begun, steps }} module={module} />
      {cursor !== null && (
        <footer class="more">
          <span class="quiet" role="status">
            The log was searched up to event {cursor}; more of its commands, authorizations and cases may be in the rest
          </span>
          <button type="button" disabled={isRunning} onClick={run}>
            Search further
          </button>
        </footer>
      )}
    </>
  );
}

/** `because`: what the hub says, also of what it did not search. */
function Unknown({ traced: key, because }: { traced: string; because: string }) {
  const isObject = key.includes('/');
  return (
    <Empty
      title={`${because.charAt(0).toUpperCase()}${because.slice(1)}`}
      hint={
        isObject
          ? 'The owner comes first: the CPO of a session, CDR, location or tariff, the eMSP of a token. Of the pushes that the hub refused, the last 200 of each partner are kept.'
          : 'A correlation id must be complete, in the case in which it was sent. An object needs its owner before it, as in NL-CPO/101.'
      }
    >
      <ul class="recent">
        {isDeliveryId(key) && (
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

// Keys that were traced before are kept in the `sessionStorage` of this tab.

const place = 'ocpi-hub.traced';
const recentMax = 8;

/** Newest first. */
const recentKeys = signal<readonly string[]>(kept());

function kept(): string[] {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(place) ?? '[]');
    return Array.isArray(found) ? found.filter((one) => typeof one === 'string') : [];
  } catch {
    return [];
  }
}

function remember(key: string): void {
  recentKeys.value = [key, ...recentKeys.value.filter((one) => one !== key)].slice(0, recentMax);
  sessionStorage.setItem(place, JSON.stringify(recentKeys.value));
}
