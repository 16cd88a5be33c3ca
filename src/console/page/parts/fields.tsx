/**
 * Filters that live in the address, so that a view can be shared, and the form and the table that all pages use. Fields
 * for filters that the hub applies are debounced, so that a half-typed id causes no request.
 */
import type { ComponentChildren, JSX } from 'preact';
import { useContext, useEffect, useId, useRef, useState } from 'preact/hooks';
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

interface TextFilterProps extends FilterProps {
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

const settleMs = 450;

/** Of a whole party id. */
export const partyPattern = { test: /^[A-Za-z]{2}-[A-Za-z0-9]{1,3}$/, hint: 'Country and party, for example NL-EMS' };

interface SettledFieldProps extends TextFilterProps {
  /** Suggestions while typing. */
  readonly options?: readonly string[];
  /** What a value must match to be sent, and the hint for one that does not. */
  readonly pattern?: { readonly test: RegExp; readonly hint: string };
}

export function SettledField(props: SettledFieldProps) {
  const { label, value, onChange, placeholder, options = [], pattern, isFirst = false } = props;
  const [draft, setDraft] = useState(value);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  useEffect(() => setDraft(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const hint = useId();
  const list = `${label.toLowerCase().replaceAll(' ', '-')}-offered`;
  const isWrong = draft !== '' && pattern?.test.test(draft) === false;

  const settle = (text: string) => {
    clearTimeout(timer.current);
    const wanted = text.trim();
    if (wanted !== value && (wanted === '' || pattern?.test.test(wanted) !== false)) onChange(wanted);
  };
  return (
    <div class="settled">
      <label>
        {label}
        <input
          type="search"
          value={draft}
          placeholder={placeholder}
          spellcheck={false}
          autocomplete="off"
          list={options.length > 0 ? list : undefined}
          aria-invalid={isWrong}
          aria-describedby={isWrong ? hint : undefined}
          onInput={({ currentTarget }) => {
            const text = currentTarget.value;
            setDraft(text);
            clearTimeout(timer.current);
            timer.current = setTimeout(() => settle(text), settleMs);
          }}
          onKeyDown={({ key, currentTarget }) => key === 'Enter' && settle(currentTarget.value)}
          onBlur={({ currentTarget }) => settle(currentTarget.value)}
          {...(isFirst && { 'data-filter': true })}
        />
        {options.length > 0 && <Offered id={list} values={options} />}
      </label>
      <p id={hint} class="hint">
        {isWrong && pattern?.hint}
      </p>
    </div>
  );
}

/** What the fields that name it by `list` offer while something is typed. */
export function Offered({ id, values }: { id: string; values: readonly string[] }) {
  return (
    <datalist id={id}>
      {values.map((value) => (
        <option key={value} value={value} />
      ))}
    </datalist>
  );
}

/** `value`: RFC 3339, or empty. Shown in local time, stored in UTC: an address means the same instant in every time zone. */
export function InstantField({ label, value, onChange }: FilterProps) {
  return (
    <label>
      {label}
      <input
        type="datetime-local"
        step="1"
        value={localOf(value, 'seconds')}
        onChange={({ currentTarget }) => onChange(currentTarget.value && new Date(currentTarget.value).toISOString())}
      />
    </label>
  );
}

/** An instant in the format of `datetime-local`: local time, no zone; empty for none. */
export function localOf(instant: string, to: 'minutes' | 'seconds'): string {
  const date = new Date(instant);
  if (instant === '' || Number.isNaN(date.getTime())) return '';
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, to === 'minutes' ? 16 : 19);
}
