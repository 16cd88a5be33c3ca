/**
 * Sums up a trace in a sentence: which receivers got it, or why none did.
 */
import type { TraceStep } from '../../../api/trace.ts';
import { count, span } from '../data/format.ts';

export interface Summary {
  readonly tone: 'good' | 'wait' | 'bad' | 'info';
  readonly sentence: string;
}

export function sumUp(steps: readonly TraceStep[]): Summary {
  const deliveries = steps.flatMap((step) => step.deliveries);
  const last = steps.at(-1);
  const lastRefusal = steps.findLast(({ not_forwarded }) => not_forwarded !== null);
  const length = `${count(steps.length)} ${steps.length === 1 ? 'step' : 'steps'}${over(steps)}.`;
  if (deliveries.length === 0) {
    if (lastRefusal) return { tone: 'bad', sentence: `It went nowhere: ${lastRefusal.not_forwarded}.` };
    return { tone: 'info', sentence: `${length} There was nothing to forward.` };
  }
  const many = (state: string) => deliveries.filter((delivery) => delivery.state === state).length;
  const [dead, pending, delivered] = [many('DEAD'), many('PENDING'), many('DELIVERED')];
  const receivers = [...new Set(deliveries.map(({ receiver }) => receiver))];
  const parts = [
    delivered > 0 && `${count(delivered)} delivered`,
    pending > 0 && `${count(pending)} on the way`,
    dead > 0 && `${count(dead)} dead`,
  ].filter(Boolean);
  const late = last?.not_forwarded ? ` The last change went nowhere: ${last.not_forwarded}.` : '';
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
