/** The dependencies that every part of the hub shares. */
import type { Supervisor } from '../../../machines/supervisor.ts';
import type { Store } from '../../../storage/contract.ts';
import type { Trace } from '../../domain/events.ts';
import type { HubPorts, HubSettings } from '../ports/ports.ts';
import type { BreakerFeed } from './breaker-feed.ts';
import type { Circuits } from './circuits.ts';
import type { Contacts } from './contacts.ts';
import type { PartnerDirectory } from './directory.ts';
import type { Recorder } from './recorder.ts';
import type { Timers } from './timers.ts';

export interface Context {
  readonly store: Store;
  readonly directory: PartnerDirectory;
  readonly recorder: Recorder;
  readonly supervisor: Supervisor;
  readonly circuits: Circuits;
  readonly breakerFeed: BreakerFeed;
  readonly contacts: Contacts;
  readonly timers: Timers;
  readonly ports: HubPorts;
  readonly settings: HubSettings;
}

/** A trace for work that the hub starts by itself, without a request. */
export function newTrace({ ports: { secrets } }: Pick<Context, 'ports'>): Trace {
  return { requestId: secrets.newId(), correlationId: secrets.newId() };
}

/** Notifies an actor when its deadline passes; null: it waits for none. */
export function wakeAt({ timers, supervisor }: Context, actor: string, due: number | null): void {
  if (due === null) timers.disarm(actor);
  else timers.arm(actor, due, (at) => supervisor.send(actor, { type: 'deadline.passed', at }));
}
