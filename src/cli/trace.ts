/**
 * `ocpi-hub trace`: prints the timeline of an object or a request: what happened when, who is owed a delivery, every
 * attempt, and why nothing was forwarded.
 */
import type { Command } from 'commander';
import type { Attempt, DeliveryView } from '../api/deliveries.ts';
import type { TraceStep, TraceView } from '../api/trace.ts';
import { Failure } from './client.ts';
import { type Colour, type Page, plain, when } from './table.ts';
import { verb } from './verb.ts';

export function command(): Command {
  return verb({
    usage: 'trace <key>',
    summary: 'tell the story of an object ({cc}-{pid}/{id}) or of a correlation id',
    examples: ['trace NL-CPO/101', 'trace 0b8e3a52-6a0e-4c0e-9c53-0c9f9d8f6d11', 'trace NL-CPO/101 --json'],
    run: async ({ hub, screen }, [key = '']) => {
      const found = await hub.get<TraceView>(`/trace/${encodeURIComponent(key)}`).catch((error: unknown) => {
        throw error instanceof Failure && error.status === 404 ? unknown(key, error) : error;
      });
      screen.answer(found, story);
    },
  });
}

function unknown(key: string, refusal: Failure): Failure {
  const [, older] = /; (events up to \d+ are older than what is kept)$/.exec(refusal.message) ?? [];
  const why = older === undefined ? 'it never arrived here' : `it never arrived here, or too long ago: ${older}`;
  return new Failure(
    `nothing is known of "${plain(key)}": expected an object such as NL-CPO/101 or a correlation id as ocpi-hub events list has it; if it is right, ${why}`,
    { status: 404 },
  );
}

function story({ key, steps }: TraceView, page: Page): string[] {
  const count = steps.length === 1 ? '1 step' : `${steps.length} steps`;
  return [
    page.paint('bold', `${plain(key)}: ${count}, oldest first`),
    ...steps.flatMap((step) => ['', ...told(step, page)]),
  ];
}

function told(step: TraceStep, page: Page): string[] {
  const { paint, now } = page;
  const under = (text: string, colour: Colour | null = null) => `    ${paint(colour, text)}`;
  const { not_forwarded, warnings, correlation_id, deliveries } = step;
  return [
    `${paint('cyan', when(step.at, now) ?? '')}  ${paint('dim', `#${step.seq}`)}  ${paint('bold', step.type)}`,
    under(plain(step.summary)),
    ...(not_forwarded === null ? [] : [under(`not forwarded: ${plain(not_forwarded)}`, 'yellow')]),
    ...warnings.map((warning) => under(`warning: ${plain(warning)}`, 'yellow')),
    ...(correlation_id === null ? [] : [under(`correlation id ${correlation_id}`, 'dim')]),
    ...deliveries.flatMap((delivery) => owed(delivery, page).map((line) => `    ${line}`)),
  ];
}

const colours: Readonly<Record<DeliveryView['state'], Colour>> = { PENDING: 'yellow', DELIVERED: 'green', DEAD: 'red' };

function owed(delivery: DeliveryView, page: Page): string[] {
  const { receiver, state, id, attempts, reason, due_at } = delivery;
  const next = state === 'PENDING' && due_at !== null ? `, next attempt ${when(due_at, page.now)}` : '';
  const why = state === 'DEAD' && reason !== null ? `, ${plain(reason)}` : '';
  return [
    `→ ${receiver}  ${page.paint(colours[state], state)}${next}${why}  ${page.paint('dim', id)}`,
    ...attempts.map((attempt, index) => `    ${index + 1}. ${tried(attempt, page)}`),
  ];
}

function tried({ at, duration_ms, http_status, ocpi_status, class: kind, excerpt }: Attempt, { now }: Page): string {
  const statuses = [http_status && `HTTP ${http_status}`, ocpi_status && `OCPI ${ocpi_status}`].filter(Boolean);
  const answered = statuses.length > 0 ? ` ${statuses.join(', ')}` : '';
  return `${when(at, now)}  ${kind}${answered} after ${duration_ms} ms${excerpt === '' ? '' : `: ${plain(excerpt)}`}`;
}
