/** Filters of the list of deliveries; every criterion is part of the address. */
import { moduleNames } from '../../../domain/modules.ts';
import { Choice, fieldOf, InstantField, partyPattern, SettledField } from '../parts/fields.tsx';
import { failures } from './deliveries-words.ts';

const criteria = ['state', 'receiver', 'partner', 'sender', 'module', 'class', 'object', 'from', 'to'] as const;
export const filterNames = [...criteria, 'order'] as const;

/** Filters of deliveries, and their order, as in the address; '' for none. */
export type DeliveryFilterValues = Readonly<Record<(typeof filterNames)[number], string>>;

export const isFilteredBy = ({ order: _order, ...filters }: DeliveryFilterValues): boolean =>
  Object.values(filters).some((value) => value !== '');

const states = [
  ['', 'all states'],
  ['PENDING', 'pending'],
  ['DELIVERED', 'delivered'],
  ['DEAD', 'dead'],
  ['DISCARDED', 'discarded'],
] as const;
const orders = [
  ['', 'newest first'],
  ['oldest', 'oldest first'],
] as const;

interface DeliveryFiltersProps {
  readonly values: DeliveryFilterValues;
  readonly change: (changes: Partial<DeliveryFilterValues>) => void;
  readonly receivers: readonly string[];
}

export function DeliveryFilters({ values, change, receivers }: DeliveryFiltersProps) {
  const field = fieldOf(values, change);
  return (
    <search class="filters" aria-label="Filter of deliveries">
      <Choice label="State" {...field('state')} options={states} />
      <SettledField
        label="Receiver"
        placeholder="NL-EMS"
        value={values.receiver}
        options={receivers}
        pattern={partyPattern}
        onChange={(receiver) => change({ receiver: receiver.toUpperCase() })}
        isFirst
      />
      <SettledField
        label="Sender"
        placeholder="NL-CPO"
        value={values.sender}
        pattern={partyPattern}
        onChange={(sender) => change({ sender: sender.toUpperCase() })}
      />
      {values.partner !== '' && (
        <button type="button" class="plain" onClick={() => change({ partner: '' })}>
          Only to partner {values.partner} ✕
        </button>
      )}
      <Choice
        label="Module"
        {...field('module')}
        options={[['', 'all modules'], ...moduleNames.map((module) => [module, module] as const)]}
      />
      <Choice
        label="Ended with"
        {...field('class')}
        options={[['', 'any class'], ...failures.map((each) => [each, each] as const)]}
      />
      <SettledField label="Object" placeholder="NL-CPO/101" {...field('object')} />
      <InstantField label="Accepted from" {...field('from')} />
      <InstantField label="Accepted before" {...field('to')} />
      {recent.map(([label, hours]) => (
        <button key={label} type="button" class="plain" onClick={() => change({ from: hoursAgo(hours), to: '' })}>
          {label}
        </button>
      ))}
      <Choice label="Order" {...field('order')} options={orders} />
      {isFilteredBy(values) && (
        <button type="button" class="plain" onClick={() => change(nothing)}>
          Clear
        </button>
      )}
    </search>
  );
}

const recent = [
  ['Last hour', 1],
  ['Last day', 24],
] as const;
const hourMs = 3_600_000;

/** Truncated to the second, so that the address stays short. */
const hoursAgo = (hours: number) => new Date(Date.now() - hours * hourMs).toISOString().replace(/\.\d+/, '');

const nothing: Partial<DeliveryFilterValues> = Object.fromEntries(criteria.map((name) => [name, '']));
