/** A table of deliveries. */
import { Link } from 'wouter-preact';
import type { DeliveryView } from '../../../api/deliveries.ts';
import { Badge } from '../parts/badge.tsx';
import { Table } from '../parts/fields.tsx';
import { Dash } from '../parts/states.tsx';
import { Instant, Until } from '../parts/time.tsx';

const columns = ['State', 'Receiver', 'Module', 'Object', 'Method', 'Accepted', 'Due', 'Attempts', 'Reason'];

interface DeliveryTableProps {
  readonly items: readonly DeliveryView[];
  readonly isOldestFirst: boolean;
}

export function DeliveryTable({ items, isOldestFirst }: DeliveryTableProps) {
  return (
    <Table
      caption={`Deliveries, ${isOldestFirst ? 'oldest' : 'newest'} first`}
      columns={columns}
      numbers={['Attempts']}
    >
      {items.map((delivery) => (
        <DeliveryRow key={delivery.id} delivery={delivery} />
      ))}
    </Table>
  );
}

function DeliveryRow({ delivery }: { delivery: DeliveryView }) {
  const { id, state, receiver, module, object, method, accepted_at, due_at, attempts } = delivery;
  return (
    <tr data-row>
      <td>
        <Badge state={state} />
      </td>
      <td class="mono">{receiver}</td>
      <td>{module}</td>
      <td class="mono object">
        <Link href={`/deliveries/${encodeURIComponent(id)}`} aria-label={`${object} to ${receiver}, delivery ${id}`}>
          {object}
        </Link>
      </td>
      <td>{method}</td>
      <td class="instant">
        <Instant value={accepted_at} />
      </td>
      <td class="instant">
        {state === 'PENDING' && due_at !== null ? <Until instantMs={Date.parse(due_at)} /> : <Dash />}
      </td>
      <td class="number">{attempts.length}</td>
      <td class="reason">{reasonOf(delivery)}</td>
    </tr>
  );
}

/** Why the delivery is in its state; nothing for a delivered one. */
function reasonOf({ state, class: met, reason, attempts }: DeliveryView) {
  if (state === 'DELIVERED') return <Dash />;
  const cause = reason ?? attempts.at(-1)?.excerpt ?? '';
  if (met === null) return <span class="quiet">{attempts.length === 0 ? 'not tried yet' : '–'}</span>;
  return (
    <span title={cause}>
      <b>{met}</b> {cause}
    </span>
  );
}
