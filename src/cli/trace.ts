/**
 * `ocpi-hub trace`: prints the timeline of an object, command, case or request: what happened when, who is owed a delivery, every
 * attempt, and why nothing was forwarded.
 */
import type { Command } from 'commander';
import type { Attempt, DeliveryView } from '../api/deliveries.ts';
import type { TraceStep, TraceView } from '../api/trace.ts';
import type { Colour } from '../kit/paint.ts';
import { Failure } from './client.ts';
import { stateColours } from './deliveries.ts';
import { many, type Page, plain, when } from './table.ts';
import { verb } from './verb.ts';

/** Each answer searches a bounded part of the log. */
const answersMax = 50;

export function command(): Command {
  return verb({
    usage: 'trace <key>',
    summary: 'show the history of an object ({cc}-{pid}/{id}, or its id alone), a command or a correlation id',
    examples: [
      'trace NL-CPO/101',
      'trace 101',
      'trace 0b8e3a52-6a0e-4c0e-9c53-0c9f9d8f6d11',
      'trace NL-CPO/101 --json',
    ],
    run: async ({ hub, screen }, [key = '']) => {
      const ask = (cursor: string | null) =>
        hub.get<TraceView>(`/trace/${encodeURIComponent(key)}${cursor === null ? '' : `?cursor=${cursor}`}`);
      const found = await ask(null).catch((error: unknown) => {
        throw error instanceof Failure && error.status === 404 ? unknown(key, error) : error;
      });
      const steps = [...found.steps];
      let { next_cursor } = found;
      for (let asked = 1; next_cursor !== null && asked < answersMax; asked += 1) {
        const further = await ask(next_cursor);
        steps.push(...further.steps);
        next_cursor = further.next_cursor;
      }
      steps.sort((a, b) => a.seq - b.seq);
      screen.answer({ ...found, steps, next_cursor }, found.kind === 'candidates' ? several : story);
    },
  });
}

function unknown(key: string, refusal: Failure): Failure {
  const [, older] = /; (events up to \d+ are older than what is kept)$/.exec(refusal.message) ?? [];
  const why = older === undefined ? 'it never arrived here' : `it never arrived here, or too long ago: ${older}`;
  return new Failure(
    `nothing is known of "${plain(key)}": expected an object such as NL-CPO/101 or 101, a command or a correlation id as ocpi-hub events list has it; if it is right, ${why}`,
    { status: 404 },
  );
}

function several({ asked, candidates }: TraceView, page: Page): string[] {
  return [
    page.paint('bold', `several objects answer to ${plain(asked)}; ask for one of them:`),
    ...candidates.map(({ module, key }) => `  ocpi-hub trace ${plain(key)}  ${page.paint('dim', module)}`),
  ];
}

function story({ asked, key, steps, has_older, next_cursor }: TraceView, page: Page): string[] {
  const count = `${has_older ? 'the newest ' : ''}${many(steps.length, 'step')}`;
  const meant = asked === key ? '' : `${plain(asked)} is `;
  return [
    page.paint('bold', `${meant}${plain(key)}: ${count}, oldest first`),
    ...steps.flatMap((step) => ['', ...linesOf(step, page)]),
    ...(next_cursor === null ? [] : ['', page.paint('yellow', `the log after event ${next_cursor} was not searched`)]),
  ];
}

function linesOf(step: TraceStep, page: Page): string[] {
  const { paint, now } = page;
  const under = (text: string, colour: Colour | null = null) => `    ${paint(colour, text)}`;
  const { not_forwarded, warnings, quirks, correlation_id, deliveries } = step;
  return [
    `${paint('cyan', when(step.at, now) ?? '')}  ${paint('dim', `#${step.seq}`)}  ${paint('bold', step.type)}`,
    under(plain(step.summary)),
    ...(not_forwarded === null ? [] : [under(`not forwarded: ${plain(not_forwarded)}`, 'yellow')]),
    ...warnings.map((warning) => under(`warning: ${plain(warning)}`, 'yellow')),
    ...quirks.map(({ quirk, parties, says }) => under(plain(quirkLine(quirk, parties, says)), 'yellow')),
    ...(correlation_id === null ? [] : [under(`correlation id ${correlation_id}`, 'dim')]),
    ...deliveries.flatMap((delivery) => owed(delivery, page).map((line) => `    ${line}`)),
  ];
}

const quirkLine = (quirk: string, parties: readonly string[], says: string) =>
  `quirk of ${parties.join(', ')}: ${quirk}${says === '' ? '' : `, ${says}`}`;

function owed(delivery: DeliveryView, page: Page): string[] {
  const { receiver, state, id, attempts, reason, due_at } = delivery;
  const next = state === 'PENDING' && due_at !== null ? `, next attempt ${when(due_at, page.now)}` : '';
  const why = (state === 'DEAD' || state === 'DISCARDED') && reason !== null ? `, ${plain(reason)}` : '';
  return [
    `→ ${receiver}  ${page.paint(stateColours[state], state)}${next}${why}  ${page.paint('dim', id)}`,
    ...attempts.map((attempt, index) => `    ${index + 1}. ${tried(attempt, page)}`),
  ];
}

function tried(attempt: Attempt, { now }: Page): string {
  const { at, duration_ms, http_status, ocpi_status, class: kind, excerpt, quirks = [] } = attempt;
  const statuses = [http_status && `HTTP ${http_status}`, ocpi_status && `OCPI ${ocpi_status}`].filter(Boolean);
  const answered = statuses.length > 0 ? ` ${statuses.join(', ')}` : '';
  const made = quirks.length === 0 ? '' : `, ${quirks.length === 1 ? 'quirk' : 'quirks'} ${quirks.join(', ')}`;
  return `${when(at, now)}  ${kind}${answered} after ${duration_ms} ms${made}${excerpt === '' ? '' : `: ${plain(excerpt)}`}`;
}
