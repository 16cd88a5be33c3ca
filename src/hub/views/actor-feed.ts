/**
 * Feeds the inspector with the running actors and their changes, without secrets; counts
 * them by kind and state for operators.
 *
 * ACTOR-FEED-1  Without watchers the feed reads, copies and keeps nothing.
 * ACTOR-FEED-2  Contexts, events and errors pass an allow-list: a new field of a machine is hidden until it is listed.
 */
import type { AnyStateMachine, EventObject } from 'xstate';
import type { ActorView, Supervisor } from '../../../machines/supervisor.ts';
import { keyOf, type PartyId } from '../../domain/party.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Context } from '../kernel/context.ts';
import type { PartnerDirectory } from '../kernel/directory.ts';
import type { WatchedActor, WatchedEvent } from '../ports/actor-view.ts';
import type { Operations } from '../ports/operator.ts';

export type ActorFeed = Pick<Operations, 'actors' | 'actor' | 'watch'>;

/** Context fields that may be shown, by kind of actor. [ACTOR-FEED-2] */
const shownContext: Readonly<Record<string, readonly string[]>> = {
  partner: ['rules', 'failingSince'],
  courier: ['slotsMax'],
  // Not the objects that failed: the id of a token is a card number.
  circuit: ['rules', 'slots', 'failures', 'calls', 'failed', 'sampledFrom', 'openMs', 'successes', 'until'],
  command: ['due', 'result', 'accepted'],
  'orphan-stop': ['due'],
  'orphan-cdr': ['due'],
};

/** Fields of contexts that hold hub time. */
const hubTimes: ReadonlySet<string> = new Set(['due', 'until', 'sampledFrom', 'failingSince']);

/** Results of commands that OCPI defines; any other text of a CPO is shown as `other`. [OCPI mod_commands] */
const knownResults: ReadonlySet<unknown> = new Set([
  ...['ACCEPTED', 'REJECTED', 'NOT_SUPPORTED', 'UNKNOWN_SESSION'],
  ...['CANCELED_RESERVATION', 'EVSE_OCCUPIED', 'EVSE_INOPERATIVE', 'FAILED', 'TIMEOUT', 'UNKNOWN_RESERVATION'],
]);

const errorLengthMax = 200;

export function actorFeed({ supervisor, directory, ports: { clock } }: Context): ActorFeed {
  const definitions = new Map<string, string>();

  function shown(view: ActorView): WatchedActor {
    const { id, kind, restarts, machine } = view;
    let definition = definitions.get(kind);
    if (definition === undefined) {
      definition = definitionOf(machine);
      definitions.set(kind, definition);
    }
    const error = view.error === null ? null : withoutQuotes(view.error);
    const parties = concerned(directory, view);
    return {
      id,
      kind,
      parties,
      definition,
      state: view.status,
      snapshot: snapshotOf(view, error, clock),
      restarts,
      error,
    };
  }

  return {
    *actors() {
      for (const view of supervisor.views()) yield shown(view);
    },
    actor(id) {
      const view = supervisor.view(id);
      return view && shown(view);
    },
    watch: ({ changed, ended }) =>
      supervisor.watch({
        changed: (id, event) => changed(id, event && shownEvent(event, clock)),
        ended: (last) => ended(shown(last)),
      }),
  };
}

/** The machine's configuration as `@statelyai/inspect` sends it (functions by name), without context. [ACTOR-FEED-2] */
function definitionOf({ config }: AnyStateMachine): string {
  const { context: _notShown, ...chart } = config;
  return JSON.stringify(chart, (_key, value: unknown) => (typeof value === 'function' ? { type: value.name } : value));
}

function snapshotOf({ kind, snapshot }: ActorView, error: string | null, clock: Clock): WatchedActor['snapshot'] {
  if (!snapshot) return { status: 'error', error: error ?? 'it is being rebuilt' };
  const context: Record<string, unknown> = {};
  for (const key of shownContext[kind] ?? [])
    if (key in snapshot.context) context[key] = timesShown(key, snapshot.context[key], clock);
  if ('result' in context) context.result = knownResult(context.result);
  return { status: snapshot.status, value: snapshot.value, context };
}

/** Machines know hub time; readers see the time of day. */
function timesShown(key: string, value: unknown, clock: Clock): unknown {
  if (typeof value === 'number') return hubTimes.has(key) ? clock.stamp(value) : value;
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, timesShown(name, inner, clock)]));
}

function shownEvent(event: EventObject, clock: Clock): WatchedEvent {
  const { type, at, data } = event as { type: string; at?: number; data?: { result?: unknown } };
  const shown = at === undefined ? { type } : { type, at: clock.stamp(at) };
  return data?.result === undefined ? shown : { ...shown, data: { result: String(knownResult(data.result)) } };
}

function knownResult(result: unknown): unknown {
  return result === null || knownResults.has(result) ? result : 'other';
}

/** Removes quoted text, credentials in URLs and long tokens: an error of the hub may quote a partner's input. */
function withoutQuotes(text: string): string {
  const plain = text.replace(/"[^"]*"/g, '"…"').replace(/\/\/[^/@\s]*@/g, '//…@');
  return plain.replace(/[\w+/=.~%-]{20,}/g, '…').slice(0, errorLengthMax);
}

/** Ids that the actor concerns: for each party its partner first, then the party. */
function concerned(directory: PartnerDirectory, { kind, parties }: ActorView): PartyId[] {
  const ids = new Set<PartyId>();
  for (const id of parties) {
    const partner = directory.partner(id) ?? directory.partnerOf(id);
    if (partner) ids.add(partner.id);
    ids.add(id);
    if (partner && (kind === 'partner' || kind === 'courier' || kind === 'circuit'))
      for (const role of partner.roles) ids.add(keyOf(role));
  }
  return [...ids];
}

// Counts actors by kind and state, and names the quarantined ones.

export interface ActorCounts {
  /** By kind, then by state of the machine; `restarting` and `quarantined` count actors that threw. */
  readonly counts: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly quarantined: readonly { readonly actor: string; readonly error: string | null }[];
}

/** Quarantined actors that are named at most; more would only mean that the hub itself is broken. */
const quarantinedMax = 100;

export function actorCounts(supervisor: Supervisor): ActorCounts {
  const counts: Record<string, Record<string, number>> = {};
  const quarantined: { actor: string; error: string | null }[] = [];
  for (const { id, kind, status, snapshot, error } of supervisor.views()) {
    const name = status === 'active' ? stateName(snapshot?.value) : status;
    if (status === 'quarantined' && quarantined.length < quarantinedMax) quarantined.push({ actor: id, error });
    counts[kind] ??= {};
    counts[kind][name] = (counts[kind][name] ?? 0) + 1;
  }
  return { counts, quarantined };
}

/** The regions of the parallel machines that say how the actor is. */
const regions: ReadonlySet<string> = new Set(['connection', 'door']);

/** Name of the state; of a parallel machine that of its region, of a state within a state (`halfOpen`) the outer one. */
function stateName(value: unknown): string {
  if (typeof value === 'string') return value;
  const [[name, inner] = ['unknown']] = Object.entries(value ?? {});
  return regions.has(name) && typeof inner === 'string' ? inner : name;
}
