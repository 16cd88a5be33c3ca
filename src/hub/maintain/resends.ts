/**
 * Sends a receiver stored objects as a whole: those of a module that it asks for anew, and the sessions and CDRs that were kept for it
 * until they were owed. [D51, D63]
 *
 * RESENDS-1  An object goes in turn with pushes of it, so what is sent is never older than what was sent before, and two who send it see each other.
 * RESENDS-2  The row says from then on that it was forwarded: lists, `stored-not-forwarded` and the next PATCH follow it.
 * RESENDS-3  A release writes page after page, oldest first, sessions before CDRs. One that a kill cuts off finds the rest when it runs again:
 *     after a first registration the next start does that by itself, after a `PUT /routes` the operator repeats it.
 * RESENDS-4  Nothing is sent to a receiver that registered again until its rule is set again, and nothing more once it is suspended.
 */
import type { Due, Position, Put, Seen } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { Actor, ObjectEventData } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import { type HubObject, type ObjectModule, streamOf } from '../../domain/object.ts';
import { isOwned, owningEmsp } from '../../domain/ownership.ts';
import { keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import type { Trace } from '../../domain/trace.ts';
import { owedWhole } from '../exchange/ingest.ts';
import { type Context, newTrace } from '../kernel/context.ts';
import type { Fact } from '../kernel/recorder.ts';
import { objectFromRow, objectPut, readObject, unownedShelf } from '../kernel/row-codecs.ts';
import type { JobView } from '../ports/operator.ts';
import type { Jobs, StepResult } from './jobs.ts';

/** What was kept of some CPOs for an eMSP. */
interface ReleaseOptions {
  readonly receiver: PartyId;
  readonly cpos: readonly PartyId[];
  /** Who caused it; absent when an operator did. */
  readonly by?: Actor;
  readonly trace: Trace;
}

interface Sending {
  readonly fact: Fact;
  readonly puts: readonly Put[];
}

const readBatch = 500;
const resyncPerS = 500;
/** A page of a release: so many objects, or so many characters, in one write. */
const releaseBatch = 100;
const pageSize = 4 * 1024 * 1024;
const againMs = 60_000;
/** Key of the timer that stands until the release of a first registration has ended. */
export const releaseDue = 'release:';

export class Resends {
  readonly #context: Context;
  readonly #jobs: Jobs;
  readonly #releasing = new Map<PartyId, Promise<void>>();
  #closed = false;

  constructor(context: Context, jobs: Jobs) {
    this.#context = context;
    this.#jobs = jobs;
  }

  /** The present objects of a module that a partner's parties are entitled to, each as an event of its own. */
  resync(partnerId: PartyId, module: ObjectModule, trace: Trace): Promise<JobView> {
    const partner = this.#context.directory.partner(partnerId.toUpperCase());
    if (!partner) throw new HubError('notFound');
    const resend = (object: HubObject, receiver: PartyId) => this.#resend(object, receiver, trace);
    const objects = this.#entitled.bind(this);
    async function* steps() {
      for (const party of partner?.roles ?? []) {
        const receiver = keyOf(party);
        for await (const object of objects(receiver, party.role, module)) yield () => resend(object, receiver);
      }
    }
    return this.#jobs.start({ kind: 'resync', receiver: partner.id, ratePerS: resyncPerS, steps: steps() }, trace);
  }

  /** One step of a resync. [RESENDS-1] */
  #resend({ module, owner, key }: HubObject, receiver: PartyId, trace: Trace): Promise<StepResult> {
    const { recorder, directory } = this.#context;
    return recorder.inTurn(streamOf(module, owner, key), async (seen) => {
      if (!directory.isRegistered(receiver)) return 'unregistered';
      seen.push(directory.seen);
      const sending = await this.#sending({ module, owner, key }, receiver, seen);
      if (!sending) return 'stale';
      const { fact, puts } = sending;
      await recorder.record({ facts: [fact], puts, seen, trace, at: recorder.instant() });
      return 'queued';
    });
  }

  /** Resolves with the number of objects that were kept for the pair and are owed now. */
  releasePair(receiver: PartyId, cpo: PartyId, trace: Trace): Promise<number> {
    return this.#release({ receiver, cpos: [cpo], trace });
  }

  async #release(options: ReleaseOptions): Promise<number> {
    const { receiver, cpos } = options;
    const isWanted = (object: HubObject) =>
      object.reason !== null && cpos.includes(object.owner) && this.#isEntitled(receiver, object);
    let released = 0;
    for (const module of ['sessions', 'cdrs'] as const) {
      // On its own shelf stands what was stored while it was not registered.
      for await (const page of this.#pages(module, [unownedShelf, receiver], releaseBatch)) {
        if (this.#closed) throw new HubError('unavailable', { retryAfterS: 1 });
        if (!this.#context.directory.isRegistered(receiver)) return released;
        released += await this.#sendKept(page.filter(isWanted), options);
      }
    }
    return released;
  }

  /** Before a first exchange: the timer that stands until all that was kept for the partner is owed to it. None when nothing can be. [RESENDS-3] */
  dueAfter({ id, url, roles }: Partner): Due[] {
    const { directory, recorder } = this.#context;
    const isFirst = url === null;
    const isRouted = roles.some(
      (party) => party.role === 'EMSP' && directory.counterparts(keyOf(party), 'EMSP').length > 0,
    );
    return isFirst && isRouted ? [{ key: `${releaseDue}${id}`, at: recorder.instant() }] : [];
  }

  /** A partner registered for the first time: what was kept for it follows by itself. [RESENDS-3] */
  registered(partnerId: PartyId, trace: Trace): void {
    if (this.#closed || this.#releasing.has(partnerId)) return;
    const { ports, timers } = this.#context;
    const releasing = this.#releaseAll(partnerId, trace)
      .catch((error: unknown) => {
        if (this.#closed) return;
        ports.log.error({ err: error, partyId: partnerId }, 'could not release what was kept; trying again');
        timers.arm(`${releaseDue}${partnerId}`, ports.clock.now() + againMs, () => this.registered(partnerId, trace));
      })
      .finally(() => this.#releasing.delete(partnerId));
    this.#releasing.set(partnerId, releasing);
  }

  /** Goes on with the releases of first registrations that were cut off. */
  recover(partnerIds: Iterable<PartyId>): void {
    for (const id of partnerIds) this.registered(id, newTrace(this.#context));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#releasing.values());
  }

  async #releaseAll(partnerId: PartyId, trace: Trace): Promise<void> {
    const { directory, recorder, ports } = this.#context;
    let released = 0;
    for (const party of directory.partner(partnerId)?.roles ?? []) {
      const receiver = keyOf(party);
      const cpos = party.role === 'EMSP' ? directory.counterparts(receiver, 'EMSP') : [];
      if (cpos.length > 0) released += await this.#release({ receiver, cpos, by: 'hub', trace });
    }
    const event = { type: 'release.ended' as const, data: { partner: partnerId, released } };
    const key = `${releaseDue}${partnerId}`;
    const facts = [{ stream: key, event, party: null }];
    await recorder.record({ facts, due: [{ key, at: null }], trace, at: recorder.instant() });
    ports.log.info({ partyId: partnerId, released }, 'what was kept for a new partner was released');
  }

  /** In one write, so that the log has them in this order. */
  #sendKept(kept: readonly HubObject[], { receiver, by, trace }: ReleaseOptions): Promise<number> {
    const { recorder, directory } = this.#context;
    const streams = kept.map(({ module, owner, key }) => streamOf(module, owner, key)).sort();
    const send = async (seen: Seen[]) => {
      const options = { onlyKept: true, by };
      seen.push(directory.seen);
      const found = await Promise.all(kept.map((object) => this.#sending(object, receiver, seen, options)));
      const sendings = found.filter((one) => one !== null);
      if (sendings.length === 0) return 0;
      const [facts, puts] = [sendings.map(({ fact }) => fact), sendings.flatMap((sending) => sending.puts)];
      await recorder.record({ facts, puts, seen, trace, at: recorder.instant() });
      return sendings.length;
    };
    const [innermost = '', ...others] = streams.reverse();
    const last = () => recorder.inTurn(innermost, send);
    return others.reduce<() => Promise<number>>((inner, stream) => () => recorder.inTurn(stream, inner), last)();
  }

  /**
   * In turn with pushes of the object. Null: it was deleted, hidden, or became another's since the list was read, or the receiver is
   * registered no more. [RESENDS-1, RESENDS-2]
   */
  async #sending(
    { module, owner, key }: Pick<HubObject, 'module' | 'owner' | 'key'>,
    receiver: PartyId,
    seen: Seen[],
    { onlyKept = false, by }: { readonly onlyKept?: boolean; readonly by?: Actor | undefined } = {},
  ): Promise<Sending | null> {
    const { directory, store } = this.#context;
    const object = await readObject(store, module, owner, key, seen);
    const party = directory.party(owner);
    if (!object || !party || !this.#isEntitled(receiver, object)) return null;
    if (!directory.isRegistered(receiver) || (onlyKept && object.reason === null)) return null;
    const { id, lastUpdated, facts, body } = object;
    const owed = owedWhole(party, object);
    const viewer = isOwned(module) ? receiver : null;
    const plain = { module, method: owed.method, owner, id, within: [], lastUpdated, facts, viewer } as const;
    const data: ObjectEventData = { ...plain, owed, reason: null, warnings: [], ...(by && { by }) };
    const after = applyToObject(object, data, body, [receiver]);
    const event = { type: 'object.resent' as const, data };
    const fact: Fact = { stream: streamOf(module, owner, key), event, party: null, to: [receiver], body };
    const isNews = object.reason !== null || !object.forwarded || after?.sent !== object.sent;
    return { fact, puts: after && isNews ? [objectPut(after)] : [] };
  }

  async *#entitled(receiver: PartyId, role: 'CPO' | 'EMSP', module: ObjectModule): AsyncIterable<HubObject> {
    if ((role === 'CPO') !== (module === 'tokens')) return;
    const shelves = isOwned(module) ? [receiver, unownedShelf] : this.#context.directory.counterparts(receiver, role);
    for await (const page of this.#pages(module, shelves, readBatch)) {
      // A session or CDR stands on its eMSP's shelf for good; it flows only as long as a rule lets it.
      for (const object of page) if (!isOwned(module) || this.#isEntitled(receiver, object)) yield object;
    }
  }

  /** In order of `last_updated`. What is pushed or released meanwhile moves in the list, and a page goes on from where the last one ended. */
  async *#pages(module: ObjectModule, shelves: readonly string[], limit: number): AsyncIterable<HubObject[]> {
    for (let after: Position | undefined; ; ) {
      const query = { kind: module, shelves, offset: 0, limit, size: pageSize, ...(after && { after }) };
      const { rows } = await this.#context.store.list(query);
      if (rows.length === 0) return;
      after = rows.at(-1);
      yield rows.map(objectFromRow);
    }
  }

  #isEntitled(receiver: PartyId, { module, owner, viewer, facts }: HubObject): boolean {
    const { directory } = this.#context;
    if (module === 'tokens') return directory.isRouted(owner, receiver);
    const isTheirs = isOwned(module)
      ? (viewer ?? owningEmsp(directory, owner, facts).viewer) === receiver
      : facts.publish !== false;
    return isTheirs && directory.isRouted(receiver, owner);
  }
}
