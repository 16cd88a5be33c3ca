/**
 * Triage of groups of dead letters: who takes care of one, until when it may wait, and what was remarked.
 *
 * DEAD-GROUPS-1  A triage ends with its group: when it survives a kill that its last dead letter was re-driven, discarded or
 *     trimmed. Later dead letters of the same kind are another matter, also while the store refuses the event of the end.
 */
import type { Put } from '../../../storage/contract.ts';
import { HubError } from '../../domain/errors.ts';
import type { Trace } from '../../domain/events.ts';
import type { PartyId } from '../../domain/party.ts';
import {
  type DeadGroupName,
  isSnoozed,
  nameOfGroup,
  type Triage,
  type TriageChange,
  type TriageEvent,
  triaged,
} from '../../domain/triage.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import type { Context } from '../kernel/context.ts';
import { rowData, unlisted } from '../kernel/row-codecs.ts';
import { untilDone } from '../kernel/until-done.ts';

const kind = 'triage';

/** Data of a row. */
export type TriagedGroup = DeadGroupName & { readonly triage: Triage };

export const triageStream = (name: string): string => `triage:${name}`;

export function triagePut(held: TriagedGroup): Put {
  return unlisted({ kind, owner: '', id: nameOfGroup(held) }, held);
}

export class DeadGroups {
  readonly #context: Context;
  readonly #dispatcher: Dispatcher;
  /** The triaged groups by name, and until when each is snoozed; remarks are in the rows alone, where an erasure finds them. */
  readonly #held = new Map<string, { readonly group: DeadGroupName } & Pick<Triage, 'snoozedUntil'>>();
  /** Triages that have ended, and their rows are not removed yet. [DEAD-GROUPS-1] */
  readonly #over = new Set<string>();

  constructor(context: Context, dispatcher: Dispatcher) {
    this.#context = context;
    this.#dispatcher = dispatcher;
    dispatcher.onCleared((group) => this.#cleared(group));
  }

  /** Loads what is stored; the dispatcher has recovered. */
  async recover(): Promise<void> {
    for await (const { data } of this.#context.store.scan(kind)) {
      const { triage, ...group } = data as TriagedGroup;
      this.#hold(group, triage);
    }
  }

  /** By name of the group. */
  async triages(): Promise<ReadonlyMap<string, Triage>> {
    const found = new Map<string, Triage>();
    for await (const { id, data } of this.#context.store.scan(kind)) {
      if (!this.#over.has(id)) found.set(id, (data as TriagedGroup).triage);
    }
    return found;
  }

  /** Dead letters of snoozed groups, by partner. */
  snoozed(): ReadonlyMap<PartyId, number> {
    const { directory, recorder } = this.#context;
    const found = new Map<PartyId, number>();
    const now = recorder.instant();
    for (const [name, { group, snoozedUntil }] of this.#held) {
      if (this.#over.has(name)) continue;
      const partner = isSnoozed({ snoozedUntil }, now) ? directory.partnerOf(group.receiver) : undefined;
      if (partner) found.set(partner.id, (found.get(partner.id) ?? 0) + this.#dispatcher.deadIn(group));
    }
    return found;
  }

  /** Throws `notFound` when the group has no dead letter. */
  change(group: DeadGroupName, change: TriageChange, trace: Trace): Promise<Triage> {
    const { recorder, store } = this.#context;
    const id = nameOfGroup(group);
    return recorder.inTurn(triageStream(id), async () => {
      await this.#end(group);
      if (this.#dispatcher.deadIn(group) === 0) throw new HubError('notFound');
      const before = await rowData<TriagedGroup>(store, { kind, owner: '', id });
      const by = trace.operator ?? 'operator';
      const triage = triaged(before?.triage, change, { at: recorder.instant(), by });
      const data = { ...group, triage };
      await this.#record({ type: 'triage.changed', data }, triagePut(data), trace);
      this.#hold(group, triage);
      return triage;
    });
  }

  #hold(group: DeadGroupName, { snoozedUntil }: Triage): void {
    this.#held.set(nameOfGroup(group), { group, snoozedUntil });
    // Its last dead letter may have gone before this was known.
    if (this.#dispatcher.deadIn(group) === 0) this.#cleared(group);
  }

  /** [DEAD-GROUPS-1] */
  #cleared(group: DeadGroupName): void {
    const name = nameOfGroup(group);
    if (!this.#held.has(name)) return;
    this.#over.add(name);
    const { recorder, ports } = this.#context;
    void untilDone(
      this.#context,
      () => recorder.inTurn(triageStream(name), () => this.#end(group)),
      (err) =>
        ports.log.error({ err, group: name }, 'could not end the triage of dead letters that are gone; retrying'),
    );
  }

  async #end(group: DeadGroupName): Promise<void> {
    const name = nameOfGroup(group);
    if (!this.#over.has(name)) return;
    const put = { kind, owner: '', id: name, gone: true } as const;
    await this.#record({ type: 'triage.ended', data: group }, put, null);
    this.#held.delete(name);
    this.#over.delete(name);
  }

  async #record(event: TriageEvent, put: Put, trace: Trace | null): Promise<void> {
    const { recorder } = this.#context;
    const facts = [{ stream: triageStream(nameOfGroup(event.data)), event, party: null }];
    await recorder.record({ facts, puts: [put], trace });
  }
}
