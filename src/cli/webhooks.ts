/** `ocpi-hub webhooks`: who is notified of what needs operators, by webhook and by mail. */
import type { Command } from 'commander';
import type { WebhookDetail, WebhookRedrive, WebhookSet, WebhookTest, WebhookView } from '../api/webhooks.ts';
import { kindNames } from '../domain/notification.ts';
import { Failure } from './client.ts';
import { type Column, many, plain, when } from './table.ts';
import { noun, oneOf, repeated, verb } from './verb.ts';

const answered = ({ last }: Pick<WebhookView, 'last'>): string =>
  last === null ? '' : `${last.ok ? 'taken' : 'not taken'}: ${last.http_status ?? last.answer}`;

const columns: readonly Column<WebhookView>[] = [
  { title: 'id', of: ({ id }) => id },
  { title: 'url', of: ({ url }) => url, shrinksTo: 20 },
  { title: 'kinds', of: ({ kinds }) => kinds?.join(' ') ?? 'all', shrinksTo: 10 },
  { title: 'party', of: ({ party }) => party ?? 'all' },
  {
    title: 'active',
    of: ({ active }) => (active ? 'yes' : 'no'),
    colour: ({ active }) => (active ? 'green' : 'yellow'),
  },
  { title: 'owed', of: ({ owed }) => String(owed) },
  { title: 'dead', of: ({ dead }) => String(dead), colour: ({ dead }) => (dead > 0 ? 'red' : null) },
  { title: 'last', of: answered, colour: ({ last }) => (last?.ok === false ? 'red' : null) },
];

const pathOf = (id: string) => `/webhooks/${encodeURIComponent(id)}`;

const kind = oneOf(...kindNames);

interface SetFlags {
  readonly kind?: readonly string[];
  readonly party?: string;
  readonly secret?: string;
  readonly inactive?: boolean;
}

export function command(): Command {
  return noun('webhooks', 'who is notified of what needs operators, by webhook and by mail', [
    verb({
      usage: 'list',
      summary: 'list webhooks and the mail, with what each is owed and what it answered last',
      examples: ['webhooks', 'webhooks list --json'],
      run: async ({ hub, screen }) => {
        const none = 'No webhook. ocpi-hub webhooks set {id} {url} makes one; HUB_SMTP_URL sends mail.';
        screen.list(await hub.list<WebhookView>('/webhooks', {}, 1000), columns, none);
      },
    }),
    verb({
      usage: 'show <id>',
      summary: 'show one with its dead letters',
      examples: ['webhooks show on-call'],
      run: async ({ hub, screen }, [id = '']) => {
        screen.answer(await hub.get<WebhookDetail>(pathOf(id)), (one, { now }) => [
          `${one.id}: ${one.url}, ${one.active ? 'active' : 'not active'}, ${one.owed} owed, ${one.dead} dead`,
          ...(one.last ? [`last attempt ${when(one.last.at, now)}, ${plain(answered(one))}`] : []),
          ...(one.retry_at ? [`next attempt ${when(one.retry_at, now)}`] : []),
          ...one.dead_letters.map(({ at, type, what, answer }) => `  ${at}  ${type}  ${what}  (${plain(answer)})`),
        ]);
      },
    }),
    verb<SetFlags>({
      usage: 'set <id> <url>',
      summary: 'set a webhook; the hub makes its secret and prints it once',
      options: [
        [
          '--kind <kind>',
          'of this kind alone; may be given more than once (default: all)',
          (text, before) => repeated(kind(text), before),
        ],
        ['--party <party>', 'only what concerns this party'],
        ['--secret <secret>', 'a secret of your own: whsec_ and base64 of 24 to 64 bytes'],
        ['--inactive', 'keep what it is owed and send nothing'],
      ],
      examples: [
        'webhooks set on-call https://alerts.example.com/ocpi',
        'webhooks set on-call https://alerts.example.com/ocpi --kind partner.offline --kind partner.dead_letter',
      ],
      run: async (
        { hub, screen },
        [id = '', url = ''],
        { kind: kinds = null, party = null, secret, inactive = false },
      ) => {
        const asked = { url, kinds, party, active: !inactive, secret };
        screen.answer(await hub.send<WebhookSet>('PUT', pathOf(id), asked), (one) => [
          `${one.id} is set: ${one.url}`,
          ...(one.secret === undefined ? [] : [`its secret, which is not shown again: ${one.secret}`]),
          `ocpi-hub webhooks test ${one.id} tries it`,
        ]);
      },
    }),
    verb({
      usage: 'remove <id>',
      summary: 'remove a webhook and what it is owed',
      examples: ['webhooks remove on-call'],
      run: async ({ hub, screen }, [id = '']) => {
        screen.answer(await hub.send<object>('DELETE', pathOf(id)), () => [`${id} gets no more notifications`]);
      },
    }),
    verb({
      usage: 'test <id>',
      summary: 'send a test notification now and print what the receiver answered; exit code 1 when it did not take it',
      examples: ['webhooks test on-call', 'webhooks test mail'],
      run: async ({ hub, screen }, [id = '']) => {
        const tested = await hub.send<WebhookTest>('POST', `${pathOf(id)}/test`);
        const status = tested.http_status === null ? '' : `HTTP ${tested.http_status} `;
        screen.answer(tested, ({ ok, answer, duration_ms }) => [
          `${id} ${ok ? 'took' : 'did not take'} the test: ${status}${plain(answer)} (${duration_ms} ms)`,
        ]);
        if (!tested.ok) throw new Failure(`${id} did not take the test`);
      },
    }),
    verb({
      usage: 'redrive <id>',
      summary: 'owe the dead letters of a webhook again, and send all that waits for it now',
      examples: ['webhooks redrive on-call'],
      run: async ({ hub, screen }, [id = '']) => {
        const answer = await hub.send<WebhookRedrive>('POST', `${pathOf(id)}/redrive`);
        screen.answer(answer, (redriven) => [redriveWords(id, redriven)]);
      },
    }),
  ]);
}

function redriveWords(id: string, { queued, owed, active }: WebhookRedrive): string {
  const dead =
    queued === 0
      ? `${id} has no dead letter`
      : `${many(queued, `dead letter of ${id} is`, `dead letters of ${id} are`)} owed again`;
  if (owed === 0) return `${dead}, and nothing waits`;
  const waiting = many(owed, 'notification waits', 'notifications wait');
  if (!active) return `${dead}; ${waiting} until ocpi-hub webhooks set makes it active`;
  return `${dead}; ${waiting}: the hub sends them now, and what is not taken again within 10 minutes`;
}
