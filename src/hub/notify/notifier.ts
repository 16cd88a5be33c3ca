/**
 * Tells operators what needs them: keeps the webhooks, watches the conditions, and sends each receiver what it is owed.
 *
 * NOTIFIER-1  The secret of a webhook is stored sealed and shown once, when the hub made it; no answer, event or log line
 *     has it.
 * NOTIFIER-2  Only the hub that runs deliveries notifies anybody: of several nodes, the owner.
 * NOTIFIER-3  A webhook is owed what is recorded from its making on. One that was removed is owed nothing, also when
 *     another one gets its id.
 */
import type { Put, Seq, StoredEvent } from '../../../storage/contract.ts';
import type { WebhookDetail, WebhookRedrive, WebhookSet, WebhookTest, WebhookView } from '../../api/webhooks.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { instantText } from '../../domain/instant.ts';
import { isWanted, type Notice, sealedFor, type Webhook, type WebhookEvent } from '../../domain/notification.ts';
import type { Context } from '../kernel/context.ts';
import { rowData, unlisted } from '../kernel/row-codecs.ts';
import type { WebhookChoices, WebhookVerbs } from '../ports/operator.ts';
import type { Mail, Receipt, Telling } from '../ports/ports.ts';
import { Outlet, type Owed, type Recipient, type Standing } from './outlet.ts';
import { Watch, type WatchParts } from './watch.ts';

const kind = 'webhooks';
/** Limit of one call, ms. */
const timeoutMs = 10_000;
/** Webhooks of a hub at most: each is read for every notification. */
const webhooksMax = 100;
/** Notifications of one mail, and least time between two mails, ms. */
const mailMax = 100;
const mailGapMs = 60_000;
/** Id and queue of the mail. */
const mail = 'mail';

const streamOf = (id: string) => `webhook:${id}`;

export const webhookPut = (webhook: Webhook): Put => unlisted({ kind, owner: '', id: webhook.id }, webhook);

/** A secret of Standard Webhooks, of random bytes in base64url. */
const secretOf = (token: string): string => `whsec_${Buffer.from(token, 'base64url').toString('base64')}`;

interface Kept {
  /** Null: the mail. */
  readonly webhook: Webhook | null;
  readonly outlet: Outlet;
}

export class Notifier implements WebhookVerbs {
  readonly #context: Context;
  readonly #telling: Telling | undefined;
  readonly #watch: Watch | null;
  /** By id. */
  readonly #receivers = new Map<string, Kept>();

  constructor(context: Context, parts: Pick<WatchParts, 'dispatcher' | 'orphans'>) {
    const { telling } = context.ports;
    this.#context = context;
    this.#telling = telling;
    const hasReceivers = () => this.#receivers.size > 0;
    const recorded = () => this.#wake();
    this.#watch = telling ? new Watch({ context, telling, ...parts, hasReceivers, recorded }) : null;
  }

  /** Loads the receivers and begins; the hub is recovered. */
  async recover(): Promise<void> {
    const { store } = this.#context;
    if (!this.#watch) return;
    const floors = new Map((await store.floors()).map(({ dest, seq }) => [dest, seq]));
    for await (const row of store.scan(kind)) {
      const webhook = row.data as Webhook;
      this.#keep(webhook, await this.#floorOf(webhook.dest, floors.get(webhook.dest), row.seq));
    }
    if (this.#telling?.mail) {
      const outlet = new Outlet(
        this.#context,
        this.#mailRecipient(),
        await this.#floorOf(mail, floors.get(mail), store.head()),
      );
      this.#receivers.set(mail, { webhook: null, outlet });
    }
    await this.#reseal();
    await this.#watch.begin();
    this.#wake();
  }

  /** An event was committed. */
  follow(event: StoredEvent): void {
    this.#watch?.follow(event);
  }

  async close(): Promise<void> {
    await this.#watch?.close();
    await Promise.all([...this.#receivers.values()].map(({ outlet }) => outlet.close()));
  }

  async webhooks(): Promise<WebhookView[]> {
    return Promise.all([...this.#receivers.keys()].sort().map(async (id) => (await this.#read(id)).view));
  }

  /** Ids of the receivers that did not take the last attempt. */
  failing(): string[] {
    const isFailing = ({ webhook, outlet }: Kept) => webhook?.active !== false && outlet.last?.isTaken === false;
    return [...this.#receivers].flatMap(([id, kept]) => (isFailing(kept) ? [id] : [])).sort();
  }

  async webhook(id: string): Promise<WebhookDetail> {
    const { view, dead } = await this.#read(id);
    const dead_letters = dead.map(({ seq, at, notice: { type, what }, answer }) => {
      return { seq, at, type: type ?? '', what, answer };
    });
    return { ...view, dead_letters };
  }

  setWebhook(id: string, choices: WebhookChoices, trace: Trace): Promise<WebhookSet> {
    if (id === mail) throw new HubError('conflict', { message: 'mail is set by HUB_SMTP_URL and HUB_MAIL_TO' });
    const { ports, directory, recorder } = this.#context;
    const { url, secret, party, ...others } = choices;
    const refusal = ports.client.refusal(url);
    if (refusal !== null) throw new HubError('invalid', { message: `url: ${refusal}` });
    if (party !== null && !directory.partnerOf(party))
      throw new HubError('invalid', { message: `party: no partner has ${party}` });
    return recorder.inTurn(streamOf(id), async () => {
      const before = await rowData<Webhook>(this.#context.store, { kind, owner: '', id });
      if (!before && this.#receivers.size >= webhooksMax)
        throw new HubError('conflict', { message: `there are ${webhooksMax} webhooks already` });
      const made = secret === undefined && !before ? secretOf(ports.secrets.newToken()) : undefined;
      const plain = secret ?? made;
      const sealedSecret =
        plain === undefined ? (before?.sealedSecret ?? '') : ports.secrets.seal(plain, sealedFor(id));
      const { dest = `webhook:${ports.secrets.newId()}`, createdAt = recorder.instant() } = before ?? {};
      const webhook: Webhook = { id, url, party, ...others, sealedSecret, dest, createdAt };
      const seq = await this.#record(webhook, trace);
      // The secret exists in the answer alone, so nothing that fails from here on may cost it. A floor that is not stored
      // here is stored with the first step of the outlet, or at the next start.
      if (!before)
        await this.#floorOf(dest, undefined, seq).catch((error: unknown) =>
          ports.log.warn({ err: error, receiver: dest }, 'could not store where a new webhook begins'),
        );
      const outlet = this.#keep(webhook, seq);
      outlet.wakeNow();
      this.#watch?.look();
      if (before) return (await this.#read(id)).view;
      const view = this.#view({ webhook, outlet }, id, { owed: 0, dead: [] });
      return made === undefined ? view : { ...view, secret: made };
    });
  }

  async removeWebhook(id: string, trace: Trace): Promise<void> {
    if (id === mail) throw new HubError('conflict', { message: 'mail is set by HUB_SMTP_URL and HUB_MAIL_TO' });
    const { recorder, store } = this.#context;
    await recorder.inTurn(streamOf(id), async () => {
      if (!(await rowData<Webhook>(store, { kind, owner: '', id }))) return;
      const event: WebhookEvent = { type: 'webhook.removed', data: { id } };
      const facts = [{ stream: streamOf(id), event, party: null }];
      await recorder.record({ facts, puts: [{ kind, owner: '', id, gone: true }], trace });
      const kept = this.#receivers.get(id);
      this.#receivers.delete(id);
      await kept?.outlet.close();
      if (this.#receivers.size === 0) await this.#watch?.forget();
    });
  }

  async testWebhook(id: string): Promise<WebhookTest> {
    const { ports, recorder } = this.#context;
    const { outlet } = this.#kept(id);
    const begunAt = ports.clock.monotonic();
    const what = 'this is a test of the notifications of the hub';
    const at = recorder.instant();
    const place = { kind: 'disk.low', subject: 'hub', parties: [], since: at, page: '/' } as const;
    const notice: Notice = { ...place, id: ports.secrets.newId(), type: 'webhook.test', what };
    const { isTaken: ok, httpStatus: http_status, answer } = await outlet.recipient.tell([{ seq: 0, at, notice }]);
    return { ok, http_status, answer, duration_ms: Math.round(ports.clock.monotonic() - begunAt) };
  }

  async redriveWebhook(id: string): Promise<WebhookRedrive> {
    const { outlet } = this.#kept(id);
    return { ...(await outlet.redrive()), active: outlet.recipient.isActive };
  }

  #kept(id: string): Kept {
    const kept = this.#receivers.get(id);
    if (!kept) throw new HubError('notFound');
    return kept;
  }

  async #read(id: string) {
    const kept = this.#kept(id);
    const standing = await kept.outlet.standing();
    return { view: this.#view(kept, id, standing), dead: standing.dead };
  }

  #view({ webhook, outlet }: Kept, id: string, { owed, dead }: Standing): WebhookView {
    const { clock } = this.#context.ports;
    const { last, retryAt } = outlet;
    const { url, kinds, party, active, createdAt: created_at } = webhook ?? this.#mailView();
    return {
      id,
      url,
      kinds,
      party,
      active,
      created_at,
      owed,
      dead: dead.length,
      last: last && { at: last.at, ok: last.isTaken, http_status: last.httpStatus, answer: last.answer },
      retry_at: retryAt === null ? null : instantText(clock.stamp(retryAt)),
    };
  }

  #mailView() {
    const to = this.#telling?.mail?.to ?? [];
    return { url: `mailto:${to.join(',')}`, kinds: null, party: null, active: true, createdAt: null };
  }

  #wake(): void {
    for (const { outlet } of this.#receivers.values()) outlet.wake();
  }

  /** Keeps a webhook that was set; its outlet goes on where it was. */
  #keep(webhook: Webhook, floor: Seq): Outlet {
    const recipient = this.#recipientOf(webhook);
    const outlet = this.#receivers.get(webhook.id)?.outlet ?? new Outlet(this.#context, recipient, floor);
    outlet.recipient = recipient;
    this.#receivers.set(webhook.id, { webhook, outlet });
    return outlet;
  }

  #recipientOf(webhook: Webhook): Recipient {
    const { ports } = this.#context;
    return {
      dest: webhook.dest,
      isActive: webhook.active,
      batchMax: 1,
      gapMs: 0,
      isFor: (notice) => isWanted(webhook, notice),
      tell: ([one]) => this.#post(webhook, one, ports.secrets.open(webhook.sealedSecret, sealedFor(webhook.id))),
    };
  }

  async #post({ url }: Webhook, one: Owed | undefined, secret: string): Promise<Receipt> {
    if (!one || !this.#telling) return { isTaken: true, httpStatus: null, answer: '' };
    const body = webhookBody(one, this.#telling.consoleUrl());
    return this.#telling.post({ url, secret, id: one.notice.id, body, timeoutMs });
  }

  #mailRecipient(): Recipient {
    const { settings } = this.#context;
    return {
      dest: mail,
      isActive: true,
      batchMax: mailMax,
      gapMs: mailGapMs,
      isFor: (notice) => notice.type !== null,
      tell: async (batch) => {
        const sent = mailOf(batch, settings.name, this.#telling?.consoleUrl() ?? '');
        return (await this.#telling?.mail?.send(sent)) ?? { isTaken: true, httpStatus: null, answer: '' };
      },
    };
  }

  /** The floor of a receiver; one that has none begins at `fallback`, and that is stored. */
  async #floorOf(dest: string, known: Seq | undefined, fallback: Seq): Promise<Seq> {
    const { store } = this.#context;
    const fence = store.held();
    if (known !== undefined) return known;
    if (fence) await store.settle(fence, [], [{ dest, seq: fallback }]);
    return fallback;
  }

  #record(webhook: Webhook, trace: Trace | null): Promise<Seq> {
    const { recorder } = this.#context;
    const event: WebhookEvent = { type: 'webhook.set', data: webhook };
    const facts = [{ stream: streamOf(webhook.id), event, party: null }];
    return recorder.record({ facts, puts: [webhookPut(webhook)], trace });
  }

  /** Seals secrets again that are sealed under a previous key. */
  async #reseal(): Promise<void> {
    const { isStale, open, seal } = this.#context.ports.secrets;
    for (const { webhook } of [...this.#receivers.values()]) {
      if (!webhook || !isStale(webhook.sealedSecret, sealedFor(webhook.id))) continue;
      const secret = open(webhook.sealedSecret, sealedFor(webhook.id));
      const resealed = { ...webhook, sealedSecret: seal(secret, sealedFor(webhook.id)) };
      await this.#record(resealed, null);
      this.#keep(resealed, 0);
    }
  }
}

// What a notification looks like to its receivers: a JSON body for webhooks, a text for mail.

const linkTo = (consoleUrl: string, page: string): string => `${consoleUrl}/console${page}`;

/** In the form that Standard Webhooks advises. */
function webhookBody({ at, notice }: Owed, consoleUrl: string): string {
  const { type, subject, parties, what, since, page } = notice;
  const data = { party: parties[0] ?? null, parties, subject, what, since, link: linkTo(consoleUrl, page) };
  return JSON.stringify({ type, timestamp: at, data });
}

/** One mail for all; `name` is that of the hub. */
function mailOf(batch: readonly Owed[], name: string, consoleUrl: string): Mail {
  const [first] = batch;
  const subject = batch.length === 1 && first ? first.notice.what : `${batch.length} notifications`;
  const blocks = batch.map(({ at, notice: { type, what, since, page } }) =>
    [what, `  ${type}, since ${since}, sent at ${at}`, `  ${linkTo(consoleUrl, page)}`].join('\n'),
  );
  return { subject: `[${name}] ${subject}`, text: `${blocks.join('\n\n')}\n` };
}
