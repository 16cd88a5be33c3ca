/** A trace as a timeline across partners: who sent what, what the hub decided, who received it and how that ended. */
import { useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import type { DeliveryView } from '../../../api/deliveries.ts';
import type { TraceStep, TraceView } from '../../../api/trace.ts';
import { pathWith } from '../data/api.ts';
import { count, many, span, spanMs } from '../data/format.ts';
import { Badge } from '../parts/badge.tsx';
import { Empty } from '../parts/states.tsx';
import { Instant, Until } from '../parts/time.tsx';

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

interface SummedUp {
  readonly tone: 'good' | 'wait' | 'bad' | 'info';
  readonly sentence: string;
}

/** In a sentence: which receivers got it, or why none did, and what is still open. */
function sumUp(steps: readonly TraceStep[]): SummedUp {
  const { tone, sentence } = forwarded(steps);
  const cases = unended(steps, 'orphan.opened', ({ type }) => type === 'orphan.resolved');
  const commands = unended(steps, 'command.requested', endsCommand);
  if (cases > 0)
    return { tone: 'bad', sentence: `${sentence} ${many(cases, 'orphan case is', 'orphan cases are')} open.` };
  if (commands === 0) return { tone, sentence };
  return {
    tone: tone === 'bad' ? 'bad' : 'wait',
    sentence: `${sentence} ${many(commands, 'command awaits its', 'commands await their')} result.`,
  };
}

/** How many began with an event of this type and have no step that ends them. */
function unended(steps: readonly TraceStep[], type: string, ends: (step: TraceStep) => boolean): number {
  const ended = new Set(steps.filter(ends).map(({ about }) => about));
  return steps.filter((step) => step.type === type && !ended.has(step.about)).length;
}

/** An answer other than ACCEPTED is followed by no result. */
const endsCommand = ({ type, summary }: TraceStep): boolean =>
  /^command\.(failed|relayed|relayFailed|silent)$/.test(type) ||
  (type === 'command.answered' && !summary.endsWith('ACCEPTED'));

function forwarded(steps: readonly TraceStep[]): SummedUp {
  const deliveries = steps.flatMap((step) => step.deliveries);
  const last = steps.at(-1);
  const lastRefusal = steps.findLast(({ not_forwarded }) => not_forwarded !== null);
  const length = `${many(steps.length, 'step')}${over(steps)}.`;
  if (deliveries.length === 0) {
    if (lastRefusal) return { tone: 'bad', sentence: `It was not forwarded: ${lastRefusal.not_forwarded}.` };
    return { tone: 'info', sentence: `${length} There was nothing to forward.` };
  }
  const inState = (state: string) => deliveries.filter((delivery) => delivery.state === state).length;
  const [dead, pending, delivered] = [inState('DEAD'), inState('PENDING'), inState('DELIVERED')];
  const discarded = inState('DISCARDED');
  const receivers = [...new Set(deliveries.map(({ receiver }) => receiver))];
  const parts = [
    delivered > 0 && `${count(delivered)} delivered`,
    pending > 0 && `${count(pending)} on the way`,
    dead > 0 && `${count(dead)} dead`,
    discarded > 0 && `${count(discarded)} discarded`,
  ].filter(Boolean);
  const late = last?.not_forwarded ? ` The last change was not forwarded: ${last.not_forwarded}.` : '';
  return {
    tone: dead > 0 || late !== '' ? 'bad' : pending > 0 ? 'wait' : 'good',
    sentence: `${length} To ${named(receivers)}: ${parts.join(', ')}.${late}`,
  };
}

function over(steps: readonly TraceStep[]): string {
  const [first, last] = [steps[0], steps.at(-1)];
  const seconds = first && last ? (Date.parse(last.at) - Date.parse(first.at)) / 1000 : 0;
  return seconds < 1 ? '' : ` over ${span(seconds)}`;
}

const namedMax = 4;

function named(receivers: readonly string[]): string {
  const more = receivers.length - namedMax;
  return receivers.slice(0, namedMax).join(', ') + (more > 0 ? ` and ${count(more)} more` : '');
}
