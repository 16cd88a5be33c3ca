/** A trace as a timeline across partners: who sent what, what the hub decided, who received it and how that ended. */
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { DeliveryView } from '../../../api/deliveries.ts';
import type { TraceStep, TraceView } from '../../../api/trace.ts';
import { pathWith } from '../data/api.ts';
import { count, many, spanMs } from '../data/format.ts';
import { Badge } from '../parts/badge.tsx';
import { Empty } from '../parts/states.tsx';
import { Instant, Until } from '../parts/time.tsx';
import { sumUp } from './trace-summary.ts';

/** Steps shown at first, the newest; a button shows the rest. */
const shownMax = 150;

/** `module`: of the objects with the story's key, only that of this module; what belongs to it stays. */
export function Story({ story, module }: { story: TraceView; module: string | null }) {
  const [isWhole, setWhole] = useState(false);
  const isOther = (step: TraceStep) => step.object === story.key && step.module !== module;
  const steps = module === null ? story.steps : story.steps.filter((step) => !isOther(step));
  if (steps.length === 0) {
    return (
      <Empty
        title={`Nothing is known of ${module} ${story.key}`}
        hint="Of other modules there is something by this key:"
      >
        <Link href={pathWith('/trace', { key: story.key })}>{story.key} in every module</Link>
      </Empty>
    );
  }
  const hidden = isWhole ? 0 : Math.max(0, steps.length - shownMax);
  return (
    <>
      <Summary steps={steps} />
      <section class="card" aria-labelledby="story">
        <header>
          <h2 id="story" class="mono">
            {module !== null && `${module} `}
            {story.key}
          </h2>
          <span class="quiet">
            {story.has_older && 'the newest '}
            {many(steps.length, 'step')}, oldest first
          </span>
        </header>
        {hidden > 0 && (
          <p class="inside">
            <button type="button" onClick={() => setWhole(true)}>
              Show the {many(hidden, 'step')} before
            </button>
          </p>
        )}
        <ol class="story">
          {steps.slice(hidden).map((step, index) => (
            <Step key={step.seq} step={step} before={steps[hidden + index - 1]} kind={story.kind} />
          ))}
        </ol>
      </section>
    </>
  );
}

function Summary({ steps }: { steps: readonly TraceStep[] }) {
  const { tone, sentence } = sumUp(steps);
  return (
    <p class={`finding ${tone}`} role="status">
      {sentence}
    </p>
  );
}

interface StepProps {
  readonly step: TraceStep;
  readonly before: TraceStep | undefined;
  readonly kind: TraceView['kind'];
}

function Step({ step, before, kind }: StepProps) {
  const { seq, at, type, party, module, object, correlation_id, summary, not_forwarded } = step;
  const { warnings, quirks, deliveries } = step;
  const sincePrevious = before ? Date.parse(at) - Date.parse(before.at) : 0;
  return (
    <li data-row>
      <div class="step-time">
        <Instant value={at} />
        {before && <span class="quiet">+{spanMs(Math.max(0, sincePrevious))}</span>}
      </div>
      <div class="step">
        <p class="row">
          <span class="chip">{type}</span>
          {party !== null && <b class="mono">{party}</b>}
          <span class="quiet">
            event {seq}
            {correlation_id !== null && kind === 'object' && (
              <>
                {' · '}
                <Link href={pathWith('/trace', { key: correlation_id })}>its request</Link>
              </>
            )}
            {object !== null && kind === 'correlation' && (
              <>
                {' · '}
                <Link href={pathWith('/trace', { key: module === null ? object : `${module}/${object}` })}>
                  its object
                </Link>
              </>
            )}
          </span>
        </p>
        <p class="said">{summary}</p>
        {not_forwarded !== null && (
          <p class="finding bad">
            <b>Not forwarded:</b> {not_forwarded}.
          </p>
        )}
        {warnings.map((warning) => (
          <p key={warning} class="finding wait">
            <b>Noted:</b> {warning}
          </p>
        ))}
        {quirks.map(({ quirk, parties, says }) => (
          <p key={quirk} class="finding wait">
            <b>Quirk</b> of {parties.join(', ')}: <span class="mono">{quirk}</span>
            {says !== '' && `, ${says}`}
          </p>
        ))}
        {deliveries.length > 0 && (
          <ul class="sent" aria-label="Deliveries">
            {deliveries.map((delivery) => (
              <Sent key={delivery.id} delivery={delivery} />
            ))}
          </ul>
        )}
      </div>
    </li>
  );
}

const notTried = (state: DeliveryView['state']) => (state === 'PENDING' ? 'not tried yet' : 'never sent');

function Sent({ delivery }: { delivery: DeliveryView }) {
  const { id, receiver, state, attempts, reason, due_at } = delivery;
  const last = attempts.at(-1);
  const quirks = [...new Set(attempts.flatMap((attempt) => attempt.quirks ?? []))];
  return (
    <li>
      <span class="arrow" aria-hidden="true">
        →
      </span>
      <Link class="mono" href={`/deliveries/${encodeURIComponent(id)}`} aria-label={`${receiver}, delivery ${id}`}>
        {receiver}
      </Link>
      <Badge state={state} />
      <span class="quiet">
        {attempts.length > 1 && `${count(attempts.length)} attempts; `}
        {last ? (
          <>
            <Instant value={last.at} />, {last.class} in {spanMs(last.duration_ms)}
          </>
        ) : (
          notTried(state)
        )}
        {state === 'PENDING' && due_at !== null && (
          <>
            , next <Until instantMs={Date.parse(due_at)} />
          </>
        )}
        {reason !== null && <span class="reason">: {reason}</span>}
        {quirks.length > 0 && `; ${quirks.length === 1 ? 'quirk' : 'quirks'}: ${quirks.join(', ')}`}
      </span>
    </li>
  );
}
