/**
 * What a notification looks like to its receivers: a JSON body for webhooks, a text for mail.
 */
import type { Mail } from '../ports/ports.ts';
import type { Owed } from './outlet.ts';

const linkTo = (consoleUrl: string, page: string): string => `${consoleUrl}/console${page}`;

/** In the form that Standard Webhooks advises. */
export function webhookBody({ at, notice }: Owed, consoleUrl: string): string {
  const { type, subject, parties, what, since, page } = notice;
  const data = { party: parties[0] ?? null, parties, subject, what, since, link: linkTo(consoleUrl, page) };
  return JSON.stringify({ type, timestamp: at, data });
}

/** One mail for all; `name` is that of the hub. */
export function mailOf(batch: readonly Owed[], name: string, consoleUrl: string): Mail {
  const [first] = batch;
  const subject = batch.length === 1 && first ? first.notice.what : `${batch.length} notifications`;
  const blocks = batch.map(({ at, notice: { type, what, since, page } }) =>
    [what, `  ${type}, since ${since}, sent at ${at}`, `  ${linkTo(consoleUrl, page)}`].join('\n'),
  );
  return { subject: `[${name}] ${subject}`, text: `${blocks.join('\n\n')}\n` };
}
