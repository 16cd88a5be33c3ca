/**
 * What stands in front of a hub that may be here or on another node: takes every request, and has it answered here where any node may, else
 * where the owner is.
 *
 * FRONT-1  It answers by itself what is asked of the node and not of the hub: whether it lives, whether it can serve, what it measures while no
 *     hub runs here, and what other nodes tell it.
 * FRONT-2  A request that is held has not been read, and is refused when it was held for `holdMs`.
 * FRONT-3  What nodes ask of each other is answered to nodes alone, and never passed on: it would get the secret of this one on its way.
 * FRONT-4  A node that is a door is ready, unless the owner lives and does not answer it for longer than a lease, or somebody else answers where
 *     the owner should: registrations would fail here, and elsewhere they do not.
 * FRONT-5  What was unread while this process paused and whose caller has gone since is not passed on: the owner would take it for new.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { sleep } from '../kit/clock.ts';
import { type IsStale, processPauses } from '../kit/stale.ts';
import { systemClock } from '../kit/system-clock.ts';
import { type Addresses, isAnother, notReadyYet, type Reached } from './addresses.ts';
import type { HubNode } from './node.ts';
import { peersPath, type Target } from './node-auth.ts';
import type { Passing } from './passing.ts';
import { pathOf, refuse, refuseUpgrade } from './refusal.ts';

interface From {
  readonly isHop: boolean;
  readonly isStale: IsStale;
}

const holdMs = 8000;
const heldMax = 2000;
const readyMs = 2000;
const idleMs = 10_000;
/** What every node answers by itself. [NODE-6] */
const atEveryNode = /^\/ocpi\/2\.2\.1\/(?:locations|tariffs|sessions|cdrs|tokens|hubclientinfo|commands)(?:[/?]|$)/;

export interface FrontParts {
  readonly node: HubNode;
  readonly passing: Passing | null;
  readonly addresses: Addresses;
  /** Whether a request came over a node. */
  readonly isHop: (request: IncomingMessage) => boolean;
  /** What every node answers of itself, by path, while no hub runs here to do it; each looks at the token by itself. */
  readonly own: Readonly<Record<string, (request: IncomingMessage, response: ServerResponse) => void>>;
  readonly look: () => Promise<void>;
  readonly leaseMs: number;
}

export class Front {
  readonly #parts: FrontParts;
  /** Requests that are held; each looks again for its place. */
  readonly #held = new Set<() => void>();
  /** Requests that the hub here answers, and such as were passed on. */
  readonly #answered = new UnderWay();
  readonly #passed = new UnderWay();
  readonly #pauses = processPauses(systemClock);
  #isLast = false;
  /** The owner that has not said whether it is ready, and since when; monotonic milliseconds. [FRONT-4] */
  #silent: { readonly id: string; readonly since: number } | null = null;

  constructor(parts: FrontParts) {
    this.#parts = parts;
    parts.node.onChanged(() => {
      for (const again of [...this.#held]) again();
    });
  }

  readonly handle = (request: IncomingMessage, response: ServerResponse): void => {
    const isHop = this.#parts.isHop(request);
    const path = pathOf(request);
    if (this.#isLast) response.setHeader('Connection', 'close');
    if (path === '/healthz') return say(response, 200, { status: 'alive' });
    if (path.startsWith(peersPath)) return this.#answerAmongNodes(isHop, path, request, response);
    if (path === '/readyz') return this.#answerReady(request, response, isHop);
    const own = this.#parts.own[path];
    const { serving } = this.#parts.node;
    if (own !== undefined) return serving === null ? own(request, response) : serving.handle(request, response);
    this.#settle(request, response, isHop);
  };

  readonly upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    const isHop = this.#parts.isHop(request);
    const path = pathOf(request);
    if (this.#isLast) return refuseUpgrade(request, socket);
    if (path.startsWith(peersPath)) return refuseUpgrade(request, socket);
    const place = this.#parts.node.place(isHop);
    if (place.kind === 'here') place.hub.upgrade(request, socket, head);
    else if (place.kind === 'peer') this.#parts.passing?.upgrade(request, socket, head, place.target);
    else refuseUpgrade(request, socket);
  };

  /** From now on every answer ends its connection: clients go elsewhere. */
  last(): void {
    this.#isLast = true;
  }

  /** Upgraded connections end. */
  close(): void {
    this.#pauses.close();
    this.#parts.passing?.endUpgrades();
  }

  /** Resolves when no request is answered by the hub here, or after a while. */
  idle(): Promise<void> {
    return this.#answered.ended();
  }

  /** The same of requests that were passed on. */
  landed(): Promise<void> {
    return this.#passed.ended();
  }

  #settle(request: IncomingMessage, response: ServerResponse, isHop: boolean): void {
    const from: From = { isHop, isStale: isHop ? () => false : this.#pauses.arrived(request.socket) };
    if (this.#sent(request, response, from)) return;
    if (this.#held.size >= heldMax) return refuse(request, response);
    const end = () => {
      this.#held.delete(again);
      systemClock.clearTimeout(timer);
    };
    const again = () => {
      if (this.#sent(request, response, from)) end();
    };
    const timer = systemClock.setTimeout(() => {
      end();
      refuse(request, response);
    }, holdMs);
    this.#held.add(again);
    response.once('close', end);
  }

  /** False while it has to wait. */
  #sent(request: IncomingMessage, response: ServerResponse, { isHop, isStale }: From): boolean {
    const place = this.#parts.node.place(isHop);
    const door = place.kind !== 'here' && atEveryNode.test(request.url ?? '') ? this.#parts.node.door : null;
    if (door !== null) {
      door.handle(request, response);
      return true;
    }
    if (place.kind === 'wait') return false;
    if (place.kind === 'here') {
      response.once('close', this.#answered.begin());
      place.hub.handle(request, response);
    } else if (place.kind === 'peer') {
      response.once('close', this.#passed.begin());
      void this.#pass(request, response, place.target, isStale);
    } else refuse(request, response);
    return true;
  }

  /** [FRONT-5] */
  async #pass(request: IncomingMessage, response: ServerResponse, target: Target, isStale: IsStale): Promise<void> {
    const found = isStale();
    // It is read in a later turn only when there is a reason.
    if (found !== false && (await found)) refuse(request, response);
    else this.#parts.passing?.pass(request, response, target);
  }

  /** [FRONT-3] */
  #answerAmongNodes(isHop: boolean, path: string, request: IncomingMessage, response: ServerResponse): void {
    const { serving } = this.#parts.node;
    if (isHop) this.#answerPeer(path.slice(peersPath.length), response);
    else if (serving !== null) serving.handle(request, response);
    else refuse(request, response);
  }

  #answerPeer(what: string, response: ServerResponse): void {
    const { node, addresses, look } = this.#parts;
    const [verb, of = ''] = what.split('/').map(decodeURIComponent);
    const told = () => say(response, 200, {});
    const seq = Number(of);
    if (verb === 'owns') return say(response, node.role === 'owner' ? 200 : 404, {});
    if (verb === 'is') return say(response, addresses.isAskedFor(of) ? 200 : isAnother, {});
    if (verb === 'self') return say(response, addresses.isThis(of) ? 200 : isAnother, {});
    if (verb === 'ready' && !addresses.isThis(of)) return say(response, isAnother, {});
    if (verb === 'ready') return say(response, node.role === 'owner' ? 200 : notReadyYet, {});
    if ((verb === 'head' || verb === 'directory') && !Number.isSafeInteger(seq)) return say(response, 400, {});
    if (verb === 'head') {
      node.follow(seq);
      return told();
    }
    if (verb === 'directory') return void node.directoryChanged(seq).then(told, told);
    const looked = look();
    if (verb === 'leaving') node.handsOver(of).then(told, told);
    else looked.then(told, told);
  }

  /** Whether a request that came now could be answered. */
  #answerReady(request: IncomingMessage, response: ServerResponse, isHop: boolean): void {
    const { node, passing, addresses } = this.#parts;
    const place = node.place(isHop);
    const notReady = () => {
      const { role } = node;
      say(response, 503, { status: 'not ready', role, reason: notReadyReasons[role] }, { 'retry-after': '1' });
    };
    if (node.role === 'leaving') return notReady();
    const ready = () => {
      const { role, warning } = node;
      say(response, 200, { status: 'ready', role, ...(warning !== null && { warning }) });
    };
    // What it can answer is better than nothing, and worse than what another owner does. [NODE-5]
    if (node.role === 'isolated') {
      return void node.neighbours.hasOwner(readyMs).then((isOther) => (isOther ? notReady() : ready()), notReady);
    }
    if (node.serving !== null) return node.serving.handle(request, response);
    if (place.kind !== 'peer' || passing === null) return node.door === null ? notReady() : ready();
    const { target } = place;
    addresses
      .isReady(target, readyMs)
      .then((found) => (found.isReady || this.#isDoor(target.id, found.by) ? ready() : notReady()), notReady);
  }

  /** [FRONT-4] */
  #isDoor(owner: string, by: Reached): boolean {
    const now = systemClock.monotonic();
    if (by === 'itself') this.#silent = null;
    else if (this.#silent?.id !== owner) this.#silent = { id: owner, since: now };
    const { node, leaseMs } = this.#parts;
    // One that was killed is nobody for a moment; where another one answers, nothing comes by waiting.
    const waitsMs = by === 'nobody' ? leaseMs : 0;
    const isSilent = this.#silent !== null && now - this.#silent.since >= waitsMs;
    return node.door !== null && !isSilent;
  }
}

/** Why a node of this role is not ready. */
const notReadyReasons: Readonly<Record<HubNode['role'], string>> = {
  owner: 'recovering',
  gaining: 'recovering',
  standby: 'no owner that is ready can be reached',
  isolated: 'the database cannot be reached, and another node is the owner',
  leaving: 'the node is leaving',
};

/** Requests that are under way. */
class UnderWay {
  #count = 0;
  #waiting: (() => void)[] = [];

  /** One begins; what it gives is to be called once, at its end. */
  begin(): () => void {
    this.#count += 1;
    return () => {
      this.#count -= 1;
      if (this.#count > 0) return;
      for (const wake of this.#waiting.splice(0)) wake();
    };
  }

  /** Resolves when there is none, or after a while. */
  async ended(): Promise<void> {
    const until = systemClock.monotonic() + idleMs;
    while (this.#count > 0 && systemClock.monotonic() < until) {
      await sleep(systemClock, until - systemClock.monotonic(), (wake) => this.#waiting.push(wake));
    }
  }
}

function say(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    ...{ 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': String(Buffer.byteLength(text)) },
    ...headers,
  });
  response.end(text);
}
