/** Sums up a trace in a sentence: which receivers got it, or why none did, and what is still open. */
import type { TraceStep } from '../../../api/trace.ts';
import { count, many, span } from '../data/format.ts';

export interface Summary {
  readonly tone: 'good' | 'wait' | 'bad' | 'info';
  readonly sentence: string;
}

export function sumUp(steps: readonly TraceStep[]): Summary {
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

function forwarded(steps: readonly TraceStep[]): Summary {
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
