/** Counts actors by kind and state, and names the quarantined ones. */
import type { Supervisor } from '../../../machines/supervisor.ts';

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
