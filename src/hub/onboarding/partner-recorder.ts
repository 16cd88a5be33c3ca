/**
 * Records the events of partners.
 *
 * PARTNER-RECORDER-1  What belongs together is one commit: after a kill all of it is there, or none.
 */
import type { Seq } from '../../../storage/contract.ts';
import type { Trace } from '../../domain/events.ts';
import { applyToPartner, type Partner, type PartnerEvent } from '../../domain/party.ts';
import type { Context } from '../kernel/context.ts';
import { partnerStream } from '../kernel/directory.ts';
import type { Recording } from '../kernel/recorder.ts';
import { partnerPut } from '../kernel/row-codecs.ts';
import type { PartnerActors } from '../partners/partner-actors.ts';

export type PartnerEvents = readonly [PartnerEvent, ...PartnerEvent[]];

/**
 * `dispatched`: what else follows from the change of a partner; it must not throw. [RECORDER-7] `late`: what the caller
 * gets when the change is not dispatched in time. [RECORDER-8]
 */
export type PartnerRecording = Pick<Recording, 'due' | 'unfenced' | 'seen'> & {
  readonly dispatched?: (partner: Partner) => void;
  readonly late?: 'refuse' | 'answer';
};

/** Records events of a partner in one commit, and sends them to its actor; resolves with the partner after them. */
export type RecordPartner = (
  before: Partner | null,
  events: PartnerEvents,
  trace: Trace | null,
  recording?: PartnerRecording,
) => Promise<Partner>;

export function partnerRecorder(context: Context, actors: PartnerActors): RecordPartner {
  const { recorder, supervisor, directory, ports } = context;
  return async (before, events, trace, { dispatched = () => {}, late, seen = [], ...rest } = {}) => {
    const at = recorder.instant();
    const partner = changed(before, events, at);
    const stream = partnerStream(partner.id);
    const facts = events.map((event) => ({ stream, event, party: partner.id }));
    const decided = { seen: [directory.seenOf(partner.id), ...seen], ...rest };
    const recording = { facts, puts: [partnerPut(partner)], ...decided, trace, at };
    const follow = (last: Seq) => {
      for (const [index, { type }] of events.entries()) {
        const seq = last - events.length + 1 + index;
        if (type === 'partner.added') actors.start(partner);
        else supervisor.send(stream, { type, at: ports.clock.steady(Date.parse(at)), seq });
      }
      dispatched(partner);
    };
    await recorder.recordDirectory(recording, follow, late);
    return partner;
  };
}

function changed(before: Partner | null, [first, ...others]: PartnerEvents, at: string): Partner {
  let partner = applyToPartner(before, first, at);
  for (const event of others) partner = applyToPartner(partner, event, at);
  return partner;
}
