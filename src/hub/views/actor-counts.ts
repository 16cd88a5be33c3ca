/** How many actors run, and which were given up. */
import type { Supervisor } from '../../../machines/supervisor.ts';

export interface ActorCounts {
  /** By kind, then by state of its machine; `restarting` and `quarantined` are no states of a machine: the actor threw. */
  readonly counts: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly quarantined: readonly { readonly actor: string; readonly error: string | null }[];
}

/** Actors that were given up are few, or something is badly wrong: so many are named. */
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

/** A parallel machine counts under its first region: the connection, or the door. */
function stateName(value: unknown): string {
  if (typeof value === 'string') return value;
  const [first] = Object.values(value ?? {});
  return typeof first === 'string' ? first : 'unknown';
}
