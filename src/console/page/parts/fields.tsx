/** Filters that live in the address, so that a view can be shared, and the form and the table that all pages use. */
import type { ComponentChildren, JSX } from 'preact';
import { useContext } from 'preact/hooks';
import { useSearchParams } from 'wouter-preact';
import { IsBusy } from './states.tsx';

/**
 * Values of the query by name ('' when absent), and a function that changes some of them without a new history entry.
 */
export function useFilters<Name extends string>(
  names: readonly Name[],
): [Readonly<Record<Name, string>>, (changes: Partial<Record<Name, string>>) => void] {
  const [search, setSearch] = useSearchParams();
  const values = Object.fromEntries(names.map((name) => [name, search.get(name) ?? ''])) as Record<Name, string>;
  const change = (changes: Partial<Record<Name, string>>) => {
    const given = Object.entries<string>({ ...values, ...changes } as Record<string, string>);
    setSearch(new URLSearchParams(given.filter(([, value]) => value !== '')), { replace: true });
  };
  return [values, change];
}

/** The props of a field for one of the filters. */
export function fieldOf<Name extends string>(
  filters: Readonly<Record<Name, string>>,
  change: (changes: Partial<Record<Name, string>>) => void,
) {
  return (name: Name) => ({
    value: filters[name],
    onChange: (value: string) => change({ [name]: value } as Partial<Record<Name, string>>),
  });
}

export interface FilterProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

export interface TextFilterProps extends FilterProps {
  readonly placeholder?: string;
  /** The key `/` focuses the first filter of a page. */
  readonly isFirst?: boolean;
}

export function TextFilter({ label, value, onChange, placeholder, isFirst = false }: TextFilterProps) {
  return (
    <label>
      {label}
      <input
        type="search"
        value={value}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
        {...(isFirst && { 'data-filter': true })}
      />
    </label>
  );
}

interface ChoiceProps extends FilterProps {
  /** Pairs of value and label. */
  readonly options: readonly (readonly [string, string])[];
}

export function Choice({ label, value, options, onChange }: ChoiceProps) {
  return (
    <label>
      {label}
      <select value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
        {options.map(([option, shown]) => (
          <option key={option} value={option}>
            {shown}
          </option>
        ))}
      </select>
    </label>
  );
}

interface TableProps {
  /** For screen readers. */
  readonly caption: string;
  readonly columns: readonly string[];
  /** The columns of numbers, whose headings are at the right, above them. */
  readonly numbers?: readonly string[];
  readonly children: ComponentChildren;
}

/** A table with nothing beside it. */
export const TableCard = (props: TableProps) => (
  <div class="card">
    <Table {...props} />
  </div>
);

export function Table({ caption, columns, numbers = [], children }: TableProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what is wider than the screen is scrolled by keys, too
    <section class="table-scroll" aria-label={caption} aria-busy={useContext(IsBusy)} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column} scope="col" class={numbers.includes(column) ? 'number' : undefined}>
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}

interface FormProps extends Omit<JSX.FormHTMLAttributes<HTMLFormElement>, 'onSubmit'> {
  readonly onSubmit: (fields: FormData, submitter: HTMLElement | null) => void;
}

/** Sends nothing by itself: `onSubmit` gets its fields, and the button that submitted it. */
export function Form({ onSubmit, ...rest }: FormProps) {
  return (
    <form
      {...rest}
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit(new FormData(event.currentTarget), event.submitter);
      }}
    />
  );
}
