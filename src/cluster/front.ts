/**
 * The request router of a node: takes every request, and has it answered by the hub here, by the door here, or by the
 * owner on another node.
 *
 * FRONT-1  The front itself answers what concerns the node and not the hub: liveness, readiness, the node's metrics and
 *     cluster view while no hub runs here, and the messages of other nodes.
 * FRONT-2  A held request is unread; after `holdMs` it is refused.
 * FRONT-3  Messages between nodes are answered to nodes alone, and never passed on: a client's message would then come
 *     through this node's channel, and the next node would accept it.
 * FRONT-4  A door is ready, unless the owner is alive but has not answered this node for longer than two leases, or
 *     another process answers at the owner's address: registrations would fail here, while other nodes can take them.
 *     If the owner has answered there before, the other process is the killed owner started again, and another node
 *     becomes the owner when the lease has run out. One lease is too short: a dead owner counts as alive for up to a
 *     third of a lease longer (LEASES-8, HEARTBEAT-1), and all doors at once would not be ready meanwhile.
 * FRONT-5  A request that lay unread during a process pause, and whose caller has disconnected since, is not passed on:
 *     the owner would take it for a new one.
 * FRONT-6  `/readyz` is answered within `promptMs`, also while another node is silent: load balancers give a check a
 *     second or little more, so an owner that hangs would take every door out of service.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { withTimeout } from '../kit/clock.ts';
import { Running } from '../kit/concurrency.ts';
import { type IsStale, processPauses } from '../kit/stale.ts';
import { systemClock } from '../kit/system-clock.ts';
import { type Addresses, isAnother, notReadyYet, type Reached } from './addresses.ts';
import { type ChannelDoor, channelPath } from './channel.ts';
import { type Grant, readGrants } from './grant-sharing.ts';
import type { HubNode } from './node.ts';
import { peersPath, type Target } from './node-auth.ts';
import type { Passing } from './passing.ts';
import { pathOf, refuse, refuseUpgrade } from './refusal.ts';

interface From {
  readonly isHop: boolean;
  readonly isStale: IsStale;
}

/** Longest hold of a request; it must cover a handover, else one is visible to clients as 503. [FRONT-2] */
const holdMs = 8000;
/** Requests held at once; a further one is refused. Bounds memory and sockets while no node serves. */
const heldMax = 2000;
/** Timeout of asking other nodes for the answer of `/readyz`. */
const readyMs = 2000;
/** Longest wait of `/readyz` for other nodes; must stay well below the `timeout check` of haproxy.cfg. [FRONT-6] */
const promptMs = 500;
/** How long an owner that counts as alive may be silent, in leases. [FRONT-4] */
const silentLeases = 2;
/** Longest wait for requests in flight to end when a node hands over. */
const idleMs = 10_000;

export interface FrontParts {
  readonly node: HubNode;
  readonly passing: Passing | null;
  readonly addresses: Addresses;
  /** Whether every node answers requests of this URL by itself. [NODE-6] */
  readonly isAtEveryNode: (url: string) => boolean;
  /** Accepts channels of peers at the listener of the partners; null: there is another listener for them, or no peer. */
  readonly channels: Pick<ChannelDoor, 'accept'> | null;
  /** Whether a peer sent the request: passed on from a client, or a message of its own. */
  readonly isHop: (request: IncomingMessage) => boolean;
  /** Handlers by path that answer for the node while no hub runs here; each checks the token itself. */
  readonly own: Readonly<Record<string, (request: IncomingMessage, response: ServerResponse) => void>>;
  /** Whether operators are served where the request came in. */
  readonly isForOperators: (request: IncomingMessage) => boolean;
  readonly look: () => Promise<void>;
  /** Another node granted a partner requests. */
  readonly granted: (grant: Grant) => void;
  readonly leaseMs: number;
}

export class Front {
  readonly #parts: FrontParts;
  /** The held requests, as functions that try again to place them. */
  readonly #held = new Set<() => void>();
  /** Requests in flight: those that the hub here answers, and those passed on to a peer. */
  readonly #answered = new Running();
  readonly #passed = new Running();
  readonly #pauses = processPauses(systemClock);
  #isLast = false;
  /** The owner that does not answer readiness checks, since when, and how long it may; monotonic, ms. [FRONT-4] */
  #silent: { readonly id: string; readonly since: number; readonly mayMs: number } | null = null;
  /** The last owner that answered at its address. [FRONT-4] */
  #met = '';

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
    const own = this.#parts.isForOperators(request) ? this.#parts.own[path] : undefined;
    const { serving } = this.#parts.node;
    if (own !== undefined) return serving === null ? own(request, response) : serving.handle(request, response);
    this.#settle(request, response, isHop);
  };

  readonly upgrade = (request: IncomingMessage, socket: Duplex, head: Buffer): void => {
    const isHop = this.#parts.isHop(request);
    const path = pathOf(request);
    const { channels } = this.#parts;
    if (path === channelPath && channels !== null) return channels.accept(request, socket, head);
    if (this.#isLast) return refuseUpgrade(request, socket);
    if (path.startsWith(peersPath)) return refuseUpgrade(request, socket);
    const place = this.#parts.node.place(isHop);
    if (place.kind === 'here') place.hub.upgrade(request, socket, head);
    else if (place.kind === 'peer') this.#parts.passing?.upgrade(request, socket, head, place.target);
    else refuseUpgrade(request, socket);
  };

  /** From now on every answer closes its connection, so that clients connect to another node. */
  last(): void {
    this.#isLast = true;
  }

  /** Ends upgraded connections. */
  close(): void {
    this.#pauses.close();
    this.#parts.passing?.endUpgrades();
  }

  /** Resolves when no request to the hub here is in flight, or after `idleMs`. */
  async idle(): Promise<void> {
    await withTimeout(systemClock, idleMs, this.#answered.ended());
  }

  /** Resolves when no request that was passed on is in flight, or after `idleMs`. */
  async landed(): Promise<void> {
    await withTimeout(systemClock, idleMs, this.#passed.ended());
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

  /** Answers, passes on or refuses the request; false when the request must be held. */
  #sent(request: IncomingMessage, response: ServerResponse, { isHop, isStale }: From): boolean {
    const place = this.#parts.node.place(isHop);
    const door = place.kind !== 'here' && this.#parts.isAtEveryNode(request.url ?? '') ? this.#parts.node.door : null;
    if (door !== null) {
      door.handle(request, response);
      return true;
    }
    if (place.kind === 'wait') return false;
    if (place.kind === 'here') {
      this.#answered.add(closed(response));
      place.hub.handle(request, response);
    } else if (place.kind === 'peer') {
      this.#passed.add(closed(response));
      void this.#pass(request, response, place.target, isStale);
    } else refuse(request, response);
    return true;
  }

  /** [FRONT-5] */
  async #pass(request: IncomingMessage, response: ServerResponse, target: Target, isStale: IsStale): Promise<void> {
    const found = isStale();
    // Without a pause nothing is awaited, so the request is passed on in this turn.
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
    const { node, addresses, look, granted } = this.#parts;
    const [verb, of = '', sealing] = what.split('/').map(decodedOf);
    if (verb === null || of === null) return say(response, 400, {});
    if (!verbs.has(verb ?? '')) return say(response, 404, {});
    const done = () => say(response, 200, {});
    const seq = Number(of);
    if (verb === 'owns') return say(response, node.role === 'owner' ? 200 : 404, {});
    if (verb === 'settling') return say(response, node.serving?.isSettling(of) ? 200 : 404, {});
    if (verb === 'is') return say(response, addresses.isAskedFor(of, sealing) ? 200 : isAnother, {});
    if (verb === 'self') return say(response, addresses.isThis(of) ? 200 : isAnother, {});
    if (verb === 'ready' && !addresses.isThis(of)) return say(response, isAnother, {});
    // An isolated node answers from memory what is passed on to it. [NODE-5]
    const answers = node.role === 'owner' || node.role === 'isolated';
    if (verb === 'ready') return say(response, answers ? 200 : notReadyYet, {});
    if ((verb === 'head' || verb === 'directory') && !Number.isSafeInteger(seq)) return say(response, 400, {});
    if (verb === 'head') {
      node.follow(seq);
      return done();
    }
    if (verb === 'directory') return void node.doorway.followed(seq).then(done, done);
    if (verb === 'granted') {
      const grants = readGrants(of);
      if (grants === null) return say(response, 400, {});
      for (const grant of grants) granted(grant);
      return done();
    }
    const looked = look();
    if (verb === 'leaving') node.handsOver(of).then(done, done);
    else looked.then(done, done);
  }

  /** Answers `/readyz`: whether a request that arrives now could be answered. */
  #answerReady(request: IncomingMessage, response: ServerResponse, isHop: boolean): void {
    const { node, passing, addresses } = this.#parts;
    const place = node.place(isHop);
    const notReady = () => {
      const { role, warning } = node;
      const body = { status: 'not ready', role, reason: notReadyReasons[role], ...(warning !== null && { warning }) };
      say(response, 503, body, { 'retry-after': '1' });
    };
    if (node.role === 'leaving') return notReady();
    const ready = () => {
      const { role, warning } = node;
      say(response, 200, { status: 'ready', role, ...(warning !== null && { warning }) });
    };
    // An isolated node is ready only while no other node is the owner, which could answer everything. [NODE-5]
    if (node.role === 'isolated') {
      const other = promptly(node.neighbours.hasOwner(readyMs));
      return void other.then((isOther) => (isOther ? notReady() : ready()), notReady);
    }
    if (node.serving !== null) return node.serving.handle(request, response);
    if (place.kind !== 'peer' || passing === null) return node.door === null ? notReady() : ready();
    const { target } = place;
    const asked = addresses.isReady(target, readyMs).then(({ by, isReady }) => {
      this.#heard(target.id, by);
      return isReady;
    });
    promptly(asked).then((isReady) => (isReady || this.#isDoor(target.id) ? ready() : notReady()), notReady);
  }

  /** Notes who answered where the owner should. [FRONT-4] */
  #heard(owner: string, by: Reached): void {
    if (by === 'itself') {
      this.#silent = null;
      this.#met = owner;
      return;
    }
    const since = this.#silent?.id === owner ? this.#silent.since : systemClock.monotonic();
    // A killed owner does not answer until the next takes over; a wrong address never gets better.
    const mayWait = by === 'nobody' || this.#met === owner;
    this.#silent = { id: owner, since, mayMs: mayWait ? silentLeases * this.#parts.leaseMs : 0 };
  }

  /** [FRONT-4] */
  #isDoor(owner: string): boolean {
    const silent = this.#silent?.id === owner ? this.#silent : null;
    const isSilent = silent !== null && systemClock.monotonic() - silent.since >= silent.mayMs;
    return this.#parts.node.door !== null && !isSilent;
  }
}

/** What `work` finds within `promptMs`, else null; the work goes on. [FRONT-6] */
async function promptly<T>(work: Promise<T>): Promise<T | null> {
  return (await withTimeout(systemClock, promptMs, work)) ? work : null;
}

/** All that nodes ask of each other: no message names a URL to be called, or carries a token. [FRONT-3] */
const verbs: ReadonlySet<string> = new Set([
  'owns',
  'settling',
  'is',
  'self',
  'ready',
  'head',
  'directory',
  'granted',
  'leaving',
  'look',
]);

/** Why a node of this role is not ready. */
const notReadyReasons: Readonly<Record<HubNode['role'], string>> = {
  owner: 'recovering',
  gaining: 'recovering',
  standby: 'no owner that is ready can be reached',
  isolated: 'the database cannot be reached, and another node is the owner',
  leaving: 'the node is leaving',
};

const closed = (response: ServerResponse) => new Promise<void>((resolve) => void response.once('close', resolve));

function say(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(text)),
    ...headers,
  });
  response.end(text);
}

/** Null for a malformed escape: nothing that a peer sends may throw. */
function decodedOf(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
