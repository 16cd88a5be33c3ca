/**
 * Reads a partner's own list (its SENDER endpoint) page by page; checks the schema and the owner of each object.
 *
 * SENDER-LISTS-1  Calls for lists do not count in the circuit breakers: a list that cannot be read opens no circuit
 *     that authorizations or deliveries need.
 * SENDER-LISTS-2  An object that does not belong to a CPO of the listing partner is refused. A refusal does not affect
 *     other objects.
 * SENDER-LISTS-3  `close` ends every wait for a page, also that of a list that is throttled; so does the signal of a list for
 *     its own.
 * SENDER-LISTS-4  Behind each page of a list with bounds the hub rests for `restShare` times as long as the page took, at most `restMsMax`,
 *     and `restsMsMax` behind all pages, before it reads on: its partner decides how much of the thread each page takes. A list of many
 *     pages is read in time nevertheless, however long the partner takes for each.
 */
import type { Seq } from '../../../storage/contract.ts';
import { type ErrorCode, HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import { modules, type ObjectModule } from '../../domain/modules.ts';
import { type Named, namedIn } from '../../domain/object.ts';
import { below, endpointOf, keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import { sleep } from '../../kit/clock.ts';
import type { AcceptPulled, Taken } from '../exchange/ingest.ts';
import type { Context } from '../kernel/context.ts';
import { tokenFor } from '../kernel/directory.ts';
import type { Caller } from '../ports/hub.ts';
import type { ListBounds, PartnerPage } from '../ports/ports.ts';

/** Refusals of the object alone: the others of the page are stored. */
const ofObject: ReadonlySet<ErrorCode> = new Set(['invalid', 'tooLarge']);

export interface ListOf {
  readonly partner: Partner;
  /** The CPO whose objects are looked for, where it is known: the request names it. */
  readonly cpo?: PartyId;
  readonly module: ObjectModule;
  /** Query parameters (`date_from`, `date_to`), percent-encoded; may be empty. */
  readonly query: string;
  readonly trace: Trace;
  readonly bounds?: ListBounds;
  /** Aborted, with the reason as a text, to end the reading. [SENDER-LISTS-3] */
  readonly end?: AbortSignal;
}

/** A page, with the head of the log before it was requested. */
export type ReadPage = PartnerPage & { readonly asOf: Seq };

export interface ListReading {
  /** Null after the last page. Never throws. */
  next(): Promise<ReadPage | null>;
}

/** An object that was not stored. */
export interface Refused {
  readonly result: 'refused';
  readonly reason: string;
}

const pageSize = 100;
/** A page of 2 MiB takes 50 ms of the thread. [SENDER-LISTS-4] */
const restShare = 3;
const restMsMax = 150;
/** `restShare` times what a whole list takes of the thread: 40 MiB take 1 s, 1,000 pages some seconds. Longer, it would not be read in time. */
const restsMsMax = 15_000;
const closing = 'the hub was shut down meanwhile';

/** Why a list may have more, after a last page with `unread` ones behind it. */
export const unreadPages = 'the list may go on behind the last page that was read';

export class SenderLists {
  readonly #context: Context;
  readonly #accept: AcceptPulled;
  /** One function for each wait for a page, which ends it. [SENDER-LISTS-3] */
  readonly #cuts = new Set<(reason: string) => void>();
  #closed = false;

  constructor(context: Context, accept: AcceptPulled) {
    this.#context = context;
    this.#accept = accept;
  }

  /** Why this partner's list cannot be requested at all; null when it can. */
  refusal(partner: Partner, module: ObjectModule): string | null {
    if (!partner.roles.some(({ role }) => role === 'CPO')) return `${partner.id} has no CPO`;
    if (partner.partnerToken === null) return `${partner.id} is not registered: there is nothing to call`;
    if (!endpointOf(partner, module, 'SENDER')) return `${partner.id} has no ${module} endpoint as SENDER`;
    return null;
  }

  /** Prepares a reading; the first `next` makes the first request. */
  read({ partner, cpo, module, query, trace, bounds, end: asked }: ListOf): ListReading {
    const { ports, settings } = this.#context;
    const cpos = partner.roles.filter((party) => party.role === 'CPO' && (!cpo || keyOf(party) === cpo));
    const endpoint = endpointOf(partner, module, 'SENDER')?.url ?? '';
    const end = new AbortController();
    const pages = ports.lists.pages({
      endpoint,
      url: below(endpoint, [], [query, `limit=${pageSize}`].filter(Boolean).join('&')),
      token: tokenFor(ports, partner),
      encoding: partner.settings.token_encoding,
      from: { country_code: settings.countryCode, party_id: settings.partyId },
      // Several CPOs of one partner share the list: a request that is about all of them names none.
      to: cpos.length === 1 && cpos[0] ? cpos[0] : null,
      correlationId: trace.correlationId,
      about: { partner: partner.id, module, object: null },
      end: end.signal,
      bounds,
    });
    let tookMs = 0;
    let restLeftMs = bounds ? restsMsMax : 0;
    return {
      next: async () => {
        const restMs = Math.min(restShare * tookMs, restMsMax, restLeftMs);
        restLeftMs -= restMs;
        if (restMs > 0) await sleep(ports.clock, restMs, asked);
        const asOf = this.#context.store.head();
        if (asked?.aborted) return { ...failed(String(asked.reason)), asOf };
        const begun = ports.clock.monotonic();
        const page = this.#closed ? failed(closing) : await this.#orCut(pages.next(), end, asked);
        tookMs = ports.clock.monotonic() - begun;
        return page && { ...page, asOf };
      },
    };
  }

  /** Stores an object of the list; a refusal is a value. Throws when the store cannot write. */
  async take(list: ListOf, text: string, { asOf }: ReadPage, forward: boolean): Promise<Taken | Refused> {
    const { partner, module, trace } = list;
    try {
      const whole = this.#context.ports.reader.read(module, text);
      const owner = keyOf(whole);
      const caller = cpoCaller(partner, owner, trace);
      if (!caller) return { result: 'refused', reason: `it belongs to ${owner}` };
      const { id, lastUpdated, facts, warnings, quirks } = whole;
      const method = modules[module].whole;
      const read = { lastUpdated, facts, body: text, warnings, quirks };
      const change = { module, method, owner, id, within: [], ...read } as const;
      return await this.#accept(caller, change, { asOf, forward });
    } catch (error) {
      if (error instanceof HubError && ofObject.has(error.code)) return { result: 'refused', reason: error.message };
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    for (const cut of this.#cuts) cut(closing);
  }

  async #orCut(
    next: Promise<IteratorResult<PartnerPage, void>>,
    end: AbortController,
    asked: AbortSignal | undefined,
  ): Promise<PartnerPage | null> {
    let cut = (_reason: string) => {};
    const ended = new Promise<PartnerPage>((resolve) => {
      cut = (reason) => {
        end.abort();
        resolve(failed(reason));
      };
    });
    const cutAsAsked = () => cut(String(asked?.reason));
    this.#cuts.add(cut);
    asked?.addEventListener('abort', cutAsAsked);
    try {
      return await Promise.race([next.then(({ value }) => value ?? null), ended]);
    } finally {
      this.#cuts.delete(cut);
      asked?.removeEventListener('abort', cutAsAsked);
    }
  }
}

const failed = (reason: string): PartnerPage => ({ kind: 'failed', reason });

/** The caller for a listed object: its owner, a CPO of this partner; null when the owner is no CPO of the partner. */
export function cpoCaller(partner: Partner, owner: PartyId, trace: Trace): Caller | null {
  const party = partner.roles.find((role) => role.role === 'CPO' && keyOf(role) === owner);
  return party ? { partner, party, id: owner, trace } : null;
}

/** Owner and id that an object states, even when the rest is invalid; null when they are missing or unusable. */
export const nameIn = (text: string): Named | null => namedIn(JSON.parse(text));
