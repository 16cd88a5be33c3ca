/**
 * Sends stored objects whole to a receiver. A resync sends all present objects of a module that it is entitled to, and ends what
 * it should no longer have; a release sends sessions and CDRs that were stored but not forwarded before the receiver could be owed them. [D51, D63]
 *
 * RESENDS-1  A resend is serialized with pushes of the object, so it never sends an older state than the one sent
 *     before, and concurrent resends see each other.
 * RESENDS-2  A resend marks the object's row as forwarded: lists, `stored-not-forwarded` and the next PATCH rely on it.
 * RESENDS-3  A release writes page by page, oldest first, sessions before CDRs. After a kill another run finds the
 *     rest: the next start runs it after a first registration, the operator repeats it after a `PUT /routes`.
 * RESENDS-4  A receiver that registers again is released nothing until its routing rule is set again, unless it was pull
 *     only meanwhile. A suspended one is sent nothing more.
 * RESENDS-5  A resync ends at its receiver what was deleted or made private while nothing was owed to it: a DELETE of what it was
 *     sent, whatever its rules are now, and of a location `publish: false`. Once for each end. [D21, D62]
 * RESENDS-6  Digests of an erased person do not take the place of what a receiver has: an object with them is
 *     sent only to a receiver that has no version of it, and is about to get none.
 */
import type { Due, Position, Put, Seen } from '../../../storage/contract.ts';
import type { JobView } from '../../api/jobs.ts';
import { HubError } from '../../domain/errors.ts';
import type { Actor, ObjectEventData, Trace } from '../../domain/events.ts';
import { applyToObject } from '../../domain/fold.ts';
import { isOwned, modules, type ObjectModule, ownedModules, receivedBy } from '../../domain/modules.ts';
import { type HubObject, streamOf } from '../../domain/object.ts';
import { owningEmsp } from '../../domain/ownership.ts';
import { isRegistered, keyOf, type Partner, type PartyId } from '../../domain/party.ts';
import { hasPseudonym } from '../../domain/person.ts';
import { isJoined, isUnsubscribed } from '../../domain/routing.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { owedEnd, owedWhole } from '../exchange/owed-requests.ts';
import { type Context, newTrace } from '../kernel/context.ts';
import type { Fact } from '../kernel/recorder.ts';
import {
  endedKind,
  endedShelf,
  goneOf,
  objectFromRow,
  objectPut,
  ownedShelves,
  readEnded,
  readObject,
  unownedShelf,
} from '../kernel/row-codecs.ts';
import type { Jobs, StepResult } from './jobs.ts';
import { mayHave } from './redriven-as.ts';

/** Which unforwarded objects to release: those of some CPOs for one eMSP. */
interface ReleaseOptions {
  readonly receiver: PartyId;
  readonly cpos: readonly PartyId[];
  /** Who caused the release; absent for an operator. */
  readonly by?: Actor;
  readonly trace: Trace;
}

interface Sending {
  readonly fact: Fact;
  readonly puts: readonly Put[];
}

const readBatch = 500;
const resyncPerS = 500;
/** Limits of one page of a release, which is one write: objects, and characters of their bodies. */
const releaseBatch = 100;
const pageSize = 4 * 1024 * 1024;
const againMs = 60_000;
/** Prefix of the durable timer that exists until the release after a first registration has ended. */
export const releaseDue = 'release:';

export class Resends {
  readonly #context: Context;
  readonly #dispatcher: Pick<Dispatcher, 'standing'>;
  readonly #jobs: Jobs;
  readonly #releasing = new Map<PartyId, Promise<void>>();
  #closed = false;

  constructor(context: Context, dispatcher: Pick<Dispatcher, 'standing'>, jobs: Jobs) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    this.#jobs = jobs;
  }

  /** Starts a job that resends the present objects of a module to a partner's parties, each as its own event. */
  resync(partnerId: PartyId, module: ObjectModule, trace: Trace): Promise<JobView> {
    const { directory } = this.#context;
    const partner = directory.known(partnerId);
    if (partner.settings.pull_only)
      throw new HubError('conflict', { message: `${partner.id} is pull only: nothing is sent to it` });
    const mayReceive = isRegistered(partner) && receivedBy(partner.roles).includes(module);
    if (mayReceive && isUnsubscribed(directory, module, partner.id)) {
      const message = `${partner.id} has no RECEIVER endpoint for ${module}: it is not subscribed`;
      throw new HubError('conflict', { message });
    }
    const resend = (object: HubObject, receiver: PartyId) => this.#resend(object, receiver, trace);
    const objects = this.#entitled.bind(this);
    async function* steps() {
      for (const party of partner.roles) {
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
      if (!directory.isOwed(receiver)) return 'unregistered';
      seen.push(directory.seen);
      const sending = await this.#sending({ module, owner, key }, receiver, seen);
      if (!sending) return 'stale';
      const { fact, puts } = sending;
      await recorder.record({ facts: [fact], puts, seen, trace });
      return 'queued';
    });
  }

  /** Releases the objects of one CPO for one eMSP; resolves with their number. */
  releasePair(receiver: PartyId, cpo: PartyId, trace: Trace): Promise<number> {
    return this.#release({ receiver, cpos: [cpo], trace });
  }

  async #release(options: ReleaseOptions): Promise<number> {
    const { receiver, cpos } = options;
    const isWanted = (object: HubObject) =>
      object.reason !== null && cpos.includes(object.owner) && this.#isEntitled(receiver, object);
    let released = 0;
    for (const module of ownedModules) {
      // The receiver's own shelves have the objects that were stored while it was not registered.
      for await (const page of this.#pages(module, [unownedShelf, ...ownedShelves(receiver)], releaseBatch)) {
        if (this.#closed) throw new HubError('unavailable', { retryAfterS: 1 });
        if (!this.#context.directory.isOwed(receiver)) return released;
        released += await this.#sendKept(page.filter(isWanted), options);
      }
    }
    return released;
  }

  /**
   * The durable timer to write with the first registration of a partner, or the first since it was pull only, which makes
   * a restart go on with the release. Empty for a later registration, and when no rule routes anything to the partner.
   * [RESENDS-3, RESENDS-4]
   */
  dueAfter({ id, url, roles }: Partner): Due[] {
    const { directory, recorder } = this.#context;
    const isFirst = url === null;
    const isRouted = roles.some(
      (party) => party.role === 'EMSP' && directory.counterparts(keyOf(party), 'EMSP').length > 0,
    );
    return isFirst && isRouted ? [{ key: `${releaseDue}${id}`, at: recorder.instant() }] : [];
  }

  /** Releases to a partner that registered for the first time; retries every 60 s until it succeeds. [RESENDS-3] */
  registered(partnerId: PartyId, trace: Trace): void {
    if (this.#closed || this.#releasing.has(partnerId)) return;
    const { ports, timers } = this.#context;
    const releasing = this.#releaseAll(partnerId, trace)
      .catch((error: unknown) => {
        if (this.#closed) return;
        ports.log.error({ err: error, partyId: partnerId }, 'could not release sessions and CDRs; next try in 60 s');
        timers.arm(`${releaseDue}${partnerId}`, ports.clock.now() + againMs, () => this.registered(partnerId, trace));
      })
      .finally(() => this.#releasing.delete(partnerId));
    this.#releasing.set(partnerId, releasing);
  }

  /** Resumes the releases after first registrations that a restart cut off. */
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
    await recorder.record({ facts, due: [{ key, at: null }], trace });
    ports.log.info({ partyId: partnerId, released }, 'released sessions and CDRs to a new partner');
  }

  /** Sends a page in one write, so that the log has its objects in this order. */
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
      await recorder.record({ facts, puts, seen, trace });
      return sendings.length;
    };
    const [innermost = '', ...others] = streams.reverse();
    const last = () => recorder.inTurn(innermost, send);
    return others.reduce<() => Promise<number>>((inner, stream) => () => recorder.inTurn(stream, inner), last)();
  }

  /**
   * Call it serialized with pushes of the object. Null when, since the list was read, the object was deleted, hidden,
   * forwarded, given another owner or erased of a person, or the receiver has unregistered. [RESENDS-1, RESENDS-2, RESENDS-6]
   */
  async #sending(
    { module, owner, key }: Pick<HubObject, 'module' | 'owner' | 'key'>,
    receiver: PartyId,
    seen: Seen[],
    { onlyKept = false, by }: { readonly onlyKept?: boolean; readonly by?: Actor | undefined } = {},
  ): Promise<Sending | null> {
    const { directory, store } = this.#context;
    const object =
      (await readObject(store, module, owner, key, seen)) ?? (await readEnded(store, module, owner, key, seen));
    const party = directory.party(owner);
    if (!object || !party || !directory.isOwed(receiver) || (onlyKept && object.reason === null)) return null;
    const isEntitled = this.#isEntitled(receiver, object);
    const isToEnd = object.ended || isJoined(directory, module, owner, receiver);
    const stream = streamOf(module, owner, key);
    const isErased =
      hasPseudonym(object.body) && (await mayHave(this.#context, this.#dispatcher, { receiver, stream }));
    const whole = isEntitled && !isErased ? { owed: owedWhole(party, object), body: object.body } : null;
    const sent = whole ?? (isToEnd ? owedEnd(party, object, receiver) : null);
    if (!sent) return null;
    const { owed, body } = sent;
    const { id, lastUpdated, facts } = object;
    const viewer = isOwned(module) ? receiver : null;
    const plain = { module, method: owed.method, owner, id, within: [], lastUpdated, facts, viewer } as const;
    const data: ObjectEventData = { ...plain, owed, reason: null, warnings: [], ...(by && { by }) };
    const event = { type: 'object.resent' as const, data };
    const after = applyToObject(object, { ...event, body, to: [receiver] });
    const fact: Fact = { stream, event, party: null, to: [receiver], body };
    if (!after) return { fact, puts: [goneOf(object)] };
    const isNewTo = after.sent !== object.sent || after.outdated?.length !== object.outdated?.length;
    const isNews = object.reason !== null || !object.forwarded || isNewTo;
    return { fact, puts: isNews ? [objectPut(after)] : [] };
  }

  async *#entitled(receiver: PartyId, role: 'CPO' | 'EMSP', module: ObjectModule): AsyncIterable<HubObject> {
    if (modules[module].owner === role) return;
    const shelves = isOwned(module)
      ? [unownedShelf, ...ownedShelves(receiver)]
      : this.#context.directory.counterparts(receiver, role);
    for await (const page of this.#pages(module, shelves, readBatch)) {
      // A session or CDR stays on its eMSP's shelf when the routing rule ends, so the rule is checked here.
      for (const object of page) if (!isOwned(module) || this.#isEntitled(receiver, object)) yield object;
    }
    yield* this.#ended(receiver, module);
  }

  /** What a receiver was sent and not the end of. [RESENDS-5] */
  async *#ended(receiver: PartyId, module: ObjectModule): AsyncIterable<HubObject> {
    for await (const page of this.#pages(module, [endedShelf], readBatch))
      yield* page.filter(({ outdated }) => outdated?.includes(receiver));
    if (!modules[module].isDeletable) return;
    for await (const page of this.#pages(endedKind(module), [endedShelf], readBatch))
      yield* page.filter(({ sent }) => sent?.includes(receiver));
  }

  /**
   * Pages in order of `last_updated`. Pushes and releases move objects in the list meanwhile, so each page starts at
   * the position of the last object of the page before, not at an offset.
   */
  async *#pages(kind: string, shelves: readonly string[], limit: number): AsyncIterable<HubObject[]> {
    for (let after: Position | undefined; ; ) {
      const query = { kind, shelves, offset: 0, limit, size: pageSize, ...(after && { after }) };
      const { rows } = await this.#context.store.list(query);
      if (rows.length === 0) return;
      after = rows.at(-1);
      yield rows.map(objectFromRow);
    }
  }

  #isEntitled(receiver: PartyId, { module, owner, viewer, facts, ended }: HubObject): boolean {
    const { directory } = this.#context;
    const isTheirs = isOwned(module)
      ? (viewer ?? owningEmsp(directory, owner, facts).viewer) === receiver
      : !ended && facts.publish !== false;
    return isTheirs && isJoined(directory, module, owner, receiver);
  }
}
