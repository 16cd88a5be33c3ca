/**
 * The hub's live actors as signals, fed by the inspector: the wire protocol of `@statelyai/inspect`.
 *
 * ACTORS-1  Each actor is a signal of its own: a component that shows one actor renders again only when that actor
 *     changes.
 * ACTORS-2  After a reconnect the hub sends every actor again; an actor that it does not send is gone.
 * ACTORS-3  A burst of messages is applied in slices, so that the page stays responsive.
 */
import { batch, effect, type Signal, signal } from '@preact/signals';
import { moduleNames } from '../../../domain/modules.ts';
import { ApiError, call } from './api.ts';
import { token } from './session.ts';

export interface ActorSnapshot {
  readonly status: string;
  /** State value of a machine: a name, or regions with names; undefined while the actor restarts or is quarantined. */
  readonly value: unknown;
  readonly context: Readonly<Record<string, unknown>>;
}

export interface Transition {
  /** Epoch milliseconds. */
  readonly at: number;
  /** Type of the event that caused it; null when the message names none. */
  readonly event: string | null;
  readonly from: string;
  readonly to: string;
}

interface Supervision {
  readonly state: 'active' | 'restarting' | 'quarantined' | 'ended';
  readonly restarts: number;
  /** Error of its last failure. */
  readonly error: string | null;
}

export interface LiveActor {
  /** Stable and readable: `partner:NL-CPO`. */
  readonly id: string;
  readonly kind: string;
  readonly snapshot: ActorSnapshot;
  readonly supervision: Supervision;
  /** Transitions since the watch began, newest first. */
  readonly transitions: readonly Transition[];
}

/** Which actors to watch; an absent criterion matches any. */
export interface Interest {
  readonly kinds?: readonly string[];
  readonly parties?: readonly string[];
  readonly ids?: readonly string[];
}

export interface Watch {
  /** Unordered; the array changes only when an actor starts or ends. */
  readonly ids: Signal<readonly string[]>;
  readonly state: Signal<'connecting' | 'live' | 'lost'>;
  actor(id: string): Signal<LiveActor | null>;
  close(): void;
}

/**
 * The present state of an actor; null until it has arrived, and while the connection is lost: the last state that came is
 * then older than what the page asks for every few seconds.
 */
const presentActor = (watch: Watch | null, id: string): LiveActor | null =>
  watch?.state.value === 'live' ? watch.actor(id).value : null;

/** `CONNECTED`: the connection of a partner; null as for `presentActor`. */
export function liveStatus(watch: Watch | null, partner: string): string | null {
  const value = presentActor(watch, `partner:${partner}`)?.snapshot.value as { connection?: string } | undefined;
  return value?.connection?.toUpperCase() ?? null;
}

interface Message {
  readonly type: string;
  readonly sessionId?: string;
  readonly name?: string;
  readonly snapshot?: Partial<ActorSnapshot> & Pick<ActorSnapshot, 'status'>;
  readonly supervision?: Supervision;
  readonly event?: { readonly type?: string; readonly at?: number };
}

const transitionsMax = 50;
const gatherMs = 30;
/** Messages applied before the page gets its turn. A larger slice blocks input for longer. */
const sliceMax = 250;
const retryMs = [250, 500, 1000, 2000, 5000, 10_000] as const;
const protocol = 'ocpi-hub.inspector';
/** Statuses of actors that have ended. */
const ended = new Set(['done', 'stopped']);
const active: Supervision = { state: 'active', restarts: 0, error: null };
/** The hub refused the subscription: a reconnect would be refused again. */
const isRefusal = (code: number) => code === 1003 || code === 1008 || code === 1009;

/** Opens a WebSocket of its own, and reconnects until `close` or sign-out. */
export function watchActors(interest: Interest): Watch {
  const actors = new Map<string, Signal<LiveActor | null>>();
  const ids = signal<readonly string[]>([]);
  const state = signal<'connecting' | 'live' | 'lost'>('connecting');
  let shown = new Set<string>();
  let pending: string[] = [];
  let socket: WebSocket | null = null;
  let retries = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;

  const cell = (id: string) => {
    const known = actors.get(id);
    if (known) return known;
    const made = signal<LiveActor | null>(null);
    actors.set(id, made);
    return made;
  };

  /** A component that shows it renders again, and gets the signal of the next actor of this name. */
  const forget = (id: string) => {
    const known = actors.get(id);
    actors.delete(id);
    if (known) known.value = null;
  };

  /** Applies the next slice. Uses timers, because a hidden page gets no animation frames. [ACTORS-3] */
  const apply = () => {
    const texts = pending.splice(0, sliceMax);
    batch(() => {
      let isChanged = false;
      for (const text of texts) isChanged = take(JSON.parse(text) as Message) || isChanged;
      if (isChanged) ids.value = [...shown];
    });
    if (pending.length > 0) setTimeout(apply);
  };

  /** Applies one message; returns whether the list of actors changed. */
  const take = (message: Message): boolean => {
    const { type, sessionId, snapshot } = message;
    // [ACTORS-2]
    if (type === 'ocpi-hub.complete') {
      for (const id of actors.keys()) if (!shown.has(id)) forget(id);
      return true;
    }
    if (sessionId === undefined || snapshot === undefined) return false;
    if (ended.has(snapshot.status)) {
      forget(sessionId);
      return shown.delete(sessionId);
    }
    const actor = cell(sessionId);
    actor.value = next(actor.peek(), message, sessionId, snapshot);
    const isNew = !shown.has(sessionId);
    shown.add(sessionId);
    return isNew;
  };

  const connect = () => {
    const bearer = token.peek();
    if (isClosed || bearer === null) return;
    const opened = new WebSocket(address(interest), [protocol, `bearer.${encodeURIComponent(bearer)}`]);
    let wasOpen = false;
    socket = opened;
    opened.onopen = () => {
      wasOpen = true;
      retries = 0;
      shown = new Set();
      pending = [];
      state.value = 'live';
    };
    opened.onmessage = ({ data }) => {
      if (socket !== opened) return;
      if (pending.length === 0) setTimeout(apply, gatherMs);
      pending.push(data as string);
    };
    opened.onclose = ({ code }) => {
      if (socket !== opened || isClosed) return;
      state.value = 'lost';
      if (isRefusal(code)) return;
      timer = setTimeout(() => again(wasOpen), retryMs[Math.min(retries++, retryMs.length - 1)]);
    };
  };

  /**
   * Reconnects. A WebSocket that never opened gives no reason; a call of the admin API does, and signs out when the
   * token is the reason.
   */
  const again = (wasOpen: boolean) => {
    if (wasOpen) return connect();
    call('GET', '/caller')
      .catch((error: unknown) => {
        if (!(error instanceof ApiError)) throw error;
      })
      .finally(connect);
  };

  const stop = effect(() => {
    if (token.value !== null) connect();
    else shut(socket);
  });

  return {
    ids,
    state,
    actor: cell,
    close() {
      isClosed = true;
      stop();
      clearTimeout(timer);
      shut(socket);
    },
  };
}

/**
 * Closes the socket. Browsers log an error when a socket is closed while connecting: such a socket closes once it is
 * open.
 */
function shut(socket: WebSocket | null): void {
  if (socket?.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close();
  else socket?.close();
}

function address({ kinds, parties, ids }: Interest): string {
  const given = Object.entries({ kinds, parties, ids }).flatMap(([name, list]) =>
    list === undefined ? [] : [[name, list.join(',')]],
  );
  const query = new URLSearchParams([...given, ['definitions', 'once']]);
  return `${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/admin/v1/inspector?${query}`;
}

function next(
  before: LiveActor | null,
  message: Message,
  id: string,
  { status, value, context = {} }: NonNullable<Message['snapshot']>,
): LiveActor {
  const snapshot = { status, value, context };
  const kind = message.name ?? before?.kind ?? id.split(':', 1)[0] ?? '';
  const supervision = message.supervision ?? before?.supervision ?? active;
  const after = { id, kind, snapshot, supervision, transitions: before?.transitions ?? [] };
  if (before === null) return after;
  const [from, to] = [nameOf(before), nameOf(after)];
  if (from === to) return after;
  const { type, at = Date.now() } = message.event ?? {};
  const transition = { at, event: type || null, from, to };
  return { ...after, transitions: [transition, ...after.transitions].slice(0, transitionsMax) };
}

/** Name of its state, or of its supervision state while it restarts or is quarantined. */
function nameOf({ snapshot, supervision }: Pick<LiveActor, 'snapshot' | 'supervision'>): string {
  return snapshot.value === undefined ? supervision.state : stateName(snapshot.value);
}

/** `awaiting`, or for a machine with regions `door flowing · hold none`. */
export function stateName(value: unknown): string {
  if (typeof value === 'string') return value;
  return Object.entries(value ?? {})
    .map(([region, inner]) => `${region} ${stateName(inner)}`)
    .join(' · ');
}

/** Paths of the active states, each as `region.state`. */
export function activePaths(value: unknown, prefix = ''): string[] {
  if (typeof value === 'string') return [prefix + value];
  return Object.entries(value ?? {}).flatMap(([name, inner]) => [
    prefix + name,
    ...activePaths(inner, `${prefix}${name}.`),
  ]);
}

// The circuits of a partner: one for authorize and commands, one for results of commands, and one for the deliveries of
// each module. The hub starts the actor of a circuit with its first failure.

export const circuitNames = ['sync', 'results', ...moduleNames] as const;

export const circuitActor = (partner: string, circuit: string) => `circuit:${partner}/${circuit}`;

export const actorsOf = (partner: string): string[] => [
  ...[`partner:${partner}`, `courier:${partner}`],
  ...circuitNames.map((circuit) => circuitActor(partner, circuit)),
];

const states = ['open', 'halfOpen', 'closed'] as const;

/** The worst live state of some circuits of a partner; null when none of them has an actor, or the connection is lost. */
export function liveState(watch: Watch, partner: string, circuits: readonly string[]): string | null {
  const live = circuits.flatMap((circuit) => {
    const value = presentActor(watch, circuitActor(partner, circuit))?.snapshot.value;
    return value === undefined ? [] : [typeof value === 'string' ? value : 'halfOpen'];
  });
  return states.find((state) => live.includes(state)) ?? null;
}
