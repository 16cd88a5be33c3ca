/**
 * Watches the conditions of which operators are notified, and records when each begins and ends.
 *
 * NOTIFY-WATCH-1  A condition that began is recorded once, with its row: a restart neither repeats nor forgets it.
 * NOTIFY-WATCH-2  Without a receiver nothing is looked for, and what the last one was notified of is forgotten. The first receiver
 *     is sent every condition that is true then.
 * NOTIFY-WATCH-3  A condition that lasts less than `lookMs` may be missed, unless an event of `waking` shows it.
 */
import type { Put, StoredEvent } from '../../../storage/contract.ts';
import { begun, type Condition, ended, type Notice, nameOf } from '../../domain/notification.ts';
import type { Context } from '../kernel/context.ts';
import type { Fact } from '../kernel/recorder.ts';
import { unlisted } from '../kernel/row-codecs.ts';
import type { Telling } from '../ports/ports.ts';
import { conditions, isEndNotified, isOver, type Seen } from './conditions.ts';

/** The stream of all notifications: what each receiver is owed is read from it. */
export const stream = 'notifications';
const kind = 'conditions';
const timer = 'notifications';
/** Interval of looks, ms, and the least pause between two: a burst of events makes one look. */
const lookMs = 30_000;
const pauseMs = 1_000;
/** Facts of one write. */
const atOnce = 100;

/** Events after which a condition may have begun or ended. */
const waking: ReadonlySet<string> = new Set([
  'partner.offline',
  'partner.online',
  'partner.hostChangeAsked',
  'partner.hostChanged',
  'delivery.dead',
  'orphan.opened',
]);

export function conditionPut(notice: Notice, isOver: boolean): Put {
  const key = { kind, owner: notice.kind, id: notice.subject };
  return isOver ? { ...key, gone: true } : unlisted(key, notice);
}

export interface WatchParts extends Pick<Seen, 'dispatcher' | 'orphans'> {
  readonly context: Context;
  readonly telling: Telling;
  /** Whether there is anybody to notify. */
  readonly hasReceivers: () => boolean;
  /** Something new is owed. */
  readonly recorded: () => void;
}

export class Watch {
  readonly #parts: WatchParts;
  /** Those that were notified and hold, by name. */
  readonly #open = new Map<string, Condition>();
  #lookedAt = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | null = null;
  #isOn = false;

  constructor(parts: WatchParts) {
    this.#parts = parts;
  }

  async begin(): Promise<void> {
    for await (const { data } of this.#parts.context.store.scan(kind)) {
      this.#open.set(nameOf(data as Notice), data as Notice);
    }
    this.#isOn = true;
    // The mail, which the settings may have no more, was the last receiver.
    if (!this.#parts.hasReceivers()) await this.forget();
    this.look();
  }

  /** An event was committed. */
  follow({ type }: StoredEvent): void {
    if (waking.has(type)) this.look();
  }

  /** Looks as soon as `pauseMs` after the last look, and again every `lookMs`. */
  look(): void {
    const { context, hasReceivers } = this.#parts;
    if (!this.#isOn || !hasReceivers()) return;
    const { clock } = context.ports;
    this.#arm(Math.max(clock.now(), this.#lookedAt + pauseMs));
  }

  /** The last receiver has gone: forgets what it was notified of. [NOTIFY-WATCH-2] */
  async forget(): Promise<void> {
    const { log, secrets } = this.#parts.context.ports;
    await this.#after(async () => {
      try {
        await this.#recordAll([...this.#open.values()].map((one) => ended(one, secrets.newId(), false)));
      } catch (error) {
        log.error({ err: error }, 'could not forget the notified conditions: operators are not notified of them again');
      }
    });
  }

  async close(): Promise<void> {
    this.#isOn = false;
    this.#parts.context.timers.disarm(timer);
    await this.#looking;
  }

  #arm(at: number): void {
    const { context } = this.#parts;
    context.timers.arm(timer, at, () => {
      // A look that is under way may have read too early: the next one follows it.
      void this.#after(() => this.#lookNow());
    });
  }

  /** `work` never rejects. */
  #after(work: () => Promise<void>): Promise<void> {
    this.#looking = (this.#looking ?? Promise.resolve()).then(work);
    return this.#looking;
  }

  async #lookNow(): Promise<void> {
    const { context, hasReceivers } = this.#parts;
    const { clock, log } = context.ports;
    if (!this.#isOn || !hasReceivers()) return;
    this.#lookedAt = clock.now();
    this.#arm(this.#lookedAt + lookMs);
    try {
      await this.#compare();
    } catch (error) {
      log.error({ err: error }, `could not record notifications of operators; looking again within ${lookMs / 1000} s`);
    }
  }

  async #compare(): Promise<void> {
    const { context, dispatcher, orphans, telling } = this.#parts;
    const disk = await telling.disk();
    const diskPercent = disk === null || disk.size === 0 ? null : (100 * disk.free) / disk.size;
    const seen = { context, dispatcher, orphans, diskPercent, now: context.ports.clock.now() };
    const holding = new Map([...conditions(seen)].map((one) => [nameOf(one), one]));
    const { newId } = context.ports.secrets;
    const over = [...this.#open].filter(([name, before]) => !holding.has(name) && isOver(before, seen));
    const fresh = [...holding].filter(([name]) => !this.#open.has(name));
    const changes = [
      ...over.map(([, one]) => ended(one, newId(), isEndNotified(one, seen))),
      ...fresh.map(([, one]) => begun(one, newId())),
    ];
    await this.#recordAll(changes);
  }

  async #recordAll(changes: readonly Notice[]): Promise<void> {
    for (let from = 0; from < changes.length; from += atOnce) await this.#record(changes.slice(from, from + atOnce));
  }

  /** [NOTIFY-WATCH-1] */
  async #record(changes: readonly Notice[]): Promise<void> {
    const { context, recorded } = this.#parts;
    const { recorder, ports } = context;
    const isEnd = (notice: Notice) => this.#open.has(nameOf(notice));
    const facts = changes.map((data): Fact => {
      const type = isEnd(data) ? ('notification.ended' as const) : ('notification.raised' as const);
      return { stream, event: { type, data }, party: null };
    });
    const puts = changes.map((data) => conditionPut(data, isEnd(data)));
    await recorder.record({ facts, puts, trace: null });
    for (const notice of changes) {
      const { type, kind: of, subject, what } = notice;
      if (this.#open.delete(nameOf(notice))) {
        ports.log.info({ kind: of, subject, type }, 'a notified condition has ended');
        continue;
      }
      this.#open.set(nameOf(notice), notice);
      if (type !== null) ports.log.warn({ kind: of, subject, what }, 'operators notified');
    }
    recorded();
  }
}
