/**
 * Why a pending delivery waits, derived from its receiver's partner: paused, circuit open, back-off, or its turn in the
 * lane.
 */
import { Link } from 'wouter-preact';
import type { DeliveryView } from '../../../api/deliveries.ts';
import type { PartyView } from '../../../api/parties.ts';
import { count, span } from '../data/format.ts';
import { useQuery } from '../data/query.ts';
import { Until } from '../parts/time.tsx';

export function WhyItWaits({ delivery }: { delivery: DeliveryView }) {
  const { data } = useQuery<PartyView>(`/parties/${encodeURIComponent(delivery.receiver)}`, 5_000);
  return (
    <p class="finding wait" role="status">
      {reasonOf(delivery, data)}
      {data && <PartnerLink party={data} />}
    </p>
  );
}

function reasonOf({ receiver, module, due_at, attempts }: DeliveryView, party: PartyView | undefined) {
  const circuit = party?.circuits.find(({ circuit }) => circuit === module);
  if (party?.settings.paused) return `It waits: an operator has paused deliveries to ${receiver}. `;
  if (circuit?.state === 'open') {
    const { failures } = circuit;
    const why =
      failures > 0
        ? `${module} failed at ${receiver} ${count(failures)} times in a row, so their circuit is open`
        : `the circuit for ${module} of ${receiver} is open`;
    return (
      <>
        It waits: {why}
        {circuit.until !== null && (
          <>
            ; next try <Until instantMs={Date.parse(circuit.until)} />
          </>
        )}
        .{' '}
      </>
    );
  }
  if (due_at !== null) {
    return (
      <>
        Next try <Until instantMs={Date.parse(due_at)} />.{' '}
      </>
    );
  }
  if (attempts.length === 0) return 'It waits for its turn: what went before it for the same object goes first. ';
  return 'It waits for its turn. ';
}

function PartnerLink({ party: { id, queue } }: { party: PartyView }) {
  const oldest = queue.oldest_age_s === null ? '' : `, the oldest for ${span(queue.oldest_age_s)}`;
  return (
    <Link href={`/partners/${encodeURIComponent(id)}`}>
      {count(queue.depth)} {queue.depth === 1 ? 'waits' : 'wait'} for {id}
      {oldest}
    </Link>
  );
}
